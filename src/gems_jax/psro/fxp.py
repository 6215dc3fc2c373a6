"""Fictitious Cross-Play (FXP): a main policy that plays against its own past and against counter policies.

Every population has a *main* policy, which never stops learning, and *counters*. In an iteration

    main      goes on against the others' past mains, itself included, with probability eta (fictitious self-play), and
              against their counters otherwise (cross-play)
    counter   answers the others' past mains

and both are stored. With eta = 1 it is fictitious self-play, with small eta it comes near PSRO. Self-play alone may
stay in a local equilibrium of a team game, which counters find their way out of. What is played is a mixture of the
mains: with learned responses in two-player zero-sum games the equilibrium of their measured meta-game, otherwise the
uniform one, which still holds the first, untrained mains and lags behind a main that circles. Both mixtures, uniform
draws from the past and the entropy bonus are this project's readings.                               (Xu et al. 2023)

A store holds main policies in its even slots and counters in the odd ones. With exact responses a main policy is a best
response at once: mains and counters are then the same, and the method is fictitious play.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, SHARE, choice, real, size
from gems_jax.meta.simplex import masked_uniform
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.budget import Pace, new_pace, rounds_of, settle
from gems_jax.psro.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_meta_game, widen_table
from gems_jax.psro.ppo import ppo_oracle
from gems_jax.psro.responses import Mixture, exact, exact_oracle
from gems_jax.psro.settings import ExplicitSettings, learning_of
from gems_jax.psro.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.types import Array, Game, Profile, PyTree, Solver, Struct, nbytes, num_players, num_populations


class FxpConfig(ExplicitSettings):
    """Settings of Fictitious Cross-Play."""

    capacity: int = size(16)
    """Policies per population, mains and counters, that there is room for at first; doubled whenever that is full."""
    keep_counter: bool = choice(False)
    """A counter goes on from the last one instead of starting afresh."""
    meta_solver: Literal["auto", "uniform", "nash", "nash_lp"] = choice("auto")
    """The profile: a mixture of the stored mains, uniform or the equilibrium of their meta-game. auto: nash_lp with
    learned responses in two-player zero-sum games, or else uniform."""
    entropy_weight: float = real(0.05, NON_NEGATIVE)
    """Weight of the entropy bonus: without it the main policy saturates and cannot follow."""
    eta: float = real(0.5, SHARE)
    """How often the main policy meets past mains rather than counters."""


class FxpState(Struct):
    store: Store  # mains in even slots, counters in odd ones
    table: PayoffTable  # of the mains; empty where the profile is uniform
    main: PyTree  # [P, ...], the learner behind the newest main policy
    counter: PyTree  # [P, ...], the same of the newest counter
    sigma: Array  # [P, K], over the mains
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
    config = _settle(game, config)
    if config.oracle == "exact":
        oracle = exact(game, exact_oracle(game))
    else:
        oracle = ppo_oracle(game, learning_of(config, game))
    everyone = np.ones(num_populations(game), bool)

    def policies(store: Store) -> StackedPolicies:
        return StackedPolicies(store.params, oracle.network)

    def mix_mains(key: Array, store: Store, table: PayoffTable, fresh: np.ndarray) -> tuple:
        """The profile's mixture [P, K] with its gap among mains, the payoffs behind it, and what these cost."""
        if config.meta_solver == "uniform":
            return shares(store.active, 1.0)[1], 0.0, table, Cost()
        mains = np.asarray(store.active) & (np.arange(store.capacity) % 2 == 0)
        table = widen_table(table, store.capacity)
        table, cost = fill(key, game, config, table, policies(store), mains, fresh & mains)
        sigma, gap = solve_meta_game(game, config.meta_solver, table, jnp.asarray(mains))
        return sigma, gap, table, cost

    def init(key: Array) -> FxpState:
        main, counter = (oracle.first(k) for k in jax.random.split(key))
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *map(oracle.policy, (main, counter)))
        store = new_store(both, max(config.capacity, 2))
        _, mains = shares(store.active, 1.0)
        table = _NO_TABLE if config.meta_solver == "uniform" else new_table(game, store.capacity)
        return FxpState(store, table, main, counter, mains, mains, new_pace(game, config), jnp.int32(0))

    def step(state: FxpState, key: Array) -> tuple[FxpState, ExplicitMetrics]:
        key_main, key_counter, key_fill = jax.random.split(key, 3)
        before, rounds = int(state.step), max(int(rounds_of(state.pace, config)) // 2, 1)
        meets, past = shares(state.store.active, config.eta)
        mixture = Mixture(policies(state.store), state.store.active, meets)
        main = oracle.respond(key_main, mixture, state.main, rounds=rounds)
        counter = oracle.respond(
            key_counter, mixture._replace(sigma=past), state.counter if config.keep_counter else None, rounds=rounds
        )
        store = widen(state.store, room(state.store, 2))
        fresh = np.full(store.active.shape, before == 0) & np.asarray(store.active)  # the first mains have not met yet
        for newcomer in (main, counter):
            store, new = append(store, newcomer.params, everyone)
            fresh = fresh | new
        sigma, gap, table, measured = mix_mains(key_fill, store, state.table, fresh)
        average = running_mean(pad_slots(state.sigma_average, store.capacity, (1,)), sigma, before)
        cost = main.cost.plus(counter.cost).plus(measured)
        # Exact responses are not learners: there is nothing to continue from.
        learners = [
            old if response.learner is None else response.learner
            for old, response in ((state.main, main), (state.counter, counter))
        ]
        metrics = explicit_metrics(
            cost,
            store.active,
            parameter_bytes=nbytes((store.params, *learners)),
            payoff_bytes=nbytes(table),
            meta_bytes=nbytes((average, store.active)),
            restricted_gap=gap,
        )
        pace = settle(state.pace, config, 2 * rounds, cost.training_steps, cost.env_steps)
        return FxpState(store, table, learners[0], learners[1], sigma, average, pace, state.step + 1), metrics

    def profile(state: FxpState, which: str = "iterate") -> Profile:
        return Profile(policies(state.store), chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(init, step, profile, jittable=False)


_NO_TABLE = PayoffTable(jnp.zeros(0), jnp.zeros(0, jnp.int32))


def _settle(game: Game, config: FxpConfig) -> FxpConfig:
    """The settings with every `auto` replaced by its choice for the game."""
    config = config.for_game(game)
    if config.meta_solver != "auto":
        return config
    mixed = config.oracle == "ppo" and game.zero_sum and num_players(game) == 2
    return config.replace(meta_solver="nash_lp" if mixed else "uniform")
