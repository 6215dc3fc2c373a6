"""PettingZoo environments: AEC (in turns) and parallel ones, those of PettingZoo, of mpe2, and a user's own classes.

A seat is an agent, in the order of `possible_agents`. Agents that have left do not move; the episode ends when all
have. Observations are what an agent sees when it is to move, and zeros for the others in turn-based games.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from gems_jax.host.base import Environment, Facts, Seen, seen_shape, with_seats
from gems_jax.host.own import NotAGameError, import_own

_HOMES = ("pettingzoo.classic", "mpe2", "pettingzoo.butterfly", "pettingzoo.sisl", "pettingzoo.atari")
NEEDS = 'needs the extra "pettingzoo": pip install "gems_jax[pettingzoo]"'


def find_module(name: str) -> Any:
    """The module of an environment, as upstream names it. ImportError or ValueError that say what is missing."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pettingzoo  # noqa: F401
    except ImportError as error:
        raise ImportError(f"pz:{name} {NEEDS}") from error
    known: dict[str, str] = {}
    for home in _HOMES:
        known |= dict.fromkeys(_environments(home), home)
        if name in known:
            with _needing(name):
                return importlib.import_module(f"{home}.{name}")
    if name.startswith("simple_") and "mpe2" not in known.values():
        raise ImportError(f"pz:{name} is an environment of mpe2 and {NEEDS}")
    from gems_jax.types import did_you_mean  # here only: workers start without JAX

    hint = did_you_mean(name, known, 3)
    raise ValueError(f"PettingZoo has no environment {name!r}; {hint}known: {', '.join(sorted(known))}")


@contextlib.contextmanager
def _needing(name: str) -> Iterator[None]:
    """Says what to install when something that the environment needs is missing."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"pz:{name} {NEEDS} ({error})") from error


def _environments(home: str) -> list[str]:
    """Names of the environments of a package, none where it cannot be imported."""
    try:
        package = importlib.import_module(home)
    except ImportError:
        return []
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [name for name in names if name.rpartition("_v")[2].isdigit()]


def make_pettingzoo(name: str, **options: Any) -> Environment:
    """The environment called `name`, `package.module:MyClass` of a user's own included."""
    if ":" in name:
        own = import_own(name)
        if not (isinstance(own, type) and is_environment(own)):
            raise NotAGameError(f"{name!r} is not an environment class of PettingZoo: got a {type(own).__name__}")
        return wrap(own(**options))
    with warnings.catch_warnings():  # upstream's own, about its spaces and its registry
        warnings.simplefilter("ignore")
        found = find_module(name)
        with _needing(name):
            return wrap((getattr(found, "parallel_env", None) or found.env)(**options))


def wrap(made: Any) -> Environment:
    """An AEC or a parallel environment as an `Environment`."""
    return Turns(made) if hasattr(made, "agent_iter") else Together(made)


def is_environment(found: Any) -> bool:
    """Whether a class or an object is of PettingZoo's, told by what it has: nothing is imported for it."""
    return not hasattr(found, "init") and all(hasattr(found, name) for name in ("reset", "step", "observation_space"))


def _named(flags: dict[str, bool]) -> set[str]:
    return {agent for agent, flag in flags.items() if flag}


class _Agents:
    """What both kinds have in common: spaces, masks, actions."""

    def __init__(self, made: Any, simultaneous: bool):
        self.env = made
        self.agents = tuple(made.possible_agents)
        self.spaces = [made.action_space(agent) for agent in self.agents]
        self.continuous = hasattr(self.spaces[0], "low")
        sizes = [int(np.prod(space.shape)) if self.continuous else int(space.n) for space in self.spaces]
        self.num_actions = max(sizes)
        self.may = np.arange(self.num_actions)[None, :] < np.asarray(sizes)[:, None]  # [S, A]
        shapes = [self._shape(made.observation_space(agent)) for agent in self.agents]
        self.facts = Facts(
            num_seats=len(self.agents),
            num_actions=self.num_actions,
            observation_shape=seen_shape(shapes),
            simultaneous=simultaneous,
            continuous=self.continuous,
            max_steps=int(self._declared("max_steps") or 0),
            return_bounds=self._declared("return_bounds"),
            zero_sum=self._declared("zero_sum"),
            seat_names=self.agents,
        )
        self.shapes = shapes

    def _declared(self, name: str) -> Any:
        """What a user's class says about itself, as `Game` names it."""
        return getattr(getattr(self.env, "unwrapped", self.env), name, None)

    @staticmethod
    def _shape(space: Any) -> tuple[int, ...]:
        if hasattr(space, "spaces"):  # what is seen beside the mask of actions
            space = space.spaces["observation"]
        return (int(space.n),) if hasattr(space, "n") else tuple(space.shape)

    def seen_by(self, seat: int, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """What one agent sees, and its legal actions [A]."""
        legal = self.may[seat]
        if isinstance(given, dict):
            if "action_mask" in given:
                legal = np.zeros(self.num_actions, bool)
                mask = np.asarray(given["action_mask"])
                legal[: mask.size] = mask.reshape(-1) > 0
            given = given["observation"]
        seen = np.asarray(given, np.float32)
        if seen.ndim == 0 and self.shapes[seat][0] > 1:  # one of n, as a one-hot
            seen = np.eye(self.shapes[seat][0], dtype=np.float32)[int(seen)]
        if seen.shape != self.shapes[seat]:
            raise ValueError(
                f"{self.agents[seat]} sees an array of shape {list(seen.shape)}; its observation space says "
                f"{list(self.shapes[seat])}"
            )
        return seen, legal

    def action_of(self, seat: int, actions: np.ndarray) -> Any:
        if not self.continuous:
            return int(actions[seat])
        space = self.spaces[seat]
        share = (np.clip(actions[seat, : int(np.prod(space.shape))], -1, 1) + 1) / 2
        return (space.low + share.reshape(space.shape) * (space.high - space.low)).astype(space.dtype)

    def rewards(self, given: dict[str, float]) -> np.ndarray:
        """[S], 0 for agents that earned nothing."""
        return np.asarray([given.get(agent, 0.0) for agent in self.agents], np.float32)

    def position(
        self, given: dict[int, Any], movers: list[int], reward: np.ndarray, terminated: bool, truncated: bool
    ) -> Seen:
        """given: the observations of some seats."""
        seats = len(self.agents)
        parts = [np.zeros(shape, np.float32) for shape in self.shapes]
        legal, to_move = np.zeros((seats, self.num_actions), bool), np.zeros(seats, bool)
        for seat, observation in given.items():
            parts[seat], may = self.seen_by(seat, observation)
            if seat in movers:
                legal[seat], to_move[seat] = may, True
        return Seen(with_seats(parts, self.facts.observation_shape), legal, to_move, reward, terminated, truncated)


class Together(_Agents):
    """A parallel environment: everybody moves at once."""

    def __init__(self, made: Any):
        super().__init__(made, simultaneous=True)

    def reset(self, seed: int) -> Seen:
        found = self.env.reset(seed=seed)
        observations = found[0] if isinstance(found, tuple) else found
        self.alive = list(self.env.agents)
        return self._position(observations, np.zeros(len(self.agents), np.float32), False, False)

    def step(self, actions: np.ndarray) -> Seen:
        chosen = {agent: self.action_of(self.agents.index(agent), actions) for agent in self.alive}
        observations, rewards, terminations, truncations, _ = self.env.step(chosen)
        cut = _named(truncations).intersection(self.alive)
        gone = cut | _named(terminations)
        self.alive = [agent for agent in self.alive if agent in self.env.agents and agent not in gone]
        over = not self.alive
        return self._position(observations, self.rewards(rewards), over and not cut, over and bool(cut))

    def _position(self, observations: dict[str, Any], reward: np.ndarray, terminated: bool, truncated: bool) -> Seen:
        given = {self.agents.index(agent): seen for agent, seen in observations.items()}
        return self.position(given, [self.agents.index(a) for a in self.alive], reward, terminated, truncated)


class Turns(_Agents):
    """An AEC environment: one agent moves at a time."""

    def __init__(self, made: Any):
        super().__init__(made, simultaneous=False)

    def reset(self, seed: int) -> Seen:
        self.env.reset(seed=seed)
        return self._position(np.zeros(len(self.agents), np.float32))

    def step(self, actions: np.ndarray) -> Seen:
        self.env.step(self.action_of(self.mover, actions))
        return self._position(self.rewards(self.env.rewards))

    def _position(self, reward: np.ndarray) -> Seen:
        env = self.env  # wrappers look every attribute up one by one: ask once
        agents, terminated, truncated = env.agents, env.terminations, env.truncations
        left = [agent for agent in agents if not (terminated.get(agent, False) or truncated.get(agent, False))]
        if not left:
            cut = any(truncated.values()) and not all(terminated.values())
            return self.position({}, [], reward, not cut, cut)
        while (agent := env.agent_selection) not in left:  # who has left is stepped over
            env.step(None)
        self.mover = self.agents.index(agent)
        return self.position({self.mover: env.observe(agent)}, [self.mover], reward, False, False)
