"""Pipeline PSRO: several policies of each population learn concurrently, each against the levels below it.

Every population has fixed policies and, above them in a strict order, W learners. The learner of level l trains
against the meta-Nash of all policies below it, fixed ones and lower learners. Only the lowest learner may be
fixed, when it has stopped improving; then a fresh learner starts at the top. A learner that has stopped improving but
is not the lowest continues.                                                                     (McAleer et al. 2020)

Synchronous: a *tick* moves all learners once. This project's choices, where the original leaves them open or runs
asynchronously: the lowest learners of all populations are fixed together, once each of them is within `plateau` of a
best response, so that no policy is fixed above one of another population that still learns; new learners start from
uniform play. Exact learners move by `rate` towards a best response; PPO trains networks, which have stopped improving
when a tick's last rounds earn no more than `plateau` above its first. The profile is the meta-Nash of the fixed
policies.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, CONFIDENCE, choice, real, size
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, Iteration, Store, StoreState, family_solver, new_state, stack_slots
from gems_jax.psro.payoffs import PayoffTable, crop_table, fill, new_table, solve_levels, solve_payoffs
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture, Oracle, Respond, exact_learner
from gems_jax.psro.settings import ExplicitSettings, count_new_payoffs
from gems_jax.types import Array, Game, PyTree, Solver


class P2sroConfig(ExplicitSettings):
    """Settings of Pipeline PSRO."""

    ticks: int = size(10)
    """Ticks per iteration, in which every learner moves once; networks need few ticks of many rounds."""
    workers: int = size(3)
    """Number of learners W per population."""
    capacity: int = size(8)
    """Initial number of slots per population for fixed policies; doubled whenever they are full."""
    meta_solver: Literal["nash_lp", "nash"] = choice("nash_lp")
    """Solver of the meta-games of all levels."""
    rate: float = real(0.1, CONFIDENCE)
    """Step of a tick towards the best response, in (0, 1] (exact learners)."""
    plateau: float = real(0.01, ABOVE_ZERO)
    """Gap to a best response, or gain in a tick, at which a learner has stopped improving, in game returns."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one per tick and learner."""
        return self.ticks * self.workers

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs of the learners, which every tick measures, if every second tick fixes a policy."""
        ticks = range(self.ticks * iterations)
        return 1.5 * sum(count_new_payoffs(players, 1 + tick / 2, self.workers) for tick in ticks)

    def divide_less(self) -> Self | None:
        """Halves the ticks per iteration; None if there is only one."""
        return self.replace(ticks=self.ticks // 2) if self.ticks > 1 else None


class P2sroState(StoreState):
    """Fixed policies, which are stored and mixed by `sigma`, and learners."""

    learners: PyTree  # [P, W, ...], the lowest level first
    table: PayoffTable  # of the fixed policies, followed by the learners in W slots


def _mask_below(store: Store, level: int, workers: int) -> np.ndarray:
    """Marks the fixed policies and the learners below `level`, [P, K + W] bool."""
    active = np.asarray(store.active)
    lower = np.broadcast_to(np.arange(workers) < level, (len(active), workers))
    return np.concatenate([active, lower], axis=1)


class _Pipeline(NamedTuple):
    """Steps of the method for one kind of learners."""

    game: Game
    config: P2sroConfig
    oracle: Oracle

    def new_learners(self, key: Array, count: int) -> PyTree:
        """Initializes learners [P, count, ...]. key: consumed."""
        return stack_slots(*[self.oracle.first(k) for k in jax.random.split(key, count)])

    def population(self, store: Store, learners: PyTree) -> StackedPolicies:
        """Concatenates the fixed policies in K slots and those of the learners [P, W, ...] in W slots."""
        parts = store.params, self.oracle.policy(learners)
        return self.oracle.population(jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *parts))

    def first(self, key: Array) -> P2sroState:
        """Makes the initial state. key: consumed."""
        game, config = self.game, self.config
        key_store, key_learners = jax.random.split(key)
        store = Store.create(self.oracle.policy(self.new_learners(key_store, 1)), config.capacity)
        sigma, table = store.active.astype(jnp.float32), new_table(game, config.capacity + config.workers)
        learners = self.new_learners(key_learners, config.workers)
        return new_state(P2sroState, game, config, sigma, store=store, learners=learners, table=table)

    def measure(
        self, key: Array, table: PayoffTable, store: Store, learners: PyTree, fixed: np.ndarray
    ) -> tuple[PayoffTable, Cost]:
        """Measures the payoffs of the learners, and of newly fixed slots `fixed` [P, K]. key: consumed."""
        workers = self.config.workers
        fresh = np.concatenate([fixed, np.ones((len(fixed), workers), bool)], axis=1)
        active = _mask_below(store, workers, workers)
        return fill(key, self.game, self.config, table, self.population(store, learners), active, fresh)

    def tick(self, key: Array, state: P2sroState, rounds: int) -> tuple[P2sroState, np.ndarray, Cost]:
        """Moves every learner once; returns the lowest learners' gaps before it [P], or their gains by it."""
        workers, oracle = self.config.workers, self.oracle
        key_measure, key_learn = jax.random.split(key)
        fixed = np.asarray(state.store.active) & (int(state.step) == 0)  # the first policies have no payoffs yet
        table, cost = self.measure(key_measure, state.table, state.store, state.learners, fixed)
        policies = self.population(state.store, state.learners)
        masks = jnp.asarray(np.stack([_mask_below(state.store, level, workers) for level in range(workers)]))
        sigmas, _ = solve_levels(self.game, self.config.meta_solver, table, masks)
        moved, lacks = [], []
        for level, level_key in enumerate(jax.random.split(key_learn, workers)):
            start = jax.tree.map(lambda leaf, level=level: leaf[:, level], state.learners)
            mixture = Mixture(policies, masks[level], sigmas[level])
            response = oracle.respond(level_key, mixture, start, rounds=rounds)
            moved.append(response.learner)
            lacks.append(response.gain)
            cost = cost.plus(response.cost)
        return state.replace(learners=stack_slots(*moved), table=table), lacks[0], cost

    def freeze(self, key: Array, state: P2sroState) -> tuple[P2sroState, Cost]:
        """Fixes the lowest learners, moves the others down, and starts fresh learners on top. key: consumed."""
        key_top, key_measure = jax.random.split(key)
        lowest = jax.tree.map(lambda leaf: leaf[:, 0], self.oracle.policy(state.learners))
        store, fixed = state.store.widen().append(lowest)
        learners = jax.tree.map(
            lambda old, new: jnp.concatenate([old[:, 1:], new], axis=1), state.learners, self.new_learners(key_top, 1)
        )
        # The learners' slots move with the capacity; their entries are measured again in any case.
        moved = store.capacity != state.store.capacity
        table = crop_table(state.table, state.store.capacity) if moved else state.table
        table, cost = self.measure(key_measure, table, store, learners, fixed)
        return state.replace(store=store, learners=learners, table=table), cost

    def iterate(self, state: P2sroState, key: Array, rounds: int) -> tuple[P2sroState, Iteration]:
        """Runs `ticks` ticks, then solves the meta-game of the fixed policies. key: consumed."""
        config = self.config
        cost, parts = Cost(), config.ticks * config.workers
        each = max(rounds // parts, 1)
        for tick_key in jax.random.split(key, config.ticks):
            key_tick, key_freeze = jax.random.split(tick_key)
            state, lacks, spent = self.tick(key_tick, state, each)
            cost = cost.plus(spent)
            if (lacks <= config.plateau).all():
                state, spent = self.freeze(key_freeze, state)
                cost = cost.plus(spent)
        mask = jnp.asarray(_mask_below(state.store, 0, config.workers))
        sigma, gap = solve_payoffs(self.game, config.meta_solver, state.table, mask)
        after = state.replace(sigma=sigma[:, : state.store.capacity])
        return after, after.finish(cost, parts * each, state.learners, payoffs=state.table, gap=gap)


def p2sro_solver(game: Game, config: P2sroConfig, respond: Respond | None = None) -> Solver:
    """Makes the solver of Pipeline PSRO. Its step runs in Python.

    Args:
      game: the game.
      config: settings.
      respond: learners of tabular policies; None for those of the config.
    """
    config = config.for_game(game)
    if respond is None and config.oracle == "exact":
        respond = exact_learner(game, config.rate)
    pipeline = _Pipeline(game, config, make_oracle(game, config, respond))
    return family_solver(config, pipeline.first, pipeline.iterate, pipeline.oracle.profile)
