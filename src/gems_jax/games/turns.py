"""Two-player turn-based games whose positions are states of pgx: the base of `PgxGame`, of poker and of the boards.

pgx draws at random which player id moves first. Here a *seat* is the order of moving: seat 0 moves first, whatever its
player id, which `inner.first` stores.
"""

from __future__ import annotations

import itertools
import warnings
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.cpu import compute_once
from gems_jax.types import Array, GameState, NotEnumerableError, PyTree, Struct, did_you_mean, expect

OBSERVATIONS = ("plain", "infoset")


class TurnPosition(Struct):
    """A state of pgx without its observation and rewards, and the data that the game adds."""

    state: PyTree  # pgx state
    first: Array  # [] int32, player id that sits in seat 0
    history: Array  # [H] bool, one-hot of the actions so far (poker only, else H = 0)


class TurnRules(NamedTuple):
    """Facts about a pgx game that pgx does not declare."""

    max_steps: int  # longest episode that the rules allow; 0 if unknown
    return_bounds: tuple[float, float] = (-1.0, 1.0)
    chance: bool = False  # dice or cards: there is more than one initial state
    turns: int = 0  # quarter turns from the squares of the observation to the order of the actions
    positions: float = 0.0  # order of magnitude of the number of positions; 0 if unknown


def allow_rank_promotion() -> AbstractContextManager[None]:
    """Returns a context that allows rank promotion, which pgx needs."""
    return jax.numpy_rank_promotion("allow")


@cache
def make_env(env_id: str) -> Any:
    """Makes the environment of pgx called `env_id`.

    Raises:
      ImportError: if pgx is not installed.
      ValueError: if there is no such environment.
    """
    # pgx makes arrays when it is imported; inside a trace they would become tracers and outlive it.
    with jax.ensure_compile_time_eval(), allow_rank_promotion():
        try:
            import pgx
        except ImportError as error:
            raise ImportError(f"The game {env_id!r} needs pgx: pip install pgx") from error
        known = pgx.available_envs()
        if env_id not in known:
            hint = did_you_mean(f"pgx:{env_id}", [f"pgx:{each}" for each in known], 3)
            raise ValueError(f"pgx has no game {env_id!r}; {hint}known: {', '.join(known)}")
        return pgx.make(env_id)


def blank(state: Any) -> Any:
    """Removes observation and rewards from a pgx state; XLA then drops the code that computes them."""
    return state.replace(observation=jnp.zeros(0, jnp.bool_), rewards=jnp.zeros_like(state.rewards))


@cache
def _first_state(env_id: str) -> Any:
    with jax.ensure_compile_time_eval(), allow_rank_promotion():
        # pgx draws who begins and may store it in several fields: draw until it is player 0. One program draws: run one
        # by one, its operations take seconds to compile.
        init = jax.jit(lambda seed: blank(make_env(env_id).init(jax.random.key(seed))))
        draws = (jax.tree.map(np.asarray, init(seed)) for seed in itertools.count())
        return next(draw for draw in draws if draw.current_player == 0)


def first_state(env_id: str) -> Any:
    """Returns a pgx state before the first move in which player 0 begins; poker cards are not dealt yet."""
    return jax.tree.map(jnp.asarray, _first_state(env_id))


@cache
def _shapes(game: TurnGame) -> GameState:
    return jax.eval_shape(game.init, jax.random.key(0))


@cache
def _observation_dtype(env_id: str) -> Any:
    with allow_rank_promotion():
        return jax.eval_shape(lambda: make_env(env_id).init(jax.random.key(0))).observation.dtype


# A step of GEMS traces a game a dozen times. Tracing the rules takes seconds, for chess most of a second start. A jit
# around a method caches its trace, and XLA inlines it.
trace_once: Any = partial(jax.jit, static_argnums=0)


@dataclass(frozen=True, kw_only=True)
class TurnGame(ABC):
    """A two-player turn-based game. Subclasses choose an environment or override `start`, `advance` and `observe`.

    Args:
      id: the name of the game in pgx.
      observation: "plain" is what pgx shows (poker: flattened, plus the betting history and the seat); "infoset", for
        poker
        only, is the one-hot of the information set of the seat to move and zeros for the other seat.
      shared: both players are drawn from one population.
      max_steps: length at which episodes are truncated; 0 for the longest episode that the rules allow.
      suits: cards of equal rank are distinguishable (leduc_holdem only): 936 information sets instead of 288, and the
        same
        values. A card is then rank + 3 * suit.
    """

    id: str
    observation: str = "plain"
    shared: bool = False
    max_steps: int = 0
    suits: bool = False

    def __post_init__(self) -> None:
        self.check_options()
        players, longest = self.env.num_players, self.rules.max_steps
        expect(players == 2, f"PgxGame needs a two-player game, got {self.id!r} with {players} players.")
        steps = self.max_steps or longest
        expect(steps > 0, f"{self.id!r} has no known length: expected max_steps > 0, got {self.max_steps}.")
        object.__setattr__(self, "max_steps", min(steps, longest or steps))

    def check_options(self) -> None:
        """Raises ValueError for options that this game does not have."""
        known = self.observation in OBSERVATIONS
        expect(known, f"observation must be one of {OBSERVATIONS}, got {self.observation!r}.")
        listed = self.has_infosets or self.observation != "infoset"
        expect(listed, f"observation='infoset' exists for kuhn_poker and leduc_holdem only, not {self.id!r}.")
        expect(self.has_suits or not self.suits, f"suits=True exists for leduc_holdem only, not {self.id!r}.")

    has_infosets = False  # whether observation="infoset" exists
    has_suits = False

    @property
    @abstractmethod
    def rules(self) -> TurnRules:
        """Facts that pgx does not declare."""

    @property
    def env(self) -> Any:
        """An environment with the functions of `pgx.Env`."""
        return make_env(self.id)

    @property
    def name(self) -> str:
        return self.id

    @property
    def truncates(self) -> bool:
        return self.max_steps != self.rules.max_steps

    @property
    def board_turns(self) -> int:
        """Quarter turns (numpy.rot90) that bring the squares of a board into the order of the actions."""
        return self.rules.turns

    @property
    def approximate_positions(self) -> float:
        """Order of magnitude of the number of positions; 0 if unknown, as for truncated games."""
        return 0.0 if self.truncates else self.rules.positions

    @property
    def num_actions(self) -> int:
        return _shapes(self).legal.shape[1]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return _shapes(self).observation.shape[1:]

    @property
    def observation_dtype(self) -> Any:
        """Dtype in which observations may be stored, a quarter of the memory if pgx shows bits."""
        return _observation_dtype(self.id)

    num_seats = 2
    simultaneous = False
    continuous = False
    zero_sum = True
    player_of_seat = (0, 1)

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0, 0) if self.shared else (0, 1)

    @property
    def return_bounds(self) -> tuple[float, float]:
        return self.rules.return_bounds

    @trace_once
    def init(self, key: Array) -> GameState:
        """Starts an episode. key: consumed."""
        return self._game_state(self.start(key), jnp.zeros(2, jnp.float32))

    def start(self, key: Array) -> TurnPosition:
        """Returns a position before the first move. Boards draw nothing: seats do not depend on who begins."""
        if self.rules.max_steps and not self.rules.chance:
            state = first_state(self.id)
        else:
            with allow_rank_promotion():
                state = jax.tree.map(jnp.asarray, self.env.init(key))
        return TurnPosition(blank(state), state.current_player, jnp.zeros(0, jnp.bool_))

    @trace_once
    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [2] int32. key: used by chance moves (backgammon)."""
        inner: TurnPosition = state.inner
        action = jnp.where(inner.state.current_player == inner.first, actions[0], actions[1])
        after = self.advance(inner.state, action, key)
        reward = jnp.where(inner.first == 0, after.rewards, after.rewards[::-1]).astype(jnp.float32)
        if self.truncates:
            truncated = ~after.terminated & (after._step_count >= self.max_steps)
            # pgx punishes illegal actions even in a truncated state: make every action legal there.
            after = after.replace(truncated=truncated, legal_action_mask=after.legal_action_mask | truncated)
        history = self.remember(inner, action, state.done)
        return self._game_state(TurnPosition(blank(after), inner.first, history), reward)

    def advance(self, state: Any, action: Array, key: Array) -> Any:
        """Returns the pgx state after an action of the player to move. key: consumed."""
        with allow_rank_promotion():
            return self.env.step(state, action, key)

    def remember(self, inner: TurnPosition, action: Array, done: Array) -> Array:
        """Returns the history [H] after an action."""
        return inner.history

    def deals(self) -> tuple[GameState, Array]:
        """Returns all initial states, [N], and their probabilities, [N]: for a board, its one start."""
        if self.rules.chance:
            raise NotEnumerableError(f"{self.id!r} rolls dice or deals cards: it does not list its initial states.")
        start = jax.jit(self.init)(jax.random.key(0))
        return jax.tree.map(lambda leaf: leaf[None], start), jnp.ones(1, jnp.float32)

    def _game_state(self, inner: TurnPosition, reward: Array) -> GameState:
        state = inner.state
        to_move = self._to_move(inner)
        return GameState(
            inner=inner,
            observation=self.observe(inner, to_move),
            legal=to_move[:, None] & state.legal_action_mask[None, :],
            to_move=to_move,
            reward=reward,
            terminated=state.terminated,
            truncated=state.truncated,
            infoset=self.infoset(inner),
        )

    def _to_move(self, inner: TurnPosition) -> Array:
        done = inner.state.terminated | inner.state.truncated
        return compute_once((inner.first ^ jnp.arange(2) == inner.state.current_player) & ~done)

    def infoset(self, inner: TurnPosition) -> Array | None:
        """Returns the indices of the information sets of both seats [2], or None if the game has none."""
        return None

    def observe(self, inner: TurnPosition, to_move: Array) -> Array:
        """Returns the observations of both seats [2, ...] float32."""
        if self.truncates:
            return jax.vmap(partial(self._view, inner))(jnp.arange(2))
        # On a board only the seat to move needs its view, and a view costs as much as a move.
        seen = self._view(inner, (inner.state.current_player != inner.first).astype(jnp.int32))
        return jnp.where(to_move.reshape(2, *(1,) * seen.ndim), seen[None], 0.0)

    def _view(self, inner: TurnPosition, seat: Array) -> Array:
        """Returns the observation of one seat, float32."""
        with warnings.catch_warnings(), allow_rank_promotion():  # pgx deprecates views of other players
            warnings.simplefilter("ignore", DeprecationWarning)
            return self.env.observe(inner.state, inner.first ^ seat).astype(jnp.float32)
