"""Games that run in Python: the `Game` protocol over environments in worker processes.

`init` and `step` are host calls (`stages.call_host`), so that every function that plays a JAX game also plays these, in
programs made by `stages.stage`. A position is a *lane* of a pool (one environment instance), the index of its episode
and the step. A running game cannot be copied or rewound, and the indices detect attempts to do so. Chance is drawn from
a seed, which the key of `init` determines; the key of `step` is unused.
"""

from __future__ import annotations

import atexit
import dataclasses
import heapq
from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.host.base import EnvironmentFailure, Facts, Recipe
from gems_jax.host.pool import RESET, STEP, Pool, num_workers
from gems_jax.host.stages import call_at_session_end, call_host
from gems_jax.types import Array, GameState

_FIELDS = ("observation", "legal", "to_move", "reward", "terminated", "truncated")


@dataclasses.dataclass(frozen=True)
class PythonGame(ABC):
    """Base of games that run in Python. Fields of subclasses identify the game; `recipe` makes the environment.

    Args:
      time_limit: seconds that one step of one environment may take before the run fails.
    """

    time_limit: float = dataclasses.field(default=60.0, kw_only=True)

    on_host = True  # playable in staged programs only

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """The recipe from which a worker makes the environment."""

    @property
    @abstractmethod
    def facts(self) -> Facts: ...

    @property
    @abstractmethod
    def max_steps(self) -> int: ...

    @property
    def num_seats(self) -> int:
        return self.facts.num_seats

    @property
    def num_actions(self) -> int:
        return self.facts.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.facts.observation_shape

    @property
    def simultaneous(self) -> bool:
        return self.facts.simultaneous

    @property
    def continuous(self) -> bool:
        return self.facts.continuous

    def _results(self) -> list[jax.ShapeDtypeStruct]:
        seats, actions = self.num_seats, self.num_actions
        return [
            jax.ShapeDtypeStruct((3,), jnp.int32),  # instance, episode, step
            jax.ShapeDtypeStruct((seats, *self.observation_shape), jnp.float32),
            jax.ShapeDtypeStruct((seats, actions), jnp.bool_),
            jax.ShapeDtypeStruct((seats,), jnp.bool_),
            jax.ShapeDtypeStruct((seats,), jnp.float32),
            jax.ShapeDtypeStruct((), jnp.bool_),
            jax.ShapeDtypeStruct((), jnp.bool_),
        ]

    def init(self, key: Array) -> GameState:
        """Starts an episode. key: consumed."""
        return self.begin(key, jnp.bool_(True))

    def begin(self, key: Array, wanted: Array) -> GameState:
        """Starts an episode if it is wanted; otherwise returns a finished game at no cost.

        Args:
          key: consumed.
          wanted: [] bool.

        Returns:
          The initial state.
        """
        start = GameState(*call_host(Begin(self), self._results(), _seed(key), wanted))
        return dataclasses.replace(start, terminated=~wanted)

    def renew(self, state: GameState, key: Array) -> GameState:
        """Replaces a finished state by the start of a new episode. key: consumed."""
        fresh = GameState(*call_host(Begin(self), self._results(), _seed(key), state.done))
        return jax.tree.map(lambda new, old: jnp.where(state.done, new, old), fresh, state)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Steps the environment. actions: [S] int32, or [S, A] in (-1, 1). key: unused, `init` seeds all chance."""
        del key
        after = GameState(*call_host(Advance(self), self._results(), state.inner, actions, ~state.done, owned=0))
        same = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), after, state)
        return dataclasses.replace(same, reward=jnp.where(state.done, 0.0, after.reward))


def _seed(key: Array) -> Array:
    return jax.random.bits(key, (), jnp.uint32) >> 1


class EpisodeLanes:
    """The environment instances of one game's pool: which are free, and the episode of each."""

    def __init__(self, game: PythonGame):
        self.game, self.workers = game, num_workers()
        self.pool = Pool(game.name, game.recipe, game.facts, game.max_steps, game.time_limit, self.workers)
        self.free: list[int] = []
        self.known = 0  # number of instances
        self.episode = np.zeros(0, np.int32)

    @property
    def usable(self) -> bool:
        """Whether the pool is open and has the requested number of workers."""
        return self.pool.memory >= 0 and self.workers == num_workers()

    def take(self, count: int) -> np.ndarray:
        """Returns `count` free instances, new ones if needed."""
        missing = count - len(self.free)
        if missing > 0:
            self.pool.reserve(self.known + missing)
            for lane in range(self.known, self.known + missing):
                heapq.heappush(self.free, lane)
            self.known += missing
            self.episode = np.concatenate([self.episode, np.zeros(missing, np.int32)])
        return np.asarray([heapq.heappop(self.free) for _ in range(count)], np.int64)

    def release_all(self) -> None:
        """Frees all instances and invalidates their episodes."""
        self.free = list(range(self.known))
        self.episode += 1  # invalidates the handles of running episodes

    def begin(self, seeds: np.ndarray) -> list[np.ndarray]:
        """Starts one episode per seed; returns handles and positions."""
        lanes = self.take(len(seeds))
        records = self.pool.records
        records["seed"][lanes], records["order"][lanes] = seeds, RESET
        self.episode[lanes] += 1
        return self._work(lanes)

    def advance(self, handles: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
        """Steps the episodes with these handles.

        Args:
          handles: instance, episode and step of every position, [n, 3] int32.
          actions: [n, S] or [n, S, A].

        Returns:
          New handles and positions.

        Raises:
          EnvironmentFailure: if a handle is stale.
        """
        lanes = handles[:, 0].astype(np.int64)
        now = np.stack([self.episode[lanes], self.pool.records["step"][lanes]], axis=1)
        if (now != handles[:, 1:]).any() or len(np.unique(lanes)) < len(lanes):
            raise EnvironmentFailure(
                f"{self.game.name}: stale state: the environment has already advanced past it. Python environments "
                "cannot be rewound."
            )
        records = self.pool.records
        records["action"][lanes], records["order"][lanes] = actions, STEP
        return self._work(lanes)

    def _work(self, lanes: np.ndarray) -> list[np.ndarray]:
        self.pool.work()
        rows = self.pool.records[lanes]
        handles = np.stack([lanes, self.episode[lanes], rows["step"]], axis=1).astype(np.int32)
        for lane in lanes[rows["terminated"] | rows["truncated"]]:
            heapq.heappush(self.free, int(lane))
        return [handles, *(np.ascontiguousarray(rows[field]) for field in _FIELDS)]


_LANES: dict[PythonGame, EpisodeLanes] = {}


def lanes_of(game: PythonGame) -> EpisodeLanes:
    """Returns the instances of a game; its processes start at the first use and stay alive."""
    found = _LANES.get(game)
    if found is None or not found.usable:
        if found is not None:
            found.pool.close()
        found = _LANES[game] = EpisodeLanes(game)
    return found


def close_all() -> None:
    """Ends all worker processes."""
    while _LANES:
        _LANES.popitem()[1].pool.close()


def _release() -> None:
    for lanes in _LANES.values():
        lanes.release_all()


atexit.register(close_all)
call_at_session_end(_release)


@dataclasses.dataclass(frozen=True)
class _HostCall:
    """A host call for any number of episodes: leading axes are flattened for the pool and restored."""

    game: Any

    def rows(self, wanted: np.ndarray, made: list[np.ndarray] | None) -> list[np.ndarray]:
        """Returns results with the leading axes of `wanted`, zeros where it is False."""
        results = []
        for number, kind in enumerate(self.game._results()):
            whole = np.zeros((wanted.size, *kind.shape), kind.dtype)
            if made is not None:
                whole[wanted.reshape(-1)] = made[number]
            results.append(whole.reshape((*wanted.shape, *kind.shape)))
        return results

    def __str__(self) -> str:
        return f"the game {self.game.name}"


class Begin(_HostCall):
    """Starts episodes where they are wanted."""

    def __call__(self, seeds: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
        chosen = seeds.reshape(-1)[wanted.reshape(-1)]
        return self.rows(wanted, lanes_of(self.game).begin(chosen) if len(chosen) else None)


class Advance(_HostCall):
    """Steps the episodes that are still running."""

    def __call__(self, handles: np.ndarray, actions: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
        flat = wanted.reshape(-1)
        if not flat.any():
            return self.rows(wanted, None)
        own = actions.reshape(flat.size, *actions.shape[wanted.ndim :])[flat]
        return self.rows(wanted, lanes_of(self.game).advance(handles.reshape(-1, 3)[flat], own))
