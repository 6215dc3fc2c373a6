"""Kuhn and Leduc poker: deals, betting, information sets and observations. Positions are states of pgx.

pgx gathers and scatters, one kernel each on a CPU. The code here uses comparisons and selects, which fuse. Observations
of pgx hide the seat and forget the betting; here both are appended (perfect recall).
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.prng import draw_uniform
from gems_jax.games.turns import TurnGame, TurnPosition, TurnRules, first_state
from gems_jax.types import Array, GameState

RANKS = 3  # a card is rank + RANKS * suit; only the rank decides who wins


@dataclass(frozen=True, kw_only=True)
class PokerGame(TurnGame):
    """Base of two-player poker games: cards, betting and information sets."""

    history_size = 0  # bits of the betting history
    has_infosets = True

    @property
    def observation_dtype(self) -> Any:
        return jnp.float32

    @property
    @abstractmethod
    def hands(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Every distinct deal (hand of seat 0, of seat 1, public card) and its number of combinations."""

    @property
    @abstractmethod
    def num_infosets(self) -> int:
        """Number of information sets of both seats."""

    @abstractmethod
    def infoset_of(self, inner: TurnPosition, seat: Array) -> Array:
        """Returns the index of the seat's information set, valid if it is to move."""

    @abstractmethod
    def history_code(self, inner: TurnPosition, action: Array) -> Array:
        """Returns the bit of the history that an action sets, or one outside of the history."""

    @abstractmethod
    def visible_features(self, state: Any, player: Array) -> list[tuple[int, Array]]:
        """Returns what pgx shows a player id, as one-hots (size, index); all zero if the index is negative."""

    def start(self, key: Array) -> TurnPosition:
        # One uniform draws the deal. pgx shuffles a deck and draws who begins, most of the time of a short game.
        hands, weights = zip(*self.hands, strict=True)
        ends = np.cumsum(weights) / sum(weights)
        deal = jnp.sum(jnp.asarray(ends[:-1], jnp.float32) <= draw_uniform(key))
        return self._deal(jnp.asarray(hands, jnp.int32)[deal])

    def _deal(self, cards: Array) -> TurnPosition:
        """Makes the start with given cards (seat 0, seat 1, public); pgx player 0 sits in seat 0."""
        state = first_state(self.id).replace(_cards=cards)
        return TurnPosition(state, jnp.int32(0), jnp.zeros(self.history_size, jnp.bool_))

    def remember(self, inner: TurnPosition, action: Array, done: Array) -> Array:
        played = jnp.arange(self.history_size) == self.history_code(inner, action)
        return inner.history | (played & ~done)

    def deals(self) -> tuple[GameState, Array]:
        """Returns all deals, [N], and their probabilities, [N]."""
        hands, weights = zip(*self.hands, strict=True)
        start = lambda cards: self._game_state(self._deal(cards), jnp.zeros(2, jnp.float32))  # noqa: E731
        masses = np.asarray(weights, np.float32)
        return jax.jit(jax.vmap(start))(jnp.asarray(hands, jnp.int32)), jnp.asarray(masses / masses.sum())

    def _to_move(self, inner: TurnPosition) -> Array:
        done = inner.state.terminated | inner.state.truncated
        return (inner.first ^ jnp.arange(2) == inner.state.current_player) & ~done

    def infoset(self, inner: TurnPosition) -> Array:
        return jax.vmap(partial(self.infoset_of, inner))(jnp.arange(2))

    def observe(self, inner: TurnPosition, to_move: Array) -> Array:
        def view(seat: Array, moves: Array) -> Array:
            if self.observation == "infoset":
                return ((jnp.arange(self.num_infosets) == self.infoset_of(inner, seat)) & moves).astype(jnp.float32)
            return encode_bits(self.visible_features(inner.state, inner.first ^ seat), inner.history, seat).astype(
                jnp.float32
            )

        return jax.vmap(view)(jnp.arange(2), to_move)


@jax.tree_util.register_static
@dataclass(frozen=True)
class KuhnPoker(PokerGame):
    """Kuhn poker: three cards, one each, 12 information sets. Options: see `TurnGame`."""

    id: str = field(default="kuhn_poker", init=False)
    history_size = 4
    rules = TurnRules(3, (-2.0, 2.0), chance=True)
    hands = tuple((hand, 1) for hand in itertools.permutations(range(RANKS), 2))
    num_infosets = 12

    def infoset_of(self, inner: TurnPosition, seat: Array) -> Array:
        """Returns 6 seat + 3 [facing a bet] + card: seat 0 J Q K at the root, J Q K after pass-bet, then seat 1."""
        facing = (inner.state._last_action == 0).astype(jnp.int32)
        return 6 * seat + 3 * facing + _select_player(inner.state._cards, inner.first ^ seat)

    def history_code(self, inner: TurnPosition, action: Array) -> Array:
        return 2 * inner.state._step_count + action  # the third action ends the game; its bit is outside of the history

    def visible_features(self, state: Any, player: Array) -> list[tuple[int, Array]]:
        own, other = _select_player(state._pot, player), _select_player(state._pot, 1 - player)
        return [(RANKS, _select_player(state._cards, player)), (2, own), (2, other)]

    def advance(self, state: Any, action: Array, key: Array) -> Any:
        """Plays pgx's step of Kuhn poker without gathers and scatters, which take one kernel each on a CPU."""
        mover, bet = state.current_player, action == 0
        facing, passed = state._last_action == 0, state._last_action == 1
        folds, shows = facing & ~bet, (facing & bet) | (passed & ~bet)
        ends, own = folds | shows, jnp.arange(2) == mover
        higher = _select_player(state._cards, mover) > _select_player(state._cards, 1 - mover)
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


@jax.tree_util.register_static
@dataclass(frozen=True)
class LeducHoldem(PokerGame):
    """Leduc hold'em: six cards of three ranks, two betting rounds. Options: see `TurnGame`.

    pgx deals ranks, two cards of each: 24 distinct deals stand for the 120 orders of three cards out of six, and 288
    information sets for the 936 of a deck with distinguishable suits.
    """

    id: str = field(default="leduc_holdem", init=False)
    history_size = 16
    rules = TurnRules(8, (-13.0, 13.0), chance=True)
    has_suits = True

    @property
    def cards(self) -> int:
        """Number of distinguishable cards."""
        return 2 * RANKS if self.suits else RANKS

    @property
    def hands(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        if self.suits:
            return tuple((hand, 1) for hand in itertools.permutations(range(self.cards), 3))
        ways = {1: 0, 2: 4, 3: 8}  # by the number of different ranks
        hands = itertools.product(range(RANKS), repeat=3)
        return tuple((hand, ways[len(set(hand))]) for hand in hands if len(set(hand)) > 1)

    @property
    def num_infosets(self) -> int:
        return 936 if self.suits else 288

    def advance(self, state: Any, action: Array, key: Array) -> Any:
        if not self.suits:
            return super().advance(state, action, key)
        ranks = state.replace(_cards=state._cards % RANKS)  # pgx has ranks only
        return super().advance(ranks, action, key).replace(_cards=state._cards)

    def infoset_of(self, inner: TurnPosition, seat: Array) -> Array:
        """Returns the index of the information set: round 1 by (raises, hand), round 2 by (line, raises, cards).

        The seat and the number of raises of the current round determine the betting node: seat 0 acts after "", cr and
        rr, seat 1 after c, r and crr. Round 1 ends in five lines, cc, rc, crc, rrc and crrc, with index (length - 2) +
        raises. With three ranks the hand and the public card may be equal; with six cards they differ, which leaves 30
        pairs.
        """
        cards = self.cards
        hand, public = _select_player(inner.state._cards, inner.first ^ seat), inner.state._cards[2]
        raises = inner.state._raise_count
        line = inner.history[:8].sum() - 2 + inner.history[1:8:2].sum()
        if cards == 3:
            pairs, pair = 9, 3 * public + hand
        else:
            pairs, pair = cards * (cards - 1), (cards - 1) * public + hand - (hand > public)
        second = 3 * cards + pairs * (3 * line + raises) + pair
        size = 3 * cards + 15 * pairs
        return size * seat + jnp.where(inner.state._round > 0, second, cards * raises + hand)

    def history_code(self, inner: TurnPosition, action: Array) -> Array:
        """Returns the bit of (round, position in the round, action); folding ends the game and is not recorded."""
        second = inner.state._round > 0
        played = jnp.where(second, inner.history[8:].sum(), inner.history[:8].sum())
        return jnp.where(action < 2, 8 * second + 2 * played + action, -1)

    def visible_features(self, state: Any, player: Array) -> list[tuple[int, Array]]:
        own, other = _select_player(state._chips, player), _select_player(state._chips, 1 - player)
        public = jnp.where(state._round == 1, state._cards[2], -1)
        return [(self.cards, _select_player(state._cards, player)), (self.cards, public), (14, own), (14, other)]


def _select_player(values: Array, player: Array) -> Array:
    """Returns values[player] without a gather, which XLA does not fuse."""
    return jnp.where(player == 0, values[0], values[1])


def encode_bits(shown: list[tuple[int, Array]], history: Array, seat: Array) -> Array:
    """Encodes features, betting history and seat as one vector of bits.

    Comparisons with one index over all bits fuse. Scatters would take most of the time of a step on a CPU, and
    concatenated pieces one kernel each.

    Args:
      shown: one-hots (size, index); all zero if the index is negative.
      history: betting history, [H] bool.
      seat: [] int32.

    Returns:
      Bits [sum of sizes + H + 2] bool.
    """
    widths, indices = zip(*shown, strict=True)
    return _encode(widths, indices, history, seat)


@partial(jax.jit, static_argnums=0)
def _encode(widths: tuple[int, ...], indices: tuple[Array, ...], history: Array, seat: Array) -> Array:
    """Implements `encode_bits`, traced once: all steps of an episode call the same function."""
    seen = jnp.pad(history, (sum(widths), 2))
    index, first = jnp.arange(len(seen)), 0
    for width, which in zip(widths, indices, strict=True):
        seen |= index == jnp.where(which >= 0, first + which, -1)
        first += width
    return seen | (index == first + len(history) + seat)
