"""The table of Hanabi: its state, the decoding of hints, and observations.

Everything is masks and sums over small arrays, without gathers, which XLA would not fuse.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, Struct


class HanabiSizes(NamedTuple):
    """Sizes of the arrays: S players, H cards in a hand, C colors, R ranks, and the tokens."""

    players: int
    hand_size: int
    colors: int
    ranks: int
    information_tokens: int
    life_tokens: int

    @property
    def copies(self) -> tuple[int, ...]:
        """Copies of a card of each rank in every color, [R]."""
        return (3,) if self.ranks == 1 else (3, *(2,) * (self.ranks - 2), 1)

    @property
    def deck_size(self) -> int:
        return self.colors * sum(self.copies)


class LastMove(Struct):
    """The last move, visible to all."""

    action: Array  # [] int32, -1 before the first move
    card: Array  # [] int32, the card that was played or discarded; -1 for none
    scored: Array  # [] bool
    gained: Array  # [] bool, an information token for a completed color


class HanabiTable(Struct):
    """State of the table. A card is color * R + rank, -1 for none. The seat to move is turn modulo S."""

    deck: Array  # [D] int32, in the order of drawing; the first cards are in the first hands
    drawn: Array  # [] int32, cards that have left the deck
    hands: Array  # [S, H] int32, newest card last
    may_color: Array  # [S, H, C] bool, colors that hints leave possible
    may_rank: Array  # [S, H, R] bool
    told_color: Array  # [S, H] bool, a hint named this card's color
    told_rank: Array  # [S, H] bool
    fireworks: Array  # [C] int32, height
    discards: Array  # [C, R] int32, counts
    information: Array  # [] int32, tokens
    lives: Array  # [] int32, tokens
    turn: Array  # [] int32
    last_turns: Array  # [] int32, moves since the deck became empty, including the one that emptied it
    last: LastMove


def select_row(rows: Array, index: Array) -> Array:
    """Returns rows[index] as a masked sum or any, which fuses, unlike a gather."""
    mask = (jnp.arange(rows.shape[0]) == index).reshape(-1, *(1,) * (rows.ndim - 1))
    if rows.dtype == jnp.bool_:
        return jnp.any(rows & mask, axis=0)
    return jnp.sum(jnp.where(mask, rows, 0), axis=0)


def replace_row(rows: Array, index: Array, row: Array) -> Array:
    """Returns rows with `row` at `index`."""
    mask = (jnp.arange(rows.shape[0]) == index).reshape(-1, *(1,) * (rows.ndim - 1))
    return jnp.where(mask, row[None], rows)


def shuffle(key: Array, cards: np.ndarray) -> Array:
    """Shuffles the cards [D]. key: consumed.

    Each card gets a random sort key, and its position is the number of smaller keys. For a deck this takes a fraction
    of the time of a sort, and a game that restarts inside a loop deals in every step.
    """
    numbers, index = jax.random.bits(key, cards.shape), np.arange(len(cards))
    lower, equal = numbers[None, :] < numbers[:, None], numbers[None, :] == numbers[:, None]
    rank = jnp.sum(lower | (equal & (index[None, :] < index[:, None])), axis=1)
    return jnp.sum(jnp.where(rank[None, :] == index[:, None], cards[None, :], 0), axis=1)


def replace_card(cards: Array, slot: Array, new: Array) -> Array:
    """Removes the card in `slot` from a hand [H, ...]: later cards move up, and `new` becomes the last."""
    moved = jnp.concatenate([cards[1:], new[None]])
    stays = (jnp.arange(cards.shape[0]) < slot).reshape(-1, *(1,) * (cards.ndim - 1))
    return jnp.where(stays, cards, moved)


def decode_hint(sizes: HanabiSizes, actor: Array, action: Array) -> tuple[Array, Array, Array]:
    """Decodes a hint.

    Args:
      sizes: sizes of the game.
      actor: the seat that acts, [] int32.
      action: [] int32; the result is meaningless if it is not a hint.

    Returns:
      The seat that receives the hint, the color or -1, and the rank or -1, [] int32 each.
    """
    code, others = action - 2 * sizes.hand_size, sizes.players - 1
    is_color = code < others * sizes.colors
    code = jnp.where(is_color, code, code - others * sizes.colors)
    size = jnp.where(is_color, sizes.colors, sizes.ranks)
    value = code % size
    target = (actor + 1 + code // size) % sizes.players
    return target, jnp.where(is_color, value, -1), jnp.where(is_color, -1, value)


def match_cards(
    sizes: HanabiSizes, table: HanabiTable, target: Array, color: Array, rank: Array
) -> tuple[Array, Array]:
    """Finds the cards of the target's hand that a hint names.

    Args:
      sizes: sizes of the game.
      table: the table.
      target: the seat that receives the hint, [] int32.
      color: [] int32, -1 for none.
      rank: [] int32, -1 for none.

    Returns:
      Masks of the cards with that color and of those with that rank, [H] bool each.
    """
    hand = select_row(table.hands, target)
    held = hand >= 0
    return held & (hand // sizes.ranks == color), held & (hand % sizes.ranks == rank)


def observe(sizes: HanabiSizes, table: HanabiTable) -> Array:
    """Computes the observations [S, obs] of all seats."""
    seats = sizes.players
    order = (np.arange(seats)[:, None] + np.arange(seats)[None, :]) % seats  # [S, S] seats by distance
    held = table.hands >= 0
    cards = table.hands[:, :, None] == jnp.arange(sizes.colors * sizes.ranks)[None, None, :]
    actor, acted = (table.turn - 1) % seats, table.turn > 0
    is_hint = table.last.action >= 2 * sizes.hand_size
    target, color, rank = decode_hint(sizes, actor, table.last.action)
    # Compute shared parts once: without the barrier XLA recomputes them for every seat.
    hands, board, move, knowledge = jax.lax.optimization_barrier(
        (
            cards.reshape(seats, -1).astype(jnp.float32),
            jnp.concatenate(_board(sizes, table)).astype(jnp.float32),
            (jnp.concatenate(_last_move(sizes, table, target, color, rank, is_hint)) & acted).astype(jnp.float32),
            _knowledge(sizes, table, held).reshape(seats, -1),
        )
    )
    by_seat = [  # [S, S] each, by observer and distance from it
        jnp.stack([jnp.roll(~jnp.all(held, axis=1), -seat) for seat in range(seats)]),
        (order == actor) & acted,
        (order == target) & is_hint & acted,
        np.eye(seats, dtype=bool),
    ]
    missing, acting, told, own = (jnp.asarray(part, jnp.float32) for part in by_seat)

    def row(seat: int) -> Array:
        others = [hands[other] for other in order[seat][1:]]
        last = [acting[seat], move[:4], told[seat], move[4:]]
        known = [knowledge[other] for other in order[seat]]
        return jnp.concatenate([*others, missing[seat], board, *last, *known, own[seat]])

    return jnp.stack([row(seat) for seat in range(seats)])


def _board(sizes: HanabiSizes, table: HanabiTable) -> list[Array]:
    """Returns cards left, fireworks, tokens and discards, equal for all seats."""
    left = jnp.arange(sizes.deck_size - sizes.players * sizes.hand_size) < sizes.deck_size - table.drawn
    tops = table.fireworks[:, None] == jnp.arange(1, sizes.ranks + 1)[None, :]
    piles = jnp.repeat(table.discards, np.asarray(sizes.copies), axis=1, total_repeat_length=sum(sizes.copies))
    steps = np.concatenate([np.arange(count) for count in sizes.copies])
    return [
        left,
        tops.reshape(-1),
        jnp.arange(sizes.information_tokens) < table.information,
        jnp.arange(sizes.life_tokens) < table.lives,
        (piles > steps[None, :]).reshape(-1),
    ]


def _last_move(
    sizes: HanabiSizes, table: HanabiTable, target: Array, color: Array, rank: Array, is_hint: Array
) -> list[Array]:
    """Returns kind of move [4], color and rank of a hint, hinted cards, slot and card used, point, token."""
    last, hand = table.last, sizes.hand_size
    is_use = ~is_hint
    is_play = is_use & (last.action >= hand)
    color, rank = jnp.where(is_hint, color, -1), jnp.where(is_hint, rank, -1)
    meant_color, meant_rank = match_cards(sizes, table, target, color, rank)
    kind = jnp.stack([is_play, is_use & ~is_play, color >= 0, rank >= 0])
    return [
        kind,
        jnp.arange(sizes.colors) == color,
        jnp.arange(sizes.ranks) == rank,
        meant_color | meant_rank,
        (jnp.arange(hand) == last.action % hand) & is_use,
        jnp.arange(sizes.colors * sizes.ranks) == last.card,
        last.scored[None],
        last.gained[None],
    ]


def _knowledge(sizes: HanabiSizes, table: HanabiTable, held: Array) -> Array:
    """Returns [S, H, C R + C + R]: card probabilities given hints and visible cards, then hinted colors and ranks."""
    seats, hand = sizes.players, sizes.hand_size
    played = jnp.arange(sizes.ranks)[None, :] < table.fireworks[:, None]
    left = np.asarray(sizes.copies)[None, :] - table.discards - played  # [C, R]
    possible = table.may_color[:, :, :, None] & table.may_rank[:, :, None, :] & held[:, :, None, None]
    weight = jnp.where(possible, left[None, None], 0).reshape(seats, hand, -1).astype(jnp.float32)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    told_color = table.may_color & table.told_color[:, :, None]
    told_rank = table.may_rank & table.told_rank[:, :, None]
    hints = jnp.concatenate([told_color, told_rank], axis=-1).astype(jnp.float32)
    return jnp.concatenate([weight / jnp.where(total > 0, total, 1.0), hints], axis=-1)
