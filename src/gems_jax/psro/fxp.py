"""Fictitious Cross-Play (FXP): a main policy that plays against its own past and against counter policies.

Every population has a *main* policy, which never stops learning, and *counters*. In an iteration

    main      continues against the others' past mains, itself included, with probability eta (fictitious self-play),
              and against their counters otherwise (cross-play)
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
from gems_jax.psro.base import Cost, Iteration, Store, StoreState, family_solver, new_state, stack_slots
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_payoffs
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.types import Array, Game, PyTree, Solver, is_two_player_zero_sum


class FxpConfig(ExplicitSettings):
    """Settings of Fictitious Cross-Play."""

    capacity: int = size(16)
    """Policies per population, mains and counters, that there is room for at first; doubled whenever that is full."""
    keep_counter: bool = choice(False)
    """A counter continues from the last one instead of starting afresh."""
    meta_solver: Literal["auto", "uniform", "nash", "nash_lp"] = choice("auto")
    """The profile: a mixture of the stored mains, uniform or the equilibrium of their meta-game. auto: nash_lp with
    learned responses in two-player zero-sum games, or else uniform."""
    entropy_weight: float = real(0.05, NON_NEGATIVE)
    """Weight of the entropy bonus: without it the main policy saturates and cannot follow."""
    eta: float = real(0.5, SHARE)
    """How often the main policy meets past mains rather than counters."""

    @property
    def least_rounds(self) -> int:
        """Rounds of learning that an iteration takes at least: one of the main policy, one of the counter."""
        return 2

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs between the main policies of a run."""
        return (iterations + 1) ** players if self.meta_solver != "uniform" else 0.0


class FxpState(StoreState):
    """Stored policies, mains in even slots, which `sigma` mixes, and counters in odd ones; and the newest learners."""

    table: PayoffTable  # of the mains; empty where the profile is uniform
    main: PyTree  # [P, ...], the learner behind the newest main policy
    counter: PyTree  # [P, ...], the same of the newest counter


def share_opponents(active: Array, eta: Array | float) -> tuple[Array, Array]:
    """Whom the main policy meets and whom the counter meets, [P, K] each."""
    even = (jnp.arange(active.shape[1]) % 2 == 0)[None]
    mains = jax.vmap(masked_uniform)(active & even)
    return eta * mains + (1 - eta) * jax.vmap(masked_uniform)(active & ~even), mains


def fxp_solver(game: Game, config: FxpConfig) -> Solver:
    """Fictitious Cross-Play, any number of players. Its step runs in Python."""
    config = _settle(game, config)
    oracle = make_oracle(game, config)

    def mix_mains(key: Array, store: Store, table: PayoffTable, fresh: np.ndarray) -> tuple:
        """The profile's mixture [P, K] with its gap among mains, the payoffs behind it, and what these cost."""
        if config.meta_solver == "uniform":
            return share_opponents(store.active, 1.0)[1], 0.0, table, Cost()
        mains = np.asarray(store.active) & (np.arange(store.capacity) % 2 == 0)
        table, cost = fill(key, game, config, table, oracle.population(store.params), mains, fresh & mains)
        return *solve_payoffs(game, config.meta_solver, table, jnp.asarray(mains)), table, cost

    def first(key: Array) -> FxpState:
        main, counter = (oracle.first(k) for k in jax.random.split(key))
        store = Store.create(stack_slots(oracle.policy(main), oracle.policy(counter)), max(config.capacity, 2))
        _, mains = share_opponents(store.active, 1.0)
        table = _NO_TABLE if config.meta_solver == "uniform" else new_table(game, store.capacity)
        return new_state(FxpState, game, config, mains, store=store, table=table, main=main, counter=counter)

    def iterate(state: FxpState, key: Array, rounds: int) -> tuple[FxpState, Iteration]:
        key_main, key_counter, key_fill = jax.random.split(key, 3)
        each = max(rounds // 2, 1)
        meets, past = share_opponents(state.store.active, config.eta)
        mixture = Mixture(oracle.population(state.store.params), state.store.active, meets)
        main = oracle.respond(key_main, mixture, state.main, rounds=each)
        start = state.counter if config.keep_counter else None
        counter = oracle.respond(key_counter, mixture._replace(sigma=past), start, rounds=each)
        store = state.store.widen(2)
        fresh = np.asarray(store.active) & (int(state.step) == 0)  # the first mains have not met yet
        for newcomer in (main, counter):
            store, new = store.append(newcomer.params)
            fresh = fresh | new
        sigma, gap, table, measured = mix_mains(key_fill, store, state.table, fresh)
        # Exact responses are not learners: there is nothing to continue from.
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
    """The settings with every `auto` replaced by its choice for the game."""
    config = config.for_game(game)
    if config.meta_solver != "auto":
        return config
    mixed = config.oracle == "ppo" and is_two_player_zero_sum(game)
    return config.replace(meta_solver="nash_lp" if mixed else "uniform")
