"""Two-player turn-based games of pgx behind the `Game` protocol.

pgx draws at random which player id moves first. Here a *seat* is the order of moving: seat 0 moves first, whatever
its player id, and `inner.first` remembers that id. Poker observations of pgx hide the seat and forget the betting, so
the policies best for them are exploitable by construction; for Kuhn and Leduc both are appended (perfect recall).

Everything that is particular to one game is a row of `_RULES`; a game without a row is reached as `pgx:<id>`.
"""

from __future__ import annotations

import difflib
import itertools
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.compiling import once
from gems_jax.types import Array, GameState, NotEnumerableError, PyTree, struct

OBSERVATIONS = ("plain", "infoset")
# Games with a name of their own in `gems_jax.games.GAMES`; the others are called pgx:<id>.
NAMED = ("kuhn_poker", "leduc_holdem", "tic_tac_toe", "connect_four", "go_9x9", "chess")


@struct
class PgxInner:
    """What the adapter carries besides the pgx state, whose own observation and rewards are blanked."""

    state: PyTree  # pgx state
    first: Array  # [] int32, player id that sits in seat 0
    history: Array  # [H] bool, one-hot of the actions so far (poker only, else H = 0)


@dataclass(frozen=True)
class _Poker:
    """How the cards and the betting of one poker game turn into information sets."""

    history_size: int
    hands: tuple[tuple[int, ...], ...]  # every distinct deal (hand of seat 0, of seat 1, public card)
    weights: tuple[int, ...]  # in how many ways each deal comes up
    num_infosets: int
    history_code: Callable[[PgxInner, Array], Array]  # (inner, action) -> bit of the history to set, -1 for none
    infoset: Callable[[PgxInner, Array], Array]  # (inner, seat) -> information set of the seat that is to move
    observe: Callable[[Any, Array], list[tuple[int, Array]]]  # (pgx state, player id) -> what pgx shows, see `_bits`
    step: Callable[[Any, Array], Any] | None = None  # (pgx state, action) -> pgx state, in place of pgx's own


@dataclass(frozen=True)
class _Rules:
    """What pgx does not declare about one of its games."""

    max_steps: int  # longest episode that the rules allow; 0 when unknown
    return_bounds: tuple[float, float] = (-1.0, 1.0)
    poker: _Poker | None = None
    chance: bool = False  # dice: initial states are not listed
    turns: int = 0  # quarter turns from the squares of the observation to the order in which actions count them


def _of_player(values: Array, player: Array) -> Array:
    """values[player] without a gather, which XLA does not fuse."""
    return jnp.where(player == 0, values[0], values[1])


def _bits(shown: list[tuple[int, Array]], history: Array, seat: Array) -> Array:
    """One-hots (size, which) one after the other, none where `which` is negative, then the history, and the seat's.

    As comparisons with one count over all bits: scatters, one per bit, would take most of the time of a step on a CPU,
    and pieces that are joined are a kernel each.
    """
    size = sum(width for width, _ in shown)
    bits = jnp.pad(history, (size, 2))
    place, first = jnp.arange(len(bits)), 0
    for width, which in [*shown, (len(history), jnp.int32(-1)), (2, seat)]:
        bits |= (place == first + which) & (which >= 0)
        first += width
    return bits


def _kuhn_observe(state: Any, player: Array) -> list[tuple[int, Array]]:
    own, other = _of_player(state._pot, player), _of_player(state._pot, 1 - player)
    return [(3, _of_player(state._cards, player)), (2, own), (2, other)]


def _kuhn_step(state: Any, action: Array) -> Any:
    """pgx's step of Kuhn poker without gathers and scatters, which a CPU takes one kernel each for."""
    mover, bet = state.current_player, action == 0
    facing, passed = state._last_action == 0, state._last_action == 1
    folds, shows = facing & ~bet, (facing & bet) | (passed & ~bet)
    ends, own = folds | shows, jnp.arange(2) == mover
    higher = _of_player(state._cards, mover) > _of_player(state._cards, 1 - mover)
    stake = jnp.where(facing & bet, 2.0, 1.0)
    reward = jnp.where(own == (shows & higher), stake, -stake)
    over = state.terminated | state.truncated
    after = state.replace(
        current_player=1 - mover,
        rewards=jnp.where(ends, reward, 0.0),
        terminated=ends,
        _last_action=action,
        _pot=state._pot + (own & bet),
        _step_count=state._step_count + 1,
    )
    before = state.replace(rewards=jnp.zeros_like(state.rewards))
    return jax.tree.map(lambda old, new: jnp.where(over, old, new), before, after)


def _leduc_observe(state: Any, player: Array) -> list[tuple[int, Array]]:
    own, other = _of_player(state._chips, player), _of_player(state._chips, 1 - player)
    public = jnp.where(state._round == 1, state._cards[2], -1)
    return [(3, _of_player(state._cards, player)), (3, public), (14, own), (14, other)]


def _kuhn_code(inner: PgxInner, action: Array) -> Array:
    return 2 * inner.state._step_count + action  # the third action ends the game and falls off the end


def _kuhn_infoset(inner: PgxInner, seat: Array) -> Array:
    """6 seat + 3 [facing a bet] + card: seat 0 J Q K at the root, J Q K after pass-bet, then seat 1."""
    facing = (inner.history[0] | inner.history[2]).astype(jnp.int32)
    return 6 * seat + 3 * facing + _of_player(inner.state._cards, inner.first ^ seat)


def _leduc_code(inner: PgxInner, action: Array) -> Array:
    """Slots of (round, position in the round), two bits each; folding ends the game and is not recorded."""
    second = inner.state._round > 0
    played = jnp.where(second, inner.history[8:].sum(), inner.history[:8].sum())
    return jnp.where(action < 2, 8 * second + 2 * played + action, -1)


def _leduc_infoset(inner: PgxInner, seat: Array) -> Array:
    """Within a seat: round 1 as (raises, hand), then round 2 as (line of round 1, raises, public card, hand).

    The seat and the number of raises of the current round name the betting node: seat 0 acts after "", cr and rr, seat
    1 after c, r and crr. Round 1 closes in five lines, cc, rc, crc, rrc and crrc, numbered by (length - 2) + raises.
    """
    hand, public = _of_player(inner.state._cards, inner.first ^ seat), inner.state._cards[2]
    raises = inner.state._raise_count
    line = inner.history[:8].sum() - 2 + inner.history[1:8:2].sum()
    second = 9 + 27 * line + 9 * raises + 3 * public + hand
    return 144 * seat + jnp.where(inner.state._round > 0, second, 3 * raises + hand)


_KUHN = _Poker(
    history_size=4,
    hands=tuple(itertools.permutations(range(3), 2)),
    weights=(1,) * 6,
    num_infosets=12,
    history_code=_kuhn_code,
    infoset=_kuhn_infoset,
    observe=_kuhn_observe,
    step=_kuhn_step,
)
# pgx deals ranks, two cards of each: 24 distinct deals stand for the 120 orders of three cards out of six, and 288
# information sets for the 936 of a deck whose suits can be told apart.
_LEDUC_HANDS = tuple(hand for hand in itertools.product(range(3), repeat=3) if len(set(hand)) > 1)
_LEDUC = _Poker(
    history_size=16,
    hands=_LEDUC_HANDS,
    weights=tuple(8 if len(set(hand)) == 3 else 4 for hand in _LEDUC_HANDS),
    num_infosets=288,
    history_code=_leduc_code,
    infoset=_leduc_infoset,
    observe=_leduc_observe,
)

_RULES: dict[str, _Rules] = {
    "kuhn_poker": _Rules(3, (-2.0, 2.0), _KUHN),
    "leduc_holdem": _Rules(8, (-13.0, 13.0), _LEDUC),
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
            close = difflib.get_close_matches(env_id, known, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise ValueError(f"pgx has no game {env_id!r}.{hint} It has: {', '.join(known)}.")
        return _faster(pgx.make(env_id))


def _faster(env: Any) -> Any:
    """The same environment by this package's form of its rules, where there is one."""
    if env.id.startswith("go_"):
        from gems_jax.games import go_rules

        env._game = go_rules.in_place_of(env._game)
    if env.id == "chess":
        from gems_jax.games import chess_rules

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
    """

    id: str
    observation: str = "plain"
    shared: bool = False
    max_steps: int = 0

    def __post_init__(self) -> None:
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
        return _RULES.get(self.id, _Rules(0))

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
            with _lenient():
                after = _env(self.id).step(inner.state, action, key)
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
        to_move = to_move if self._rules.poker else once(to_move)
        return GameState(
            inner=inner,
            observation=self._observations(inner, to_move),
            legal=to_move[:, None] & state.legal_action_mask[None, :],
            to_move=to_move,
            reward=reward,
            terminated=state.terminated,
            truncated=state.truncated,
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
            return _bits(poker.observe(inner.state, player), inner.history, seat).astype(jnp.float32)
        with warnings.catch_warnings(), _lenient():  # pgx would rather show the moving player only
            warnings.simplefilter("ignore", DeprecationWarning)
            return _env(self.id).observe(inner.state, player).astype(jnp.float32)
