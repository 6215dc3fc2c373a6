"""Common parts of the PSRO family: costs and budgets of iterations, stored policies, and the loop of a method.

A method is a state that extends `PsroState` and two functions:

    first(key) -> state                                  the initial policies
    iterate(state, key, rounds) -> (state, Iteration)    responses, payoffs and the next mixture `sigma`

`family_solver` adds the common parts: the rounds of learning that the budget allows, the running mean of the mixtures,
the metrics, and the profile.

Budgets: the environment steps of an iteration are not known in advance, because episodes have different lengths and
payoffs are measured as well. A `Pace` therefore tracks the balance, and every iteration takes the number of rounds that
brings the run's total closest to its allowance. All arithmetic of a `Pace` may be traced.

Stored policies are arrays [P, K, ...] whose capacity K doubles when they are full.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gems_jax.estimation.monte_carlo import joint_returns
from gems_jax.evaluate.sampled import random_profile
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import StackedPolicies, materialize
from gems_jax.psro.settings import Budgeted
from gems_jax.types import Array, Game, Profile, PyTree, Solver, Struct, nbytes, num_players

Count = int | Array  # arrays in compiled steps
B = TypeVar("B", bound=Budgeted)


# --- cost and metrics


class Cost(NamedTuple):
    """Counts of work; Python integers if the step runs in Python."""

    episodes: Count = 0
    env_steps: Count = 0
    gradient_steps: Count = 0
    tree_walks: Count = 0  # exact evaluations of a policy or of a best response
    training_steps: Count = 0  # the part of env_steps used for learning

    def plus(self, *others: Cost) -> Cost:
        """Adds the counts of other costs."""
        return Cost(*(sum(counts) for counts in zip(self, *others, strict=True)))


class Iteration(NamedTuple):
    """Work of one iteration, and the arrays held after it."""

    cost: Cost
    rounds: ArrayLike  # rounds of learning, for the pace
    active: Array  # [P, K] bool
    parameters: PyTree  # of all policies and learners
    payoffs: PyTree = ()
    meta: PyTree = ()  # mixtures and other state of the meta-solver
    gap: Array | float = 0.0  # sum of the players' gains inside the meta-game


class PsroMetrics(Struct):
    """Metrics of one iteration. Bytes are those of the arrays held after it."""

    num_active: Array  # [P] int32, policies per population
    restricted_gap: Array  # [] float32, sum of the players' gains inside the meta-game; 0 without one
    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    gradient_steps: Array  # [] int32
    tree_walks: Array  # [] int32
    parameter_bytes: Array  # [] float32, of the policies
    payoff_bytes: Array  # [] float32, of the payoff table
    meta_bytes: Array  # [] float32, of mixtures and other state of the meta-solver


def metric_columns(metrics: type[PsroMetrics]) -> tuple[str, ...]:
    """Names the scalar fields of a class of metrics."""
    return tuple(field.name for field in dataclasses.fields(metrics) if field.name != "num_active")


def measure_iteration(done: Iteration) -> PsroMetrics:
    """Computes the metrics of an iteration."""
    return PsroMetrics(
        num_active=jnp.sum(done.active, axis=1, dtype=jnp.int32),
        restricted_gap=jnp.float32(done.gap),
        episodes=jnp.int32(done.cost.episodes),
        env_steps=jnp.int32(done.cost.env_steps),
        gradient_steps=jnp.int32(done.cost.gradient_steps),
        tree_walks=jnp.int32(done.cost.tree_walks),
        parameter_bytes=jnp.float32(nbytes(done.parameters)),
        payoff_bytes=jnp.float32(nbytes(done.payoffs)),
        meta_bytes=jnp.float32(nbytes(done.meta)),
    )


# --- budgets


class Pace(Struct):
    """Balance of a run's budget of environment steps."""

    balance: Array  # [] float32, env steps allowed so far minus those taken
    per_round: Array  # [] float32, env steps of one round, measured in the last iteration
    aside: Array  # [] float32, env steps of the last iteration not used for learning


def new_pace(game: Game, config: Budgeted) -> Pace:
    """Makes the initial pace, which assumes that a round has its maximum length."""
    longest = num_players(game) * config.opponents * config.episodes * (config.segment or game.max_steps)
    return Pace(jnp.float32(0.0), jnp.float32(longest), jnp.float32(0.0))


def allowed_rounds(pace: Pace, config: Budgeted) -> Array:
    """Computes the rounds of the next iteration, [] int32: `config.rounds`, or as many as the budget allows."""
    if not config.env_steps:
        return jnp.int32(config.rounds)
    allowed = pace.balance + config.env_steps - pace.aside
    return jnp.maximum(jnp.round(allowed / pace.per_round), 1).astype(jnp.int32)


def settle_pace(pace: Pace, config: Budgeted, rounds: ArrayLike, cost: Cost) -> Pace:
    """Updates the pace after an iteration of `rounds` rounds of learning."""
    if not config.env_steps:
        return pace
    learned, taken = jnp.asarray(cost.training_steps, jnp.float32), jnp.asarray(cost.env_steps, jnp.float32)
    return Pace(pace.balance + config.env_steps - taken, jnp.maximum(learned / rounds, 1.0), taken - learned)


# Fractions of a budget. If measuring payoffs takes more than the first, it is reduced to the second. An iteration is
# divided into fewer parts if entries would have fewer episodes than the third.
_MEASURED_AT_MOST, _MEASURED_OTHERWISE, _EPISODES_AT_LEAST = 0.5, 0.25, 16
_ROUNDS_AT_LEAST = 2  # multiple of the minimum rounds of the method
_LENGTHS = 1024  # episodes of the mean length


def random_length(game: Game) -> float:
    """Measures the environment steps per episode of uniformly random play."""
    random = random_profile(game)
    policies, log_sigma = materialize(random.population, 1), jnp.log(random.sigma)
    return float(_mean_length(jax.random.key(0), game, policies, log_sigma))


@compile_play(static_argnames=("game",))
def _mean_length(key: Array, game: Game, policies: StackedPolicies, log_sigma: Array) -> Array:
    """Plays episodes between policies drawn from mixtures and returns their mean length []. key: consumed."""
    return jnp.mean(joint_returns(key, game, policies, log_sigma, samples=_LENGTHS, episodes=1)[1])


def fit_settings(game: Game, config: B, iterations: int | None = None) -> B:
    """Fits the payoff measurements and the size of rounds to the budget `env_steps`.

    The number of rounds is determined while the method runs (`Pace`). It respects the budget only if payoffs and the
    minimum rounds take less. If payoffs take more than half of a run's steps, their episodes are reduced to a quarter
    of the steps. If the budget does not allow twice the minimum rounds, rounds get fewer opponents. Other settings are
    unchanged.

    Args:
      game: the game.
      config: settings with learned responses and a budget.
      iterations: length of the run; by default the config's.

    Returns:
      The settings, with fewer `entry_episodes`, `opponents` and parts of an iteration where necessary.

    Raises:
      ValueError: if the budget does not allow one episode per payoff and per round; the message has the minimum budget.
    """
    iterations = config.iterations if iterations is None else iterations
    length, players = random_length(game), num_players(game)
    per_opponent = players * config.episodes * (config.segment or length)

    def payoff_steps(settings: B) -> float:
        """Computes the mean env steps per iteration of one episode per payoff."""
        if getattr(settings, "payoffs", "exact") == "exact":
            return 0.0
        return length * settings.measured_payoffs(players, iterations) / iterations

    while True:
        once, episodes = payoff_steps(config), getattr(config, "entry_episodes", 0)
        if once * episodes > _MEASURED_AT_MOST * config.env_steps:
            episodes = int(_MEASURED_OTHERWISE * config.env_steps / once)
        left = config.env_steps - once * max(episodes, 1)
        opponents = int(left / (_ROUNDS_AT_LEAST * config.least_rounds * per_opponent))
        cramped = (once > 0 and episodes < _EPISODES_AT_LEAST) or opponents < config.opponents
        fewer = config.divide_less() if cramped else None
        if fewer is None:
            break
        config = fewer
    least = max(once / _MEASURED_OTHERWISE, once + _ROUNDS_AT_LEAST * config.least_rounds * per_opponent)
    if config.env_steps < least:
        raise ValueError(
            f"budget too small: one episode per payoff and round needs {math.ceil(least)} env steps per iteration "
            f"(mean over {iterations} iterations), got {config.env_steps}. Raise the budget or use fewer iterations"
        )
    changes = {"opponents": min(config.opponents, max(opponents, 1))}
    if episodes < getattr(config, "entry_episodes", 0):
        changes["entry_episodes"] = episodes
    return config.replace(**changes)


# --- stored policies


class Store(Struct):
    """Policies of all populations, in the order in which they joined."""

    params: PyTree  # [P, K, ...]
    active: Array  # [P, K] bool: the slot contains a policy

    @property
    def capacity(self) -> int:
        """Number of slots K per population."""
        return self.active.shape[1]

    @classmethod
    def create(cls, params: PyTree, capacity: int) -> Store:
        """Makes a store with params [P, k, ...] in the first k slots. Raises ValueError if k exceeds the capacity."""
        populations, count = jax.tree.leaves(params)[0].shape[:2]
        if count > capacity:
            raise ValueError(f"initial policies must fit the capacity {capacity}, got {count}")
        active = jnp.broadcast_to(jnp.arange(capacity)[None, :] < count, (populations, capacity))
        return cls(jax.tree.map(lambda leaf: pad_slots(leaf, capacity, (1,)), params), active)

    def widen(self, newcomers: int = 1) -> Store:
        """Doubles the capacity until every population has slots for `newcomers` more policies."""
        capacity, needed = self.capacity, int(np.asarray(self.active).sum(axis=1).max()) + newcomers
        while capacity < needed:
            capacity *= 2
        return jax.tree.map(lambda leaf: pad_slots(leaf, capacity, (1,)), self)

    def append(self, params: PyTree, keep: np.ndarray | None = None) -> tuple[Store, np.ndarray]:
        """Adds one policy to every population.

        Args:
          params: policies [P, ...].
          keep: mask [P] of populations that add their policy; None for all.

        Returns:
          The store, and the mask of new slots, [P, K] bool.

        Raises:
          ValueError: if there is no free slot (see `widen`).
        """
        active = np.asarray(self.active)
        keep = np.ones(len(active), bool) if keep is None else np.asarray(keep, bool)
        slot = active.sum(axis=1)  # slots fill in order
        fresh = (np.arange(self.capacity)[None, :] == slot[:, None]) & keep[:, None]
        if (keep & (slot >= self.capacity)).any():
            raise ValueError(f"store is full: {slot.tolist()} policies in {self.capacity} slots. Call `widen` first")

        def put(stacked: Array, one: Array) -> Array:
            chex.assert_equal_shape([stacked[:, 0], one])
            mask = fresh.reshape(fresh.shape + (1,) * (stacked.ndim - 2))
            return jnp.where(mask, one[:, None], stacked)

        return Store(jax.tree.map(put, self.params, params), jnp.asarray(active | fresh)), fresh


def stack_slots(*policies: PyTree) -> PyTree:
    """Stacks k policies, params [P, ...] each, to params [P, k, ...]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *policies)


def pad_slots(array: Array, capacity: int, axes: tuple[int, ...]) -> Array:
    """Appends zeros (False) along `axes` until these have `capacity` entries."""
    if all(array.shape[axis] == capacity for axis in axes):
        return array
    return jnp.pad(array, [(0, capacity - size if axis in axes else 0) for axis, size in enumerate(array.shape)])


# --- mixtures


def choose_mixture(which: str, iterate: Array, average: Array) -> Array:
    """Selects a mixture by name, "iterate" or "average". Raises ValueError for other names."""
    if which not in ("iterate", "average"):
        raise ValueError(f"unknown profile {which!r}; known: 'iterate', 'average'")
    return iterate if which == "iterate" else average


def update_average(average: Array, new: Array, count: int) -> Array:
    """Updates the mean of `count` mixtures, possibly of fewer slots, by one more mixture [..., K]."""
    slots = new.ndim - 1
    return (pad_slots(average, new.shape[slots], (slots,)) * count + new) / (count + 1)


# --- the loop


class PsroState(Struct):
    """Common state of all methods; each method adds its own fields."""

    sigma: Array  # [P, K]
    sigma_average: Array  # [P, K], over the iterations so far
    pace: Pace
    step: Array  # [] int32


class StoreState(PsroState):
    """State of the methods that store policies."""

    store: Store

    def finish(self, cost: Cost, rounds: int, learners: PyTree = (), meta: PyTree = (), **other: Any) -> Iteration:
        """Describes the iteration that led to this state; `learners` and `meta` are further arrays of the state."""
        store = self.store
        mixtures = (self.sigma, self.sigma, store.active)  # the running mean has the size of sigma
        return Iteration(cost, rounds, store.active, (store.params, learners), meta=(mixtures, meta), **other)


State = TypeVar("State", bound=PsroState)


def new_state(kind: type[State], game: Game, config: Budgeted, sigma: Array, **own: Any) -> State:
    """Makes the initial state of class `kind` with mixture sigma [P, K] and the method's `own` fields."""
    return kind(sigma=sigma, sigma_average=sigma, pace=new_pace(game, config), step=jnp.int32(0), **own)


def family_solver(
    config: Budgeted,
    first: Callable[[Array], State],
    iterate: Callable[[State, Array, int], tuple[State, Iteration]],
    profile: Callable[[State, Array], Profile],
) -> Solver:
    """Makes the solver of a method. Its step runs in Python.

    Args:
      config: settings of the method, with its budget.
      first: key -> the initial state (`new_state`).
      iterate: (state, key, rounds) -> the state with the method's own fields and `sigma` updated, and the work done.
      profile: (state, sigma) -> the profile that plays the mixture sigma [P, K].

    Returns:
      The solver, with the columns of `PsroMetrics`.
    """

    def step(state: State, key: Array) -> tuple[State, PsroMetrics]:
        after, done = iterate(state, key, int(allowed_rounds(state.pace, config)))
        average = update_average(state.sigma_average, after.sigma, int(state.step))
        pace = settle_pace(state.pace, config, done.rounds, done.cost)
        return after.replace(sigma_average=average, pace=pace, step=state.step + 1), measure_iteration(done)

    def select_profile(state: State, which: str = "iterate") -> Profile:
        return profile(state, choose_mixture(which, state.sigma, state.sigma_average))

    return Solver(first, step, select_profile, jittable=False, columns=metric_columns(PsroMetrics))
