"""Two-player turn-based games of pgx behind the `Game` protocol.

pgx draws at random which player id moves first. Here a *seat* is the order of moving: seat 0 moves first, whatever
its player id, and `inner.first` remembers that id. Poker observations of pgx hide the seat and forget the betting, so
the policies best for them are exploitable by construction; for Kuhn and Leduc both are appended (perfect recall).

Everything that is particular to one game is a row of `_RULES`; a game without a row is reached as `pgx:<id>`.
"""

from __future__ import annotations

import itertools
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile import once
from gems_jax.games.poker import KUHN, LEDUC, LEDUC_WITH_SUITS, Poker, bits
from gems_jax.types import Array, GameState, NotEnumerableError, PyTree, Struct, did_you_mean

OBSERVATIONS = ("plain", "infoset")
# Games with a name of their own in `gems_jax.games.GAMES`; the others are called pgx:<id>.
NAMED = ("kuhn_poker", "leduc_holdem", "tic_tac_toe", "connect_four", "go_9x9", "chess")


class PgxInner(Struct):
    """What the adapter carries besides the pgx state, whose own observation and rewards are blanked."""

    state: PyTree  # pgx state
    first: Array  # [] int32, player id that sits in seat 0
    history: Array  # [H] bool, one-hot of the actions so far (poker only, else H = 0)


@dataclass(frozen=True)
class _Rules:
    """What pgx does not declare about one of its games."""

    max_steps: int  # longest episode that the rules allow; 0 when unknown
    return_bounds: tuple[float, float] = (-1.0, 1.0)
    poker: Poker | None = None
    chance: bool = False  # dice: initial states are not listed
    turns: int = 0  # quarter turns from the squares of the observation to the order in which actions count them


_RULES: dict[str, _Rules] = {
    "kuhn_poker": _Rules(3, (-2.0, 2.0), KUHN),
    "leduc_holdem": _Rules(8, (-13.0, 13.0), LEDUC),
    "tic_tac_toe": _Rules(9),
    "connect_four": _Rules(42),
    "go_9x9": _Rules(162),
    "go_19x19": _Rules(722),
    "chess": _Rules(512, turns=3),
    "gardner_chess": _Rules(256, turns=3),
    "animal_shogi": _Rules(256),
    "shogi": _Rules(512),
    "hex": _Rules(122),  # 121 fields, and the swap of the first stone
    "othello": _Rules(119),  # 60 stones, at most one pass between two of them
    "backgammon": _Rules(0, (-3.0, 3.0), chance=True),
}
_WITH_SUITS = {"leduc_holdem": replace(_RULES["leduc_holdem"], poker=LEDUC_WITH_SUITS)}


def _lenient() -> AbstractContextManager[None]:
    """pgx broadcasts between ranks, which a program around it may have forbidden."""
    return jax.numpy_rank_promotion("allow")


@cache
def _env(env_id: str) -> Any:
    # pgx makes arrays when it is imported; inside a trace they would become tracers and outlive it.
    with jax.ensure_compile_time_eval(), _lenient():
        try:
            import pgx
        except ImportError as error:
            raise ImportError(f"The game {env_id!r} needs pgx: pip install pgx") from error
        if env_id not in pgx.available_envs():
            known = pgx.available_envs()
            hint = did_you_mean(env_id, known, 3)
            raise ValueError(f"pgx has no game {env_id!r}; {hint}known: {', '.join(known)}")
        return _faster(pgx.make(env_id))


def _faster(env: Any) -> Any:
    """The same environment by this package's form of its rules, where there is one."""
    if env.id.startswith("go_"):
        from gems_jax.games.boards import go as go_rules

        env._game = go_rules.in_place_of(env._game)
    if env.id == "connect_four":
        from gems_jax.games.boards import connect_four as connect_four_rules

        env._game = connect_four_rules.ConnectFourRules()
    if env.id == "chess":
        from gems_jax.games.boards import chess as chess_rules

        env.game = chess_rules.ChessRules()
    return env


@cache
def _shapes(game: PgxGame) -> GameState:
    return jax.eval_shape(game.init, jax.random.key(0))


def _blank(state: Any) -> Any:
    """The pgx state without what the adapter keeps itself; XLA then drops the code that computes it."""
    return state.replace(observation=jnp.zeros(0, jnp.bool_), rewards=jnp.zeros_like(state.rewards))


@cache
def _start(env_id: str) -> Any:
    """A pgx state before the first move, player 0 to begin, as host arrays; poker's cards are still to be dealt."""
    with jax.ensure_compile_time_eval(), _lenient():
        # Who begins is drawn, and more than one field may say so: draw until it is player 0.
        draws = (_env(env_id).init(jax.random.key(seed)) for seed in itertools.count())
        state = _blank(next(draw for draw in draws if draw.current_player == 0))
        return jax.tree.map(np.asarray, state)


# A step of GEMS plays a game in a dozen places. Tracing the rules takes seconds, of chess most of a second start:
# under a jit of its own a method is traced once, and XLA inlines it.
_traced_once: Any = partial(jax.jit, static_argnums=0)


@jax.tree_util.register_static
@dataclass(frozen=True)
class PgxGame:
    """A two-player game of pgx: `id` as pgx spells it.

    observation: "plain" is what pgx shows (poker: flattened, plus the betting history and the seat); "infoset", for
        poker only, is the one-hot of the information set of the seat that is to move and zeros for the other one.
    shared: both players are drawn from one population.
    max_steps: 0 for the longest episode that the rules allow; a smaller number truncates.
    suits: the two cards of a rank can be told apart (leduc_holdem only): 936 information sets instead of 288, and the
        same values. A card is then rank + 3 * suit.
    """

    id: str
    observation: str = "plain"
    shared: bool = False
    max_steps: int = 0
    suits: bool = False

    def __post_init__(self) -> None:
        if self.suits and self.id not in _WITH_SUITS:
            raise ValueError(f"suits=True exists for {', '.join(_WITH_SUITS)} only, not {self.id!r}.")
        env, rules = _env(self.id), self._rules
        if env.num_players != 2:
            raise ValueError(f"PgxGame needs a two-player game, got {self.id!r} with {env.num_players} players.")
        if self.observation not in OBSERVATIONS:
            raise ValueError(f"observation must be one of {OBSERVATIONS}, got {self.observation!r}.")
        if self.observation == "infoset" and rules.poker is None:
            raise ValueError(f"observation='infoset' exists for kuhn_poker and leduc_holdem only, not {self.id!r}.")
        if self.max_steps < 0 or (self.max_steps == 0 and rules.max_steps == 0):
            raise ValueError(f"{self.id!r} needs max_steps > 0, got {self.max_steps}: where shall an episode be cut?")
        if self.max_steps == 0 or (0 < rules.max_steps < self.max_steps):
            object.__setattr__(self, "max_steps", rules.max_steps)

    @property
    def _rules(self) -> _Rules:
        return _WITH_SUITS[self.id] if self.suits else _RULES.get(self.id, _Rules(0))

    @property
    def name(self) -> str:
        return self.id if self.id in NAMED else f"pgx:{self.id}"

    @property
    def truncates(self) -> bool:
        return self.max_steps != self._rules.max_steps

    @property
    def board_turns(self) -> int:
        """Quarter turns (numpy.rot90) that bring the squares of a board into the order of the actions."""
        return self._rules.turns

    @property
    def num_seats(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return _shapes(self).legal.shape[1]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return _shapes(self).observation.shape[1:]

    @property
    def observation_dtype(self) -> Any:
        """What observations may be kept as, a quarter of the memory where pgx shows bits."""
        return jnp.float32 if self._rules.poker else _env(self.id).init(jax.random.key(0)).observation.dtype

    @property
    def simultaneous(self) -> bool:
        return False

    @property
    def continuous(self) -> bool:
        return False

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return (0, 1)

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0, 0) if self.shared else (0, 1)

    @property
    def return_bounds(self) -> tuple[float, float]:
        return self._rules.return_bounds

    @property
    def zero_sum(self) -> bool:
        return True

    @_traced_once
    def init(self, key: Array) -> GameState:
        """key: consumed."""
        poker = self._rules.poker
        if poker:
            # One uniform picks the deal: pgx would shuffle a deck and draw who begins, most of a short game's time.
            ends = np.cumsum(poker.weights) / sum(poker.weights)
            deal = jnp.sum(jnp.asarray(ends[:-1], jnp.float32) <= jax.random.uniform(key))
            return self._dealt(jnp.asarray(poker.hands, jnp.int32)[deal])
        if self.id in _RULES and not self._rules.chance:
            state = jax.tree.map(jnp.asarray, _start(self.id))  # seats are alike whoever begins: nothing is drawn
        else:
            with _lenient():
                state = jax.tree.map(jnp.asarray, _env(self.id).init(key))
        inner = PgxInner(_blank(state), state.current_player, jnp.zeros(0, jnp.bool_))
        return self._game_state(inner, jnp.zeros(2, jnp.float32))

    def _dealt(self, cards: Array) -> GameState:
        """A start of poker with the cards (seat 0, seat 1, public) on the table; pgx player 0 sits in seat 0."""
        assert self._rules.poker is not None
        state = jax.tree.map(jnp.asarray, _start(self.id))
        inner = PgxInner(
            state.replace(_cards=cards), jnp.int32(0), jnp.zeros(self._rules.poker.history_size, jnp.bool_)
        )
        return self._game_state(inner, jnp.zeros(2, jnp.float32))

    @_traced_once
    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """actions: [2] int32, of which only the moving seat's counts. key: for games with chance moves (backgammon)."""
        inner: PgxInner = state.inner
        action = jnp.where(inner.state.current_player == inner.first, actions[0], actions[1])
        history, poker = inner.history, self._rules.poker
        if poker and poker.step:
            after = poker.step(inner.state, action)
        else:
            before = inner.state
            if poker and self.suits:  # pgx knows ranks only
                before = before.replace(_cards=before._cards % poker.ranks)
            with _lenient():
                after = _env(self.id).step(before, action, key)
            if self.suits:
                after = after.replace(_cards=inner.state._cards)
        reward = jnp.where(inner.first == 0, after.rewards, after.rewards[::-1]).astype(jnp.float32)
        if poker:
            played = jnp.arange(poker.history_size) == poker.history_code(inner, action)
            history = history | (played & ~state.done)
        if self.max_steps != self._rules.max_steps:
            truncated = ~after.terminated & (after._step_count >= self.max_steps)
            # pgx punishes illegal actions even in a truncated state: let every action be legal there.
            after = after.replace(truncated=truncated, legal_action_mask=after.legal_action_mask | truncated)
        return self._game_state(PgxInner(_blank(after), inner.first, history), reward)

    def deals(self) -> tuple[GameState, Array]:
        """All initial states, [N], and their probabilities, [N]: the deals of poker, or the one start of a board."""
        poker = self._rules.poker
        if self._rules.chance:
            raise NotEnumerableError(f"{self.id!r} rolls dice: it does not list its initial states.")
        if poker is None:
            start = jax.jit(self.init)(jax.random.key(0))
            return jax.tree.map(lambda leaf: leaf[None], start), jnp.ones(1, jnp.float32)
        weights = np.asarray(poker.weights, np.float32)
        return jax.jit(jax.vmap(self._dealt))(jnp.asarray(poker.hands, jnp.int32)), jnp.asarray(weights / weights.sum())

    def _game_state(self, inner: PgxInner, reward: Array) -> GameState:
        state = inner.state
        done = state.terminated | state.truncated
        to_move = (inner.first ^ jnp.arange(2) == state.current_player) & ~done
        poker = self._rules.poker
        to_move = to_move if poker else once(to_move)
        return GameState(
            inner=inner,
            observation=self._observations(inner, to_move),
            legal=to_move[:, None] & state.legal_action_mask[None, :],
            to_move=to_move,
            reward=reward,
            terminated=state.terminated,
            truncated=state.truncated,
            infoset=jax.vmap(partial(poker.infoset, inner))(jnp.arange(2)) if poker else None,
        )

    def _observations(self, inner: PgxInner, to_move: Array) -> Array:
        """What both seats see [2, ...], float32."""
        if self._rules.poker or self.max_steps != self._rules.max_steps:
            return jax.vmap(partial(self._observe, inner))(jnp.arange(2), to_move)
        # On a board only the seat that is to move needs its view, and making one costs as much as a move.
        seen = self._observe(inner, (inner.state.current_player != inner.first).astype(jnp.int32), jnp.bool_(True))
        return jnp.where(to_move.reshape(2, *(1,) * seen.ndim), seen[None], 0.0)

    def _observe(self, inner: PgxInner, seat: Array, to_move: Array) -> Array:
        """What one seat sees, float32."""
        poker = self._rules.poker
        if poker and self.observation == "infoset":
            return ((jnp.arange(poker.num_infosets) == poker.infoset(inner, seat)) & to_move).astype(jnp.float32)
        player = inner.first ^ seat
        if poker:
            return bits(poker.observe(inner.state, player), inner.history, seat).astype(jnp.float32)
        with warnings.catch_warnings(), _lenient():  # pgx would rather show the moving player only
            warnings.simplefilter("ignore", DeprecationWarning)
            return _env(self.id).observe(inner.state, player).astype(jnp.float32)
