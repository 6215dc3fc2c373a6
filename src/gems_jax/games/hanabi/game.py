"""Hanabi for two to five players.

Rules, action codes and observations are JaxMARL's (which follow the Hanabi Learning Environment). Tests compare them
with JaxMARL bit by bit and with OpenSpiel deal by deal. Cards are integers instead of one-hot planes, so that a step
with its observations takes a fraction of JaxMARL's time, and JaxMARL is not needed to play. Its own environment is
`jaxmarl:hanabi`.

Actions, with H cards in a hand: discard card 0..H-1, play card 0..H-1, then for every other player in turn order a hint
of color 0..C-1, then likewise a hint of rank 0..R-1. JaxMARL's last action, a no-op for seats that are not to move, is
left out.

Observations are JaxMARL's (of its belief encoding) with the one-hot of the seat at the end.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.games.hanabi.table import (
    HanabiSizes,
    HanabiTable,
    LastMove,
    decode_hint,
    match_cards,
    observe,
    replace_card,
    replace_row,
    select_row,
    shuffle,
)
from gems_jax.games.sides import Sided, check_sides
from gems_jax.types import Array, GameState, expect

_RANGES = {
    "players": (2, 5),
    "colors": (1, 6),
    "ranks": (1, 9),
    "hand_size": (0, 9),
    "information_tokens": (1, 99),
    "life_tokens": (1, 99),
}


@jax.tree_util.register_static
@dataclass(frozen=True)
class Hanabi(Sided):
    """Hanabi: every player earns one point per card of the fireworks, at most colors x ranks.

    Args:
      teams: see `Sided`. By default every seat is a player with its own population, as the paper's count implies
        (402 = 2 + 2 x 200); with teams=True one policy plays all seats.
      shared: all seats are drawn from one population.
      players: 2 to 5.
      credit: points count even if all lives are lost. Without credit (the original rules, OpenSpiel's and JaxMARL's)
        losing
        the last life cancels all points.
      colors: number of colors.
      ranks: number of ranks.
      hand_size: cards in a hand; 0 for 5 with up to three players and 4 with more.
      information_tokens: number of information tokens.
      life_tokens: number of lives.
    """

    teams: bool = False
    shared: bool = False
    players: int = 2
    credit: bool = False
    colors: int = 5
    ranks: int = 5
    hand_size: int = 0
    information_tokens: int = 8
    life_tokens: int = 3

    name = "hanabi"
    simultaneous = False
    continuous = False
    zero_sum = False
    side_names = (("player", "team"),)

    def __post_init__(self) -> None:
        check_sides("hanabi", self.teams, self.shared)
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            fits = isinstance(value, int) and low <= value <= high
            expect(fits, f"hanabi: {name} must be an integer from {low} to {high}, got {value!r}")
        if self.hand_size == 0:
            object.__setattr__(self, "hand_size", 5 if self.players < 4 else 4)
        expect(
            self.deck_size > self.players * self.hand_size,
            f"hanabi: {self.players} hands of {self.hand_size} cards leave nothing to draw from a deck of "
            f"{self.deck_size}. Use fewer players, smaller hands, more colors or more ranks.",
        )

    @property
    def sides(self) -> tuple[int, ...]:
        return (0,) * self.players

    @property
    def sizes(self) -> HanabiSizes:
        cards = self.hand_size, self.colors, self.ranks
        return HanabiSizes(self.players, *cards, self.information_tokens, self.life_tokens)

    @property
    def deck_size(self) -> int:
        return self.sizes.deck_size

    @property
    def num_actions(self) -> int:
        return 2 * self.hand_size + (self.players - 1) * (self.colors + self.ranks)

    @property
    def max_steps(self) -> int:
        """Longest episode: all cards drawn by discards, all tokens spent on hints before that, and the last round."""
        draws = self.deck_size - self.players * self.hand_size
        return 2 * draws + self.information_tokens - 1 + self.players

    @property
    def return_bounds(self) -> tuple[float, float]:
        return (0.0, float(self.colors * self.ranks))

    def init(self, key: Array) -> GameState:
        """Shuffles and deals. key: consumed."""
        cards = np.repeat(np.arange(self.colors * self.ranks), np.tile(self.sizes.copies, self.colors)).astype(np.int32)
        return self.start_from_deck(shuffle(key, cards))

    def start_from_deck(self, deck: Array) -> GameState:
        """Deals a deck [D] of cards color * R + rank: the first H to seat 0, the next H to seat 1, and so on."""
        seats, hand, colors, ranks = self.players, self.hand_size, self.colors, self.ranks
        zero = jnp.int32(0)
        return self._game_state(
            HanabiTable(
                deck=deck,
                drawn=jnp.int32(seats * hand),
                hands=deck[: seats * hand].reshape(seats, hand),
                may_color=jnp.ones((seats, hand, colors), bool),
                may_rank=jnp.ones((seats, hand, ranks), bool),
                told_color=jnp.zeros((seats, hand), bool),
                told_rank=jnp.zeros((seats, hand), bool),
                fireworks=jnp.zeros(colors, jnp.int32),
                discards=jnp.zeros((colors, ranks), jnp.int32),
                information=jnp.int32(self.information_tokens),
                lives=jnp.int32(self.life_tokens),
                turn=zero,
                last_turns=zero,
                last=LastMove(jnp.int32(-1), jnp.int32(-1), jnp.bool_(False), jnp.bool_(False)),
            ),
            jnp.float32(0.0),
        )

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [S] int32. key: unused, `init` shuffles the deck."""
        del key
        old: HanabiTable = state.inner
        action = select_row(actions, old.turn % self.players)
        is_hint = action >= 2 * self.hand_size
        hinted, used = self._hint(old, action), self._use(old, action)
        new = jax.tree.map(lambda a, b: jnp.where(is_hint, a, b), hinted, used)
        new = dataclasses.replace(new, turn=old.turn + 1, last_turns=old.last_turns + (new.drawn >= self.deck_size))
        new = jax.tree.map(lambda after, before: jnp.where(state.done, before, after), new, old)
        before, after = jnp.sum(old.fireworks), jnp.sum(new.fireworks)
        lost = (new.lives == 0) & (not self.credit)
        reward = jnp.where(lost, -before, after - before) * ~state.done
        return self._game_state(new, reward.astype(jnp.float32))

    def _use(self, table: HanabiTable, action: Array) -> HanabiTable:
        """Plays or discards a card and draws another."""
        mover, slot, is_play = table.turn % self.players, action % self.hand_size, action >= self.hand_size
        hand = select_row(table.hands, mover)
        card = select_row(hand, slot)
        color, rank = jnp.arange(self.colors) == card // self.ranks, card % self.ranks
        fits = jnp.any(color & (table.fireworks == rank))
        scored, lost = is_play & fits, is_play & ~fits
        gained = scored & (rank == self.ranks - 1) & (table.information < self.information_tokens)
        thrown = color[:, None] & (jnp.arange(self.ranks) == rank)[None, :] & ~scored
        new_card = jnp.where(table.drawn < self.deck_size, select_row(table.deck, table.drawn), -1)

        def draw(rows: Array, new: Array) -> Array:
            return replace_row(rows, mover, replace_card(select_row(rows, mover), slot, new))

        return dataclasses.replace(
            table,
            drawn=jnp.minimum(table.drawn + 1, self.deck_size),
            hands=draw(table.hands, new_card),
            may_color=draw(table.may_color, jnp.ones(self.colors, bool)),
            may_rank=draw(table.may_rank, jnp.ones(self.ranks, bool)),
            told_color=draw(table.told_color, jnp.bool_(False)),
            told_rank=draw(table.told_rank, jnp.bool_(False)),
            fireworks=table.fireworks + (color & scored),
            discards=table.discards + thrown,
            information=jnp.minimum(table.information + ~is_play, self.information_tokens) + gained,
            lives=table.lives - lost,
            last=LastMove(action, card, scored, gained),
        )

    def _hint(self, table: HanabiTable, action: Array) -> HanabiTable:
        """Gives a hint: matching cards must have the color or rank, the others cannot."""
        target, color, rank = decode_hint(self.sizes, table.turn % self.players, action)
        match_color, match_rank = match_cards(self.sizes, table, target, color, rank)
        may_color, may_rank = select_row(table.may_color, target), select_row(table.may_rank, target)
        named_color = (jnp.arange(self.colors) == color)[None, :] == match_color[:, None]  # [H, C], stays possible
        named_rank = (jnp.arange(self.ranks) == rank)[None, :] == match_rank[:, None]
        return dataclasses.replace(
            table,
            may_color=replace_row(table.may_color, target, may_color & (named_color | (color < 0))),
            may_rank=replace_row(table.may_rank, target, may_rank & (named_rank | (rank < 0))),
            told_color=replace_row(table.told_color, target, select_row(table.told_color, target) | match_color),
            told_rank=replace_row(table.told_rank, target, select_row(table.told_rank, target) | match_rank),
            information=table.information - 1,
            last=LastMove(action, jnp.int32(-1), jnp.bool_(False), jnp.bool_(False)),
        )

    def _legal(self, table: HanabiTable) -> Array:
        """Returns the legal actions [A] of the seat to move."""
        mover = table.turn % self.players
        held = select_row(table.hands, mover) >= 0
        spare = table.information > 0
        by_color, by_rank = [], []
        for distance in range(1, self.players):
            hand = select_row(table.hands, (mover + distance) % self.players)
            there = hand >= 0
            by_color.append(jnp.any(hand[:, None] // self.ranks == jnp.arange(self.colors)[None, :], axis=0))
            ranks = (hand[:, None] % self.ranks == jnp.arange(self.ranks)[None, :]) & there[:, None]
            by_rank.append(jnp.any(ranks, axis=0))
        hints = [hint & spare for hint in (*by_color, *by_rank)]
        return jnp.concatenate([held & (table.information < self.information_tokens), held, *hints])

    def _game_state(self, table: HanabiTable, reward: Array) -> GameState:
        seats = self.players
        complete = jnp.sum(table.fireworks) == self.colors * self.ranks
        over = (table.lives == 0) | complete | (table.last_turns == seats + 1)
        to_move = (jnp.arange(seats) == table.turn % seats) & ~over
        return GameState(
            inner=table,
            observation=observe(self.sizes, table),
            legal=to_move[:, None] & self._legal(table)[None, :],
            to_move=to_move,
            reward=jnp.broadcast_to(reward, (seats,)),
            terminated=over,
            truncated=jnp.bool_(False),
        )
