"""PettingZoo environments, AEC (turn-based) and parallel: those of PettingZoo, of mpe2, and a user's own classes.

A seat is an agent, in the order of `possible_agents`. Agents that have left do not move; the episode ends when all have
left. In turn-based games an agent observes zeros while it is not to move.
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

from gems_jax.host.base import Environment, EnvironmentState, Facts, stack_observations, stacked_shape
from gems_jax.host.own import NotAGameError, import_own

_HOMES = ("pettingzoo.classic", "mpe2", "pettingzoo.butterfly", "pettingzoo.sisl", "pettingzoo.atari")
NEEDS = 'needs the extra "pettingzoo": pip install "gems_jax[pettingzoo]"'


def find_module(name: str) -> Any:
    """Imports the module of an environment.

    Args:
      name: name of the environment, as upstream spells it.

    Returns:
      The module.

    Raises:
      ImportError: if PettingZoo, mpe2 or one of their dependencies is not installed.
      ValueError: if there is no such environment.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pettingzoo  # noqa: F401
    except ImportError as error:
        raise ImportError(f"pz:{name} {NEEDS}") from error
    known: dict[str, str] = {}
    for home in _HOMES:
        known |= dict.fromkeys(_environments(home), home)
        if name in known:
            with _explain_missing(name):
                return importlib.import_module(f"{home}.{name}")
    if name.startswith("simple_") and "mpe2" not in known.values():
        raise ImportError(f"pz:{name} is an environment of mpe2 and {NEEDS}")
    from gems_jax.types import did_you_mean  # imported late: workers start without JAX

    hint = did_you_mean(f"pz:{name}", [f"pz:{each}" for each in known], 3).rstrip()
    raise ValueError(f"PettingZoo has no environment {name!r}; {hint or 'known: ' + ', '.join(sorted(known))}")


@contextlib.contextmanager
def _explain_missing(name: str) -> Iterator[None]:
    """Adds to import errors what to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"pz:{name} {NEEDS} ({error})") from error


def _environments(home: str) -> list[str]:
    """Returns the names of the environments of a package, none if it cannot be imported."""
    try:
        package = importlib.import_module(home)
    except ImportError:
        return []
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [name for name in names if name.rpartition("_v")[2].isdigit()]


def make_pettingzoo(name: str, **options: Any) -> Environment:
    """Makes an environment.

    Args:
      name: name of an environment, or `package.module:MyClass` of a user's own.
      options: keyword arguments of the environment.

    Returns:
      The environment behind the `Environment` interface.

    Raises:
      NotAGameError: if a user's own name does not refer to an environment class.
      ImportError: if a library is not installed.
      ValueError: if there is no such environment.
    """
    if ":" in name:
        own = import_own(name)
        if not (isinstance(own, type) and is_environment(own)):
            raise NotAGameError(f"{name!r} is not an environment class of PettingZoo: got a {type(own).__name__}")
        return wrap_environment(own(**options))
    with warnings.catch_warnings():  # upstream warns about its own spaces and registry
        warnings.simplefilter("ignore")
        found = find_module(name)
        with _explain_missing(name):
            return wrap_environment((getattr(found, "parallel_env", None) or found.env)(**options))


def wrap_environment(made: Any) -> Environment:
    """Wraps an AEC or a parallel environment as an `Environment`."""
    return TurnEnvironment(made) if hasattr(made, "agent_iter") else ParallelEnvironment(made)


def is_environment(found: Any) -> bool:
    """Returns whether a class or an object has the methods of a PettingZoo environment. Imports nothing."""
    return not hasattr(found, "init") and all(hasattr(found, name) for name in ("reset", "step", "observation_space"))


def _flagged_agents(flags: dict[str, bool]) -> set[str]:
    """Returns the agents whose flag is set."""
    return {agent for agent, flag in flags.items() if flag}


class _Agents:
    """Spaces, masks and actions, common to both kinds of environments."""

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
            observation_shape=stacked_shape(shapes),
            simultaneous=simultaneous,
            continuous=self.continuous,
            max_steps=int(self._declared("max_steps") or 0),
            return_bounds=self._declared("return_bounds"),
            zero_sum=self._declared("zero_sum"),
            seat_names=self.agents,
        )
        self.shapes = shapes

    def _declared(self, name: str) -> Any:
        """Returns an attribute that a user's class declares under the name that `Game` has for it."""
        return getattr(getattr(self.env, "unwrapped", self.env), name, None)

    @staticmethod
    def _shape(space: Any) -> tuple[int, ...]:
        if hasattr(space, "spaces"):  # an observation beside an action mask
            space = space.spaces["observation"]
        return (int(space.n),) if hasattr(space, "n") else tuple(space.shape)

    def observe_agent(self, seat: int, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the observation of one agent and its legal actions [A]."""
        legal = self.may[seat]
        if isinstance(given, dict):
            if "action_mask" in given:
                legal = np.zeros(self.num_actions, bool)
                mask = np.asarray(given["action_mask"])
                legal[: mask.size] = mask.reshape(-1) > 0
            given = given["observation"]
        seen = np.asarray(given, np.float32)
        if seen.ndim == 0 and self.shapes[seat][0] > 1:  # a discrete observation, as a one-hot
            seen = np.eye(self.shapes[seat][0], dtype=np.float32)[int(seen)]
        if seen.shape != self.shapes[seat]:
            raise ValueError(
                f"observation of {self.agents[seat]} does not fit: expected shape {list(self.shapes[seat])} of its "
                f"observation space, got {list(seen.shape)}"
            )
        return seen, legal

    def decode_action(self, seat: int, actions: np.ndarray) -> Any:
        """Returns the action of a seat as its space takes it."""
        if not self.continuous:
            return int(actions[seat])
        space = self.spaces[seat]
        fraction = (np.clip(actions[seat, : int(np.prod(space.shape))], -1, 1) + 1) / 2
        return (space.low + fraction.reshape(space.shape) * (space.high - space.low)).astype(space.dtype)

    def rewards(self, given: dict[str, float]) -> np.ndarray:
        """Returns the rewards [S], 0 for agents without one."""
        return np.asarray([given.get(agent, 0.0) for agent in self.agents], np.float32)

    def position(
        self, given: dict[int, Any], movers: list[int], reward: np.ndarray, terminated: bool, truncated: bool
    ) -> EnvironmentState:
        """Makes a position from the observations `given` of some seats."""
        seats = len(self.agents)
        parts = [np.zeros(shape, np.float32) for shape in self.shapes]
        legal, to_move = np.zeros((seats, self.num_actions), bool), np.zeros(seats, bool)
        for seat, observation in given.items():
            parts[seat], may = self.observe_agent(seat, observation)
            if seat in movers:
                legal[seat], to_move[seat] = may, True
        return EnvironmentState(
            stack_observations(parts, self.facts.observation_shape), legal, to_move, reward, terminated, truncated
        )


class ParallelEnvironment(_Agents):
    """A parallel environment: all agents move simultaneously."""

    def __init__(self, made: Any):
        super().__init__(made, simultaneous=True)

    def reset(self, seed: int) -> EnvironmentState:
        found = self.env.reset(seed=seed)
        observations = found[0] if isinstance(found, tuple) else found
        self.alive = list(self.env.agents)
        return self._position(observations, np.zeros(len(self.agents), np.float32), False, False)

    def step(self, actions: np.ndarray) -> EnvironmentState:
        chosen = {agent: self.decode_action(self.agents.index(agent), actions) for agent in self.alive}
        observations, rewards, terminations, truncations, _ = self.env.step(chosen)
        cut = _flagged_agents(truncations).intersection(self.alive)
        gone = cut | _flagged_agents(terminations)
        self.alive = [agent for agent in self.alive if agent in self.env.agents and agent not in gone]
        over = not self.alive
        return self._position(observations, self.rewards(rewards), over and not cut, over and bool(cut))

    def _position(
        self, observations: dict[str, Any], reward: np.ndarray, terminated: bool, truncated: bool
    ) -> EnvironmentState:
        given = {self.agents.index(agent): seen for agent, seen in observations.items()}
        return self.position(given, [self.agents.index(a) for a in self.alive], reward, terminated, truncated)


class TurnEnvironment(_Agents):
    """An AEC environment: one agent moves at a time."""

    def __init__(self, made: Any):
        super().__init__(made, simultaneous=False)

    def reset(self, seed: int) -> EnvironmentState:
        self.env.reset(seed=seed)
        return self._position(np.zeros(len(self.agents), np.float32))

    def step(self, actions: np.ndarray) -> EnvironmentState:
        self.env.step(self.decode_action(self.mover, actions))
        return self._position(self.rewards(self.env.rewards))

    def _position(self, reward: np.ndarray) -> EnvironmentState:
        env = self.env  # attribute lookups through wrappers are slow
        agents, terminated, truncated = env.agents, env.terminations, env.truncations
        left = [agent for agent in agents if not (terminated.get(agent, False) or truncated.get(agent, False))]
        if not left:
            cut = any(truncated.values()) and not all(terminated.values())
            return self.position({}, [], reward, not cut, cut)
        while (agent := env.agent_selection) not in left:  # skip agents that have left
            env.step(None)
        self.mover = self.agents.index(agent)
        return self.position({self.mover: env.observe(agent)}, [self.mover], reward, False, False)
