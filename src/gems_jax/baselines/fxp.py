"""Fictitious Cross-Play (FXP): a main policy that plays against its own past and against counter policies.

Every population has a *main* policy, which never stops learning, and *counters*. In an iteration

    main      goes on against the others' past mains, itself included, with probability eta (fictitious self-play), and
              against their counters otherwise (cross-play)
    counter   answers the others' past mains

and both are stored. With eta = 1 it is fictitious self-play, with small eta it comes near PSRO. Self-play alone may
stay in a local equilibrium of a team game, which counters find their way out of. What is played is the uniform mixture
of the mains; that, and uniform draws from the past, are this project's readings.                    (Xu et al. 2023)

A store holds main policies in its even slots and counters in the odd ones. With exact responses a main policy is a best
response at once: mains and counters are then the same, and the method is fictitious play.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import SHARE, choice, real, size
from gems_jax.explicit.budget import Pace, new_pace, rounds_of, settle
from gems_jax.explicit.cost import ExplicitMetrics, explicit_metrics
from gems_jax.explicit.ppo import ppo_oracle
from gems_jax.explicit.responses import Mixture, exact, exact_oracle
from gems_jax.explicit.settings import ExplicitSettings, learning_of
from gems_jax.explicit.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.population import StackedPolicies
from gems_jax.simplex import masked_uniform
from gems_jax.types import Array, Game, Profile, PyTree, Solver, nbytes, num_populations, struct


@struct
class FxpConfig(ExplicitSettings):
    """Settings of Fictitious Cross-Play."""

    capacity: int = size(16)
    """Policies per population, mains and counters, that there is room for at first; doubled whenever that is full."""
    keep_counter: bool = choice(False)
    """A counter goes on from the last one instead of starting afresh."""
    eta: float = real(0.5, SHARE)
    """How often the main policy meets past mains rather than counters."""


@struct
class FxpState:
    store: Store  # mains in even slots, counters in odd ones
    main: PyTree  # [P, ...], the learner behind the newest main policy
    counter: PyTree  # [P, ...], the same of the newest counter
    sigma_average: Array  # [P, K], over the iterations so far
    pace: Pace
    step: Array  # [] int32


def shares(active: Array, eta: Array | float) -> tuple[Array, Array]:
    """Whom the main policy meets and whom the counter meets, [P, K] each."""
    even = (jnp.arange(active.shape[1]) % 2 == 0)[None]
    mains = jax.vmap(masked_uniform)(active & even)
    return eta * mains + (1 - eta) * jax.vmap(masked_uniform)(active & ~even), mains


def fxp_solver(game: Game, config: FxpConfig) -> Solver:
    """Fictitious Cross-Play, any number of players. Its step runs in Python."""
    config = config.for_game(game)
    if config.oracle == "exact":
        oracle = exact(game, exact_oracle(game))
    else:
        oracle = ppo_oracle(game, learning_of(config, game))
    everyone = np.ones(num_populations(game), bool)

    def policies(store: Store) -> StackedPolicies:
        return StackedPolicies(store.params, oracle.network)

    def init(key: Array) -> FxpState:
        main, counter = (oracle.first(k) for k in jax.random.split(key))
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *map(oracle.policy, (main, counter)))
        store = new_store(both, max(config.capacity, 2))
        _, mains = shares(store.active, 1.0)
        return FxpState(store, main, counter, mains, new_pace(game, config), jnp.int32(0))

    def step(state: FxpState, key: Array) -> tuple[FxpState, ExplicitMetrics]:
        key_main, key_counter = jax.random.split(key)
        rounds = max(int(rounds_of(state.pace, config)) // 2, 1)
        meets, past = shares(state.store.active, config.eta)
        mixture = Mixture(policies(state.store), state.store.active, meets)
        main = oracle.respond(key_main, mixture, state.main, rounds=rounds)
        counter = oracle.respond(
            key_counter, mixture._replace(sigma=past), state.counter if config.keep_counter else None, rounds=rounds
        )
        store = widen(state.store, room(state.store, 2))
        for newcomer in (main, counter):
            store, _ = append(store, newcomer.params, everyone)
        _, mains = shares(store.active, 1.0)
        before = int(state.step)
        average = running_mean(pad_slots(state.sigma_average, store.capacity, (1,)), mains, before)
        cost = main.cost.plus(counter.cost)
        # exact responses are no learners: nothing to go on from
        learners = [
            old if response.learner is None else response.learner
            for old, response in ((state.main, main), (state.counter, counter))
        ]
        metrics = explicit_metrics(
            cost,
            store.active,
            parameter_bytes=nbytes((store.params, *learners)),
            meta_bytes=nbytes((average, store.active)),
        )
        pace = settle(state.pace, config, 2 * rounds, cost.training_steps, cost.env_steps)
        return FxpState(store, learners[0], learners[1], average, pace, state.step + 1), metrics

    def profile(state: FxpState, which: str = "iterate") -> Profile:
        _, mains = shares(state.store.active, 1.0)
        return Profile(policies(state.store), chosen_mixture(which, mains, state.sigma_average))

    return Solver(init, step, profile, jittable=False)
