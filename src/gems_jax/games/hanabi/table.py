"""The table of Hanabi: what lies on it, how hints read, and what each seat sees.

Everything is masks and sums over small arrays, no gathers, which XLA would not fuse.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, Struct


class HanabiSizes(NamedTuple):
    """The numbers that shape the arrays: S players, H cards in a hand, C colors, R ranks, and the tokens."""

    players: int
    hand_size: int
    colors: int
    ranks: int
    information_tokens: int
    life_tokens: int

    @property
    def copies(self) -> tuple[int, ...]:
        """[R], how often a card of each rank is there in every color."""
        return (3,) if self.ranks == 1 else (3, *(2,) * (self.ranks - 2), 1)

    @property
    def deck_size(self) -> int:
        return self.colors * sum(self.copies)


class LastMove(Struct):
    """What everybody saw happen."""

    action: Array  # [] int32, -1 before the first move
    card: Array  # [] int32, played or discarded; -1 for none
    scored: Array  # [] bool
    gained: Array  # [] bool, an information token for a completed color


class HanabiTable(Struct):
    """A card is color * R + rank; -1 is no card. Who moves is turn modulo S."""

    deck: Array  # [D] int32, in the order of drawing; the first cards are in the first hands
    drawn: Array  # [] int32, cards that have left the deck
    hands: Array  # [S, H] int32, newest card last
    may_color: Array  # [S, H, C] bool, what hints have left possible
    may_rank: Array  # [S, H, R] bool
    told_color: Array  # [S, H] bool, a hint named this card's color
    told_rank: Array  # [S, H] bool
    fireworks: Array  # [C] int32, height
    discards: Array  # [C, R] int32, how many
    information: Array  # [] int32, tokens
    lives: Array  # [] int32, tokens
    turn: Array  # [] int32
    last_turns: Array  # [] int32, moves since the deck was empty, the one that emptied it included
    last: LastMove


def row_of(rows: Array, index: Array) -> Array:
    """rows[index] as a masked sum or any, which fuses where a gather would not."""
    mask = (jnp.arange(rows.shape[0]) == index).reshape(-1, *(1,) * (rows.ndim - 1))
    if rows.dtype == jnp.bool_:
        return jnp.any(rows & mask, axis=0)
    return jnp.sum(jnp.where(mask, rows, 0), axis=0)


def with_row(rows: Array, index: Array, row: Array) -> Array:
    mask = (jnp.arange(rows.shape[0]) == index).reshape(-1, *(1,) * (rows.ndim - 1))
    return jnp.where(mask, row[None], rows)


def shuffled(key: Array, cards: np.ndarray) -> Array:
    """The cards [D] in random order. key: consumed.

    Each gets a random number and goes to the place that counting the smaller ones gives. For a deck this is a small
    part of what a sort costs, and a game that restarts inside a loop deals in every step.
    """
    numbers, index = jax.random.bits(key, cards.shape), np.arange(len(cards))
    lower, equal = numbers[None, :] < numbers[:, None], numbers[None, :] == numbers[:, None]
    place = jnp.sum(lower | (equal & (index[None, :] < index[:, None])), axis=1)
    return jnp.sum(jnp.where(place[None, :] == index[:, None], cards[None, :], 0), axis=1)


def replace_card(cards: Array, slot: Array, new: Array) -> Array:
    """A hand [H, ...] without the card in `slot`: later ones move up and `new` comes last."""
    moved = jnp.concatenate([cards[1:], new[None]])
    stays = (jnp.arange(cards.shape[0]) < slot).reshape(-1, *(1,) * (cards.ndim - 1))
    return jnp.where(stays, cards, moved)


def hint_of(sizes: HanabiSizes, actor: Array, action: Array) -> tuple[Array, Array, Array]:
    """(seat that is told, color or -1, rank or -1) of an action; means nothing when it is no hint."""
    code, others = action - 2 * sizes.hand_size, sizes.players - 1
    is_color = code < others * sizes.colors
    code = jnp.where(is_color, code, code - others * sizes.colors)
    size = jnp.where(is_color, sizes.colors, sizes.ranks)
    value = code % size
    target = (actor + 1 + code // size) % sizes.players
    return target, jnp.where(is_color, value, -1), jnp.where(is_color, -1, value)


def matches(sizes: HanabiSizes, table: HanabiTable, target: Array, color: Array, rank: Array) -> tuple[Array, Array]:
    """[H] each: cards of the target's hand that have the color, or the rank, that was named."""
    hand = row_of(table.hands, target)
    held = hand >= 0
    return held & (hand // sizes.ranks == color), held & (hand % sizes.ranks == rank)


def observe(sizes: HanabiSizes, table: HanabiTable) -> Array:
    """[S, obs]"""
    seats = sizes.players
    order = (np.arange(seats)[:, None] + np.arange(seats)[None, :]) % seats  # [S, S] seats by distance
    held = table.hands >= 0
    cards = table.hands[:, :, None] == jnp.arange(sizes.colors * sizes.ranks)[None, None, :]
    actor, acted = (table.turn - 1) % seats, table.turn > 0
    is_hint = table.last.action >= 2 * sizes.hand_size
    target, color, rank = hint_of(sizes, actor, table.last.action)
    # Parts that several seats see are computed once: without the barrier XLA does it again for every reader.
    hands, board, move, knowledge = jax.lax.optimization_barrier(
        (
            cards.reshape(seats, -1).astype(jnp.float32),
            jnp.concatenate(_board(sizes, table)).astype(jnp.float32),
            (jnp.concatenate(_last_move(sizes, table, target, color, rank, is_hint)) & acted).astype(jnp.float32),
            _knowledge(sizes, table, held).reshape(seats, -1),
        )
    )
    by_seat = [  # [S, S] each, by who sees and by distance from there
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
    """Cards left, fireworks, tokens and discards: the same for everybody."""
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
    """Kind of move [4]; color and rank named, cards meant, place and card used, point scored, token gained."""
    last, hand = table.last, sizes.hand_size
    is_use = ~is_hint
    is_play = is_use & (last.action >= hand)
    color, rank = jnp.where(is_hint, color, -1), jnp.where(is_hint, rank, -1)
    meant_color, meant_rank = matches(sizes, table, target, color, rank)
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
    """[S, H, C R + C + R]: how likely a card is each kind, by hints and the cards in sight of all; colors and ranks
    that it was told."""
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
