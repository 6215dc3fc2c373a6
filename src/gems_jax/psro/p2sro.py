"""Pipeline PSRO: several policies of each population learn at once, each against the levels below it.

Every population has fixed policies and, above them in a strict order, W learners. The learner of level l trains
against the meta-Nash of all policies below it, fixed ones and lower learners alike. Only the lowest learner may be
fixed, when it has stopped improving; then a fresh learner starts at the top. A learner that has stopped improving but
is not the lowest goes on.                                                                      (McAleer et al. 2020)

Synchronous: a *tick* moves all learners once. Ours, where the original leaves it open or runs asynchronously: the
lowest learners of all populations are fixed together, once every one of them is within `plateau` of a best response,
so that no policy is fixed above one of another population that still learns; new learners start from uniform play.
Learners are exact ones that move a share of the way to a best response, or networks that PPO trains; those have
stopped improving when a tick's last rounds earn no more than `plateau` above its first. The profile is the meta-Nash
of the fixed policies.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, CONFIDENCE, choice, real, size
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.budget import Pace, new_pace, rounds_of, settle
from gems_jax.psro.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_levels, solve_meta_game, widen_table
from gems_jax.psro.ppo import ppo_oracle
from gems_jax.psro.responses import Mixture, Oracle, Respond, exact, exact_learner
from gems_jax.psro.settings import ExplicitSettings, learning_of
from gems_jax.psro.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.types import Apply, Array, Game, Profile, PyTree, Solver, Struct, nbytes, num_populations


class P2sroConfig(ExplicitSettings):
    """Settings of Pipeline PSRO."""

    ticks: int = size(10)
    """Ticks per iteration: moves of every learner. Those that are networks want few ticks of many rounds."""
    workers: int = size(3)
    """W, learners per population."""
    capacity: int = size(8)
    """Fixed policies per population that there is room for at first; doubled whenever that is full."""
    meta_solver: Literal["nash_lp", "nash"] = choice("nash_lp")
    """How the meta-games of all levels are solved."""
    rate: float = real(0.1, CONFIDENCE)
    """How far a tick moves a learner towards its best response (exact learners)."""
    plateau: float = real(0.01, ABOVE_ZERO)
    """A learner that lacks no more than this, or gains no more in a tick, has stopped improving. In game returns."""


class P2sroState(Struct):
    store: Store  # the fixed policies
    learners: PyTree  # [P, W, ...], the lowest level first
    table: PayoffTable  # of the fixed policies, the learners in the W slots behind them
    sigma: Array  # [P, K], over the fixed policies
    sigma_average: Array  # [P, K], over the iterations so far
    pace: Pace
    step: Array  # [] int32


def _together(store: Store, params: PyTree, network: Apply) -> StackedPolicies:
    """Fixed policies in the first K slots, the learners' [P, W, ...] in the W behind them."""
    joined = jax.tree.map(lambda fixed, active: jnp.concatenate([fixed, active], axis=1), store.params, params)
    return StackedPolicies(joined, network)


def _below(store: Store, level: int, workers: int) -> np.ndarray:
    """[P, K + W] bool: fixed policies, and the learners below `level`."""
    active = np.asarray(store.active)
    lower = np.broadcast_to(np.arange(workers) < level, (len(active), workers))
    return np.concatenate([active, lower], axis=1)


def _widened(state: P2sroState, capacity: int, workers: int) -> P2sroState:
    if capacity == state.store.capacity:
        return state
    sigma, average = (pad_slots(mixture, capacity, (1,)) for mixture in (state.sigma, state.sigma_average))
    # the learners' slots move with the capacity: their entries are measured anew anyway
    fixed = state.store.capacity
    kept = PayoffTable(*(leaf[..., :fixed, :fixed] for leaf in (state.table.values, state.table.episodes)))
    return state.replace(
        store=widen(state.store, capacity),
        table=widen_table(kept, capacity + workers),
        sigma=sigma,
        sigma_average=average,
    )


class _Pipeline(NamedTuple):
    """The moves of the method, with learners of one kind."""

    game: Game
    config: P2sroConfig
    oracle: Oracle

    @property
    def _everyone(self) -> np.ndarray:
        return np.ones(num_populations(self.game), bool)

    def fresh_learners(self, key: Array, count: int) -> PyTree:
        """[P, count, ...]. key: consumed."""
        each = [self.oracle.first(k) for k in jax.random.split(key, count)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *each)

    def start(self, key: Array) -> P2sroState:
        """key: consumed."""
        config = self.config
        key_store, key_learners = jax.random.split(key)
        store = new_store(self.oracle.policy(self.fresh_learners(key_store, 1)), config.capacity)
        sigma, table = store.active.astype(jnp.float32), new_table(self.game, config.capacity + config.workers)
        learners = self.fresh_learners(key_learners, config.workers)
        return P2sroState(store, learners, table, sigma, sigma, new_pace(self.game, config), jnp.int32(0))

    def measure(
        self, key: Array, table: PayoffTable, store: Store, learners: PyTree, fixed: np.ndarray
    ) -> tuple[PayoffTable, Cost]:
        """Payoffs of the learners as they are now, and of slots that were just `fixed` [P, K]. key: consumed."""
        workers = self.config.workers
        fresh = np.concatenate([fixed, np.ones((len(fixed), workers), bool)], axis=1)
        policies = _together(store, self.oracle.policy(learners), self.oracle.network)
        return fill(key, self.game, self.config, table, policies, _below(store, workers, workers), fresh)

    def tick(self, key: Array, state: P2sroState, rounds: int) -> tuple[P2sroState, np.ndarray, Cost]:
        """Every learner one move further, and what the lowest ones lacked before it [P], or gained by it."""
        workers, oracle = self.config.workers, self.oracle
        key_measure, key_learn = jax.random.split(key)
        fixed = np.asarray(state.store.active) & (int(state.step) == 0)  # nobody has met yet
        table, cost = self.measure(key_measure, state.table, state.store, state.learners, fixed)
        policies = _together(state.store, oracle.policy(state.learners), oracle.network)
        masks = jnp.asarray(np.stack([_below(state.store, level, workers) for level in range(workers)]))
        sigmas, _ = solve_levels(self.game, self.config.meta_solver, table, masks)
        moved, lacks = [], []
        for level, level_key in enumerate(jax.random.split(key_learn, workers)):
            start = jax.tree.map(lambda leaf, level=level: leaf[:, level], state.learners)
            mixture = Mixture(policies, masks[level], sigmas[level])
            response = oracle.respond(level_key, mixture, start, rounds=rounds)
            moved.append(response.learner)
            lacks.append(response.gain)
            cost = cost.plus(response.cost)
        learners = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *moved)
        return state.replace(learners=learners, table=table), lacks[0], cost

    def freeze(self, key: Array, state: P2sroState) -> tuple[P2sroState, Cost]:
        """The lowest learners join the fixed policies for good; the others move down, and fresh ones start on top."""
        key_top, key_measure = jax.random.split(key)
        wide = _widened(state, room(state.store), self.config.workers)
        lowest = jax.tree.map(lambda leaf: leaf[:, 0], self.oracle.policy(state.learners))
        store, fixed = append(wide.store, lowest, self._everyone)
        learners = jax.tree.map(
            lambda old, new: jnp.concatenate([old[:, 1:], new], axis=1), state.learners, self.fresh_learners(key_top, 1)
        )
        table, cost = self.measure(key_measure, wide.table, store, learners, fixed)
        return wide.replace(store=store, learners=learners, table=table), cost

    def iterate(self, state: P2sroState, key: Array) -> tuple[P2sroState, ExplicitMetrics]:
        """`ticks` ticks, then the meta-game of the fixed policies. key: consumed."""
        config = self.config
        cost, lots = Cost(), config.ticks * config.workers
        rounds = max(int(rounds_of(state.pace, config)) // lots, 1)
        for tick_key in jax.random.split(key, config.ticks):
            key_tick, key_freeze = jax.random.split(tick_key)
            state, lacks, spent = self.tick(key_tick, state, rounds)
            cost = cost.plus(spent)
            if (lacks <= config.plateau).all():
                state, spent = self.freeze(key_freeze, state)
                cost = cost.plus(spent)
        mask = jnp.asarray(_below(state.store, 0, config.workers))
        sigma, gap = solve_meta_game(self.game, config.meta_solver, state.table, mask)
        before, sigma = int(state.step), sigma[:, : state.store.capacity]
        average = running_mean(state.sigma_average, sigma, before)
        pace = settle(state.pace, config, lots * rounds, cost.training_steps, cost.env_steps)
        state = state.replace(sigma=sigma, sigma_average=average, pace=pace, step=state.step + 1)
        return state, explicit_metrics(
            cost,
            state.store.active,
            parameter_bytes=nbytes((state.store.params, state.learners)),
            payoff_bytes=nbytes(state.table),
            meta_bytes=nbytes((sigma, average, state.store.active)),
            restricted_gap=gap,
        )


def p2sro_solver(game: Game, config: P2sroConfig, respond: Respond | None = None) -> Solver:
    """Pipeline PSRO with any learners of tabular policies; without such, those of the config. It runs in Python."""
    config = config.for_game(game)
    if respond is not None or config.oracle == "exact":
        oracle = exact(game, respond or exact_learner(game, config.rate))
    else:
        oracle = ppo_oracle(game, learning_of(config, game))
    pipeline = _Pipeline(game, config, oracle)

    def profile(state: P2sroState, which: str = "iterate") -> Profile:
        policies = StackedPolicies(state.store.params, oracle.network)
        return Profile(policies, chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(pipeline.start, pipeline.iterate, profile, jittable=False)
