"""Kuhn poker for any number of players, by OpenSpiel's rules (`kuhn_poker(players=n)`).

n players ante one chip and get one card each of a deck of n + 1. In turn they pass or bet one chip until one of them
has bet. The others then pass (fold) or bet (call) once more. The highest card among those who bet wins the pot, or
among all if nobody bet. Actions: 0 passes, 1 bets.

Betting is one bit per move, the first move lowest. A history is a leading one followed by its bits: 0b1 is the empty
history, 0b110 is pass-bet.
"""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, Struct, expect

MAX_PLAYERS = 5


class Betting(Struct):
    """A position of Kuhn poker."""

    cards: Array  # [n] int32
    bets: Array  # [] int32, bit t is set if move t was a bet
    moves: Array  # [] int32, number of moves


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MultiplayerKuhn:
    """Kuhn poker for 2 to 5 players.

    Observations are OpenSpiel's information-state tensors: the seat, the card, every move so far.

    Args:
      players: 2 to 5.
      shared: all players are drawn from one population.
    """

    players: int = 3
    shared: bool = False

    num_actions = 2
    simultaneous = False
    continuous = False
    zero_sum = True
    truncates = False

    def __post_init__(self) -> None:
        sound = type(self.players) is int and 2 <= self.players <= MAX_PLAYERS
        expect(sound, f"players must be an integer from 2 to {MAX_PLAYERS}, got {self.players!r}.")

    @property
    def name(self) -> str:
        return f"kuhn_poker_{self.players}p"

    @property
    def num_seats(self) -> int:
        return self.players

    @property
    def max_steps(self) -> int:
        """Longest episode: all but the last pass, and the others answer its bet."""
        return 2 * self.players - 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (2 * self.players + 1 + 2 * self.max_steps,)

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return tuple(range(self.players))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0,) * self.players if self.shared else tuple(range(self.players))

    @property
    def return_bounds(self) -> tuple[float, float]:
        """From a lost bet to the bets of all others."""
        return -2.0, 2.0 * (self.players - 1)

    def init(self, key: Array) -> GameState:
        """Deals one card each. key: consumed."""
        hands = self._hands()
        return self._start(jnp.asarray(hands)[jax.random.randint(key, (), 0, len(hands))])

    def deals(self) -> tuple[GameState, Array]:
        """Returns all (n + 1)! deals and their probabilities."""
        hands = self._hands()
        return jax.vmap(self._start)(jnp.asarray(hands)), jnp.full(len(hands), 1.0 / len(hands), jnp.float32)

    def _hands(self) -> np.ndarray:
        return np.asarray(list(itertools.permutations(range(self.players + 1), self.players)), np.int32)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [n] int32. key: unused, chance acts in `init`."""
        del key
        inner: Betting = state.inner
        own = jnp.arange(self.players) == inner.moves % self.players
        action = jnp.sum(jnp.where(own, actions, 0))
        bets = inner.bets | jnp.left_shift(action, inner.moves)
        moved = Betting(inner.cards, bets, inner.moves + 1)
        after = jax.tree.map(lambda old, new: jnp.where(state.done, old, new), inner, moved)
        pays = self._over(after) & ~state.done
        return self._game_state(after, jnp.where(pays, self._returns(after), 0.0))

    def _start(self, cards: Array) -> GameState:
        return self._game_state(Betting(cards, jnp.int32(0), jnp.int32(0)), jnp.zeros(self.players, jnp.float32))

    def _over(self, inner: Betting) -> Array:
        """Returns whether all have passed, or all have answered the first bet."""
        first = jax.lax.population_count((inner.bets & -inner.bets) - 1)  # trailing zeros
        return jnp.where(inner.bets == 0, inner.moves == self.players, inner.moves == first + self.players)

    def _returns(self, inner: Betting) -> Array:
        """Returns what every player wins or loses at the end, [n]."""
        seats = jnp.arange(self.players)
        both = jnp.right_shift(inner.bets, seats) | jnp.right_shift(inner.bets, seats + self.players)
        stays = (both & 1) == 1
        paid = 1.0 + stays
        best = jnp.argmax(jnp.where(stays | ~stays.any(), inner.cards, -1))
        return jnp.where(seats == best, paid.sum(), 0.0) - paid

    def _game_state(self, inner: Betting, reward: Array) -> GameState:
        over, seats = self._over(inner), jnp.arange(self.players)
        to_move = (seats == inner.moves % self.players) & ~over
        history = jnp.left_shift(jnp.int32(1), inner.moves) | inner.bets
        return GameState(
            inner=inner,
            observation=jax.vmap(lambda seat, card: self._observe(inner, seat, card))(seats, inner.cards),
            legal=jnp.repeat(to_move[:, None], 2, axis=1),
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=over,
            truncated=jnp.zeros((), jnp.bool_),
            infoset=history * (self.players + 1) + inner.cards,
        )

    def _observe(self, inner: Betting, seat: Array, card: Array) -> Array:
        """One-hots of the seat, of its card, and of every move."""
        moves = jnp.arange(self.max_steps)
        bet, made = jnp.right_shift(inner.bets, moves) & 1, moves < inner.moves
        played = made[:, None] & (bet[:, None] == jnp.arange(2)[None, :])
        cards = jnp.arange(self.players + 1) == card
        return jnp.concatenate([jnp.arange(self.players) == seat, cards, played.reshape(-1)]).astype(jnp.float32)
