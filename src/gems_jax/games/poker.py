"""Kuhn and Leduc poker behind the pgx adapter: deals, betting, information sets, and what a seat sees.

pgx's own forms gather and scatter, which a CPU takes a kernel each for; these are comparisons and selects, which fuse.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gems_jax.types import Array


@dataclass(frozen=True)
class Poker:
    """How the cards and the betting of one poker game turn into information sets."""

    history_size: int
    hands: tuple[tuple[int, ...], ...]  # every distinct deal (hand of seat 0, of seat 1, public card)
    weights: tuple[int, ...]  # in how many ways each deal comes up
    num_infosets: int
    history_code: Callable[[Any, Array], Array]  # (inner, action) -> bit of the history to set, -1 for none
    infoset: Callable[[Any, Array], Array]  # (inner, seat) -> information set of the seat that is to move
    observe: Callable[[Any, Array], list[tuple[int, Array]]]  # (pgx state, player id) -> what pgx shows, see `bits`
    step: Callable[[Any, Array], Any] | None = None  # (pgx state, action) -> pgx state, in place of pgx's own
    ranks: int = 3  # a card is rank + ranks * suit, and the rank alone decides who wins


def _of_player(values: Array, player: Array) -> Array:
    """values[player] without a gather, which XLA does not fuse."""
    return jnp.where(player == 0, values[0], values[1])


def bits(shown: list[tuple[int, Array]], history: Array, seat: Array) -> Array:
    """One-hots (size, which) one after the other, none where `which` is negative, then the history, and the seat's.

    As comparisons with one count over all bits: scatters, one per bit, would take most of the time of a step on a CPU,
    and pieces that are joined are a kernel each.
    """
    size = sum(width for width, _ in shown)
    seen = jnp.pad(history, (size, 2))
    place, first = jnp.arange(len(seen)), 0
    for width, which in [*shown, (len(history), jnp.int32(-1)), (2, seat)]:
        seen |= (place == first + which) & (which >= 0)
        first += width
    return seen


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


def _leduc_observe(state: Any, player: Array, cards: int) -> list[tuple[int, Array]]:
    own, other = _of_player(state._chips, player), _of_player(state._chips, 1 - player)
    public = jnp.where(state._round == 1, state._cards[2], -1)
    return [(cards, _of_player(state._cards, player)), (cards, public), (14, own), (14, other)]


def _kuhn_code(inner: Any, action: Array) -> Array:
    return 2 * inner.state._step_count + action  # the third action ends the game and falls off the end


def _kuhn_infoset(inner: Any, seat: Array) -> Array:
    """6 seat + 3 [facing a bet] + card: seat 0 J Q K at the root, J Q K after pass-bet, then seat 1."""
    facing = (inner.state._last_action == 0).astype(jnp.int32)
    return 6 * seat + 3 * facing + _of_player(inner.state._cards, inner.first ^ seat)


def _leduc_code(inner: Any, action: Array) -> Array:
    """Slots of (round, position in the round), two bits each; folding ends the game and is not recorded."""
    second = inner.state._round > 0
    played = jnp.where(second, inner.history[8:].sum(), inner.history[:8].sum())
    return jnp.where(action < 2, 8 * second + 2 * played + action, -1)


def _leduc_infoset(inner: Any, seat: Array, cards: int) -> Array:
    """Within a seat: round 1 as (raises, hand), then round 2 as (line of round 1, raises, public card and hand).

    The seat and the number of raises of the current round name the betting node: seat 0 acts after "", cr and rr, seat
    1 after c, r and crr. Round 1 closes in five lines, cc, rc, crc, rrc and crrc, numbered by (length - 2) + raises.
    Of three ranks the hand and the public card may be equal; of six cards they differ, and 30 pairs are left.
    """
    hand, public = _of_player(inner.state._cards, inner.first ^ seat), inner.state._cards[2]
    raises = inner.state._raise_count
    line = inner.history[:8].sum() - 2 + inner.history[1:8:2].sum()
    if cards == 3:
        pairs, pair = 9, 3 * public + hand
    else:
        pairs, pair = cards * (cards - 1), (cards - 1) * public + hand - (hand > public)
    second = 3 * cards + pairs * (3 * line + raises) + pair
    size = 3 * cards + 15 * pairs
    return size * seat + jnp.where(inner.state._round > 0, second, cards * raises + hand)


KUHN = Poker(
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
LEDUC = Poker(
    history_size=16,
    hands=_LEDUC_HANDS,
    weights=tuple(8 if len(set(hand)) == 3 else 4 for hand in _LEDUC_HANDS),
    num_infosets=288,
    history_code=_leduc_code,
    infoset=partial(_leduc_infoset, cards=3),
    observe=partial(_leduc_observe, cards=3),
)
LEDUC_WITH_SUITS = replace(
    LEDUC,
    hands=tuple(itertools.permutations(range(6), 3)),
    weights=(1,) * 120,
    num_infosets=936,
    infoset=partial(_leduc_infoset, cards=6),
    observe=partial(_leduc_observe, cards=6),
)
