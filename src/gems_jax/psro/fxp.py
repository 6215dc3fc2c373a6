"""Fictitious Cross-Play (FXP): a main policy that learns against its own past and against counter policies.

Every population has a *main* policy, which never stops learning, and *counters*. In an iteration

    main      continues against the others' past mains, itself included, with probability eta (fictitious self-play),
              and against their counters otherwise (cross-play)
    counter   responds to the others' past mains

and both are stored. With eta = 1 it is fictitious self-play, with small eta it is close to PSRO. Self-play alone may
stay in a local equilibrium of a team game; counters find a way out of it. The profile is a mixture of the mains: with
learned responses in two-player zero-sum games the equilibrium of their measured meta-game, otherwise the uniform
mixture, which includes the first, untrained mains and lags behind a main that cycles. Both mixtures, uniform draws from
the past and the entropy bonus are this project's readings.                                          (Xu et al. 2023)

A store contains main policies in its even slots and counters in the odd ones. With exact responses a main policy is a
best response: mains and counters are then identical, and the method is fictitious play.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import FRACTION, NON_NEGATIVE, choice, real, size
from gems_jax.meta.simplex import masked_uniform
from gems_jax.psro.base import Cost, Iteration, Store, StoreState, family_solver, new_state, stack_slots
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_payoffs
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.types import Array, Game, PyTree, Solver, is_two_player_zero_sum


class FxpConfig(ExplicitSettings):
    """Settings of Fictitious Cross-Play."""

    capacity: int = size(16)
    """Initial number of slots per population for mains and counters; doubled whenever they are full."""
    keep_counter: bool = choice(False)
    """Continue a counter from the last one instead of starting from scratch."""
    meta_solver: Literal["auto", "uniform", "nash", "nash_lp"] = choice("auto")
    """Mixture of the stored mains: uniform or the equilibrium of their meta-game (auto: nash_lp with learned responses
    in two-player zero-sum games, else uniform)."""
    entropy_weight: float = real(0.05, NON_NEGATIVE)
    """Weight of the entropy bonus, which prevents the main policy from saturating."""
    eta: float = real(0.5, FRACTION)
    """Probability that the main policy meets past mains rather than counters."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one for the main policy, one for the counter."""
        return 2

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs between the main policies of a run."""
        return (iterations + 1) ** players if self.meta_solver != "uniform" else 0.0


class FxpState(StoreState):
    """Stored policies (mains, which `sigma` mixes, in even slots, counters in odd ones) and the newest learners."""

    table: PayoffTable  # of the mains; empty if the profile is uniform
    main: PyTree  # [P, ...], the learner behind the newest main policy
    counter: PyTree  # [P, ...], the learner behind the newest counter


def split_opponents(active: Array, eta: Array | float) -> tuple[Array, Array]:
    """Returns the mixtures [P, K] that the main policy and the counter meet."""
    even = (jnp.arange(active.shape[1]) % 2 == 0)[None]
    mains = jax.vmap(masked_uniform)(active & even)
    return eta * mains + (1 - eta) * jax.vmap(masked_uniform)(active & ~even), mains


def fxp_solver(game: Game, config: FxpConfig) -> Solver:
    """Makes the solver of Fictitious Cross-Play, for any number of players. Its step runs in Python."""
    config = _settle(game, config)
    oracle = make_oracle(game, config)

    def mix_mains(key: Array, store: Store, table: PayoffTable, fresh: np.ndarray) -> tuple:
        """Computes the profile's mixture [P, K], its gap among mains, the payoff table, and its cost."""
        if config.meta_solver == "uniform":
            return split_opponents(store.active, 1.0)[1], 0.0, table, Cost()
        mains = np.asarray(store.active) & (np.arange(store.capacity) % 2 == 0)
        table, cost = fill(key, game, config, table, oracle.population(store.params), mains, fresh & mains)
        return *solve_payoffs(game, config.meta_solver, table, jnp.asarray(mains)), table, cost

    def first(key: Array) -> FxpState:
        main, counter = (oracle.first(k) for k in jax.random.split(key))
        store = Store.create(stack_slots(oracle.policy(main), oracle.policy(counter)), max(config.capacity, 2))
        _, mains = split_opponents(store.active, 1.0)
        table = _NO_TABLE if config.meta_solver == "uniform" else new_table(game, store.capacity)
        return new_state(FxpState, game, config, mains, store=store, table=table, main=main, counter=counter)

    def iterate(state: FxpState, key: Array, rounds: int) -> tuple[FxpState, Iteration]:
        key_main, key_counter, key_fill = jax.random.split(key, 3)
        each = max(rounds // 2, 1)
        meets, past = split_opponents(state.store.active, config.eta)
        mixture = Mixture(oracle.population(state.store.params), state.store.active, meets)
        main = oracle.respond(key_main, mixture, state.main, rounds=each)
        start = state.counter if config.keep_counter else None
        counter = oracle.respond(key_counter, mixture._replace(sigma=past), start, rounds=each)
        store = state.store.widen(2)
        fresh = np.asarray(store.active) & (int(state.step) == 0)  # the first mains have no payoffs yet
        for newcomer in (main, counter):
            store, new = store.append(newcomer.params)
            fresh = fresh | new
        sigma, gap, table, measured = mix_mains(key_fill, store, state.table, fresh)
        # Exact responses have no learner to continue from.
        learners = [
            old if response.learner is None else response.learner
            for old, response in ((state.main, main), (state.counter, counter))
        ]
        after = state.replace(store=store, table=table, main=learners[0], counter=learners[1], sigma=sigma)
        cost, parameters = main.cost.plus(counter.cost, measured), (store.params, *learners)
        return after, Iteration(cost, 2 * each, store.active, parameters, table, (sigma, store.active), gap)

    return family_solver(config, first, iterate, oracle.profile)


_NO_TABLE = PayoffTable(jnp.zeros(0), jnp.zeros(0, jnp.int32))


def _settle(game: Game, config: FxpConfig) -> FxpConfig:
    """Replaces every `auto` by a choice for the game."""
    config = config.for_game(game)
    if config.meta_solver != "auto":
        return config
    mixed = config.oracle == "ppo" and is_two_player_zero_sum(game)
    return config.replace(meta_solver="nash_lp" if mixed else "uniform")
