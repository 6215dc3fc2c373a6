"""Environments of JaxMARL as games: `jaxmarl:<id>`, with JaxMARL's own settings as options.

    make_game("jaxmarl:MPE_simple_push_v3", action_type="Continuous")
    make_game("jaxmarl:SMAX", num_allies=2, num_enemies=2, teams=True)

`simple_tag`, `simple_spread` and `hanabi` of this package follow the same rules and are several times faster.

Observations are flattened, zero-padded to the longest and followed by the one-hot of the seat; unequal action sets
become masks. JaxMARL does not report why an episode ends. Here the adapter counts the time limit `max_steps` exactly
(JaxMARL's MPE runs one step longer) and reports it as truncation; an earlier end is termination. A game that ends by
its rules in the step of the limit counts as truncated.

Ids that do not fit (JaxMARL 0.2): `storm`, `storm_2p`, `storm_np` and `coin_game` have no `step_env` and restart by
themselves; `LearnedPolicyEnemySMAX` needs a trained opponent; `ant_4x2` and the other robots need brax, and
`JaxRobotarium_*` a package of that name. `MPE_simple_crypto_v3` fits, but a defect of JaxMARL's reward pays its
adversary about -65,000 per step, so that low and high are required.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.games.sides import Sided, check_sides
from gems_jax.types import Array, GameState, PyTree, Struct, did_you_mean, expect

# (steps, low, high) of known ids: JaxMARL's episode length, and an interval of nearly all returns of random play, with
# a margin for better play. For MPE, which pays in every step, it is proportional to the length.
_USUAL: dict[str, tuple[int, float, float]] = {
    "MPE_simple_v3": (25, -180.0, 0.0),
    "MPE_simple_tag_v3": (25, -100.0, 100.0),
    "MPE_simple_world_comm_v3": (25, -150.0, 150.0),
    "MPE_simple_spread_v3": (25, -60.0, 0.0),
    "MPE_simple_speaker_listener_v4": (25, -200.0, 0.0),
    "MPE_simple_push_v3": (25, -70.0, 70.0),
    "MPE_simple_adversary_v3": (25, -70.0, 70.0),
    "MPE_simple_reference_v3": (25, -60.0, 0.0),
    "MPE_simple_facmac_v1": (25, -100.0, 100.0),
    "MPE_simple_facmac_3a_v1": (25, -100.0, 100.0),
    "MPE_simple_facmac_6a_v1": (25, -150.0, 150.0),
    "MPE_simple_facmac_9a_v1": (25, -300.0, 300.0),
    "switch_riddle": (6, -1.0, 1.0),
    "SMAX": (100, 0.0, 2.0),
    "HeuristicEnemySMAX": (100, 0.0, 2.0),
    "hanabi": (89, 0.0, 25.0),
    "overcooked": (400, 0.0, 240.0),
    "overcooked_v2": (400, 0.0, 240.0),
    "jaxnav": (500, -10.0, 10.0),
}
# names of one seat and of all seats of each side, as in this package's version of the game
_SIDE_NAMES = {"MPE_simple_tag_v3": (("pursuer", "pursuers"), ("evader", "evader"))}
_RIVALS = ("adversary", "enemy", "eve")  # seats with such names form the other side


class JaxmarlInner(Struct):
    """A state of JaxMARL and the number of steps played."""

    state: PyTree
    time: Array  # [] int32


@contextlib.contextmanager
def _silence_output() -> Iterator[None]:
    """Suppresses output and restores stdout and stderr, which importing JaxMARL resets."""
    streams, original_stdout = (sys.stdout, sys.stderr), sys.__stdout__
    try:
        sys.stdout = sys.__stdout__ = io.StringIO()  # type: ignore[misc, assignment]
        yield
    finally:
        (sys.stdout, sys.stderr), sys.__stdout__ = streams, original_stdout  # type: ignore[misc]


@cache
def _library() -> Any:
    # JaxMARL makes arrays when it is imported: inside a trace they would become tracers and outlive it.
    with jax.ensure_compile_time_eval(), _silence_output():
        try:
            import jaxmarl
        except ImportError as error:
            raise ImportError('games of JaxMARL need it: pip install "gems_jax[jaxmarl]"') from error
    return jaxmarl


@cache
def _env(env_id: str, settings: tuple[tuple[str, Any], ...], max_steps: int = 0) -> Any:
    """Returns the environment with its own time limit, if any, not before `max_steps`."""
    library = _library()
    env = _make_env(env_id, settings)
    parts: tuple[Any, ...] = (env, getattr(env, "_env", None)) if max_steps else ()
    for part in parts:
        if hasattr(part, "max_steps"):
            part.max_steps = max_steps
    if "step_env" not in dir(env) or type(env).step_env is library.environments.MultiAgentEnv.step_env:
        raise ValueError(f"{env_id!r} does not fit: expected step_env, a step without automatic restart, got none")
    return env


def _make_env(env_id: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    known = _library().registration.registered_envs
    if env_id not in known:
        hint = did_you_mean(f"jaxmarl:{env_id}", [f"jaxmarl:{each}" for each in known], 3)
        raise ValueError(f"JaxMARL has no environment {env_id!r}; {hint}known: {', '.join(known)}")
    with jax.ensure_compile_time_eval(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _library().make(env_id, **dict(settings))
        except Exception as error:  # constructors raise anything; the settings are the cause
            given = ", ".join(f"{name}={value!r}" for name, value in settings) or "no settings"
            raise ValueError(f"JaxMARL cannot make {env_id!r} with {given}: {error}") from error


@cache
def _masks_actions(game: JaxmarlGame) -> bool:
    """Returns whether the environment provides masks of legal actions."""
    env = game.env
    if hasattr(env, "get_legal_moves"):
        return True
    try:
        _, state = jax.eval_shape(env.reset, jax.random.key(0))
        jax.eval_shape(env.get_avail_actions, state)
    except NotImplementedError:
        return False
    return True


def jaxmarl_game(
    id: str,
    *,
    teams: bool = False,
    shared: bool = False,
    max_steps: int = 0,
    low: float = 0.0,
    high: float = 0.0,
    **settings: Any,
) -> JaxmarlGame:
    """Makes `jaxmarl:<id>`.

    Args:
      id: id of the environment in JaxMARL.
      teams: see `Sided`; seats named adversary, enemy or eve form the other side.
      shared: see `Sided`.
      max_steps: length of an episode; 0 for the usual one.
      low: lowest typical return of a player, by which estimates are scaled; 0 with high=0 for the usual one.
      high: highest typical return of a player.
      settings: keyword arguments of the environment; must be hashable.

    Returns:
      The game.

    Raises:
      ImportError: if JaxMARL is not installed.
      ValueError: if there is no such environment, it does not fit, or a setting is wrong.
    """
    for name, value in settings.items():
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"jaxmarl:{id}: the setting {name} must be hashable, got {value!r}") from None
    return JaxmarlGame(id, teams, shared, max_steps, low, high, tuple(sorted(settings.items())))


@jax.tree_util.register_static
@dataclass(frozen=True)
class JaxmarlGame(Sided):
    """A game of JaxMARL, made by `jaxmarl_game`."""

    id: str
    teams: bool = False
    shared: bool = False
    max_steps: int = 0
    low: float = 0.0
    high: float = 0.0
    settings: tuple[tuple[str, Any], ...] = ()

    simultaneous = True
    zero_sum = False
    typical_bounds = True

    def __post_init__(self) -> None:
        check_sides(self.name, self.teams, self.shared)
        spaces = [self.env.action_space(agent) for agent in self.env.agents]
        kinds = {type(space).__name__ for space in spaces}
        fits = kinds in ({"Discrete"}, {"Box"})
        expect(fits, f"{self.name} does not fit: actions must be all Discrete or all Box, got {sorted(kinds)}")
        self._fill_defaults()
        expect(
            self.low < self.high,
            f"{self.name} has no known returns: expected low < high, got {self.low} and {self.high}. Pass the typical "
            "lowest and highest return of a player.",
        )

    def _fill_defaults(self) -> None:
        """Fills in the usual episode length and returns."""
        steps, low, high = _USUAL.get(self.id, (0, 0.0, 0.0))
        object.__setattr__(self, "max_steps", self.max_steps or steps)
        expect(self.max_steps > 0, f"{self.name} has no known length: expected max_steps > 0, got {self.max_steps}.")
        if self.low == self.high == 0.0 and steps:
            longer = self.max_steps / steps if self.id.startswith("MPE") else 1.0
            object.__setattr__(self, "low", low * longer)
            object.__setattr__(self, "high", high * longer)

    @property
    def env(self) -> Any:
        return _env(self.id, self.settings, self.max_steps)

    @property
    def name(self) -> str:
        return f"jaxmarl:{self.id}"

    @property
    def sides(self) -> tuple[int, ...]:
        against = [any(word in str(agent) for word in _RIVALS) for agent in self.env.agents]
        return tuple(int(rival != against[0]) for rival in against)

    @property
    def side_names(self) -> tuple[tuple[str, str], ...]:
        """Names of one seat and of all seats, for every side."""
        return _SIDE_NAMES.get(self.id) or super().side_names

    @property
    def num_actions(self) -> int:
        return max(self._action_sizes)

    @property
    def _action_sizes(self) -> tuple[int, ...]:
        spaces = [self.env.action_space(agent) for agent in self.env.agents]
        return tuple(int(np.prod(space.shape)) if self.continuous else int(space.n) for space in spaces)

    @property
    def continuous(self) -> bool:
        return type(self.env.action_space(self.env.agents[0])).__name__ == "Box"

    @property
    def return_bounds(self) -> tuple[float, float]:
        return (self.low, self.high)

    def init(self, key: Array) -> GameState:
        """Starts an episode. key: consumed."""
        seen, state = self.env.reset(key)
        inner = JaxmarlInner(jax.tree.map(jnp.asarray, state), jnp.int32(0))
        return self._game_state(inner, self._stack_observations(seen), jnp.zeros(self.num_seats), jnp.bool_(False))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Steps the environment. actions: [S] int32, or [S, A] in (-1, 1) if continuous. key: consumed."""
        env, old = self.env, state.inner
        chosen = {agent: self._action(agent, actions[seat]) for seat, agent in enumerate(env.agents)}
        seen, after, rewards, dones, _ = env.step_env(key, old.state, chosen)
        reward = jnp.stack([jnp.asarray(rewards[agent], jnp.float32).reshape(()) for agent in env.agents])
        inner = JaxmarlInner(after, old.time + 1)
        inner, observation = jax.tree.map(
            lambda new, was: jnp.where(state.done, was, jnp.asarray(new).astype(was.dtype)),
            (inner, self._stack_observations(seen)),
            (old, state.observation),
        )
        ended = jnp.asarray(dones["__all__"], bool).reshape(()) & (inner.time < self.max_steps)
        ended = jnp.where(state.done, state.terminated, ended)
        return self._game_state(inner, observation, jnp.where(state.done, 0.0, reward), ended)

    def _action(self, agent: Any, action: Array) -> Array:
        """Maps an action to the size and box of JaxMARL's space."""
        space = self.env.action_space(agent)
        if not self.continuous:
            return action
        own = action[: int(np.prod(space.shape))].reshape(space.shape)
        low, high = (jnp.broadcast_to(jnp.asarray(edge, jnp.float32), space.shape) for edge in (space.low, space.high))
        return low + (jnp.clip(own, -1.0, 1.0) + 1.0) / 2.0 * (high - low)

    def _stack_observations(self, seen: PyTree) -> Array:
        """Stacks observations [S, obs]: flattened, padded, with the one-hot of the seat."""
        flat = [
            jnp.concatenate([jnp.asarray(leaf, jnp.float32).reshape(-1) for leaf in jax.tree.leaves(seen[agent])])
            for agent in self.env.agents
        ]
        longest, eye = max(len(row) for row in flat), np.eye(len(flat), dtype=np.float32)
        return jnp.stack(
            [jnp.concatenate([row, np.zeros(longest - len(row), np.float32), eye[seat]])
             for seat, row in enumerate(flat)]
        )  # fmt: skip

    def _legal_actions(self, state: PyTree) -> Array:
        """Returns the actions [S, A] bool that exist and that the environment allows."""
        env, sizes = self.env, np.asarray(self._action_sizes)
        exist = jnp.asarray(np.arange(self.num_actions)[None, :] < sizes[:, None])
        if self.continuous or not _masks_actions(self):
            return jnp.ones_like(exist) if self.continuous else exist
        masks = (env.get_legal_moves if hasattr(env, "get_legal_moves") else env.get_avail_actions)(state)
        rows = [jnp.asarray(masks[agent], bool).reshape(-1) for agent in env.agents]
        return jnp.stack([jnp.pad(row, (0, self.num_actions - len(row))) for row in rows])

    def _game_state(self, inner: JaxmarlInner, observation: Array, reward: Array, terminated: Array) -> GameState:
        truncated = (inner.time >= self.max_steps) & ~terminated
        running = ~(terminated | truncated)
        return GameState(
            inner=inner,
            observation=observation,
            legal=self._legal_actions(inner.state) & running,
            to_move=jnp.broadcast_to(running, (self.num_seats,)),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
        )
