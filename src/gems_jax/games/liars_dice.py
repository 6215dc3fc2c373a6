"""Liar's Dice for two with one die each, by OpenSpiel's rules (`liars_dice`).

Both players roll a die in secret. A bid claims that at least q of the two dice show a face. Bids increase strictly and
have indices `(q - 1) * sides + face - 1`; the highest face is wild and counts as any. The last action calls the last
bid a lie: if the claim holds the bidder wins 1, otherwise the caller does.

Because bids increase, the bids so far are a set, stored as one bit each. The size of the set determines who moves, and
the die and the set are the information set: `sides * 4^sides` of them, 24,576 with six sides.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, Struct, expect

MAX_SIDES = 6  # seven sides have 1.6 million positions


class Bids(Struct):
    """A position of Liar's Dice."""

    dice: Array  # [2] int32, faces from 0
    made: Array  # [] int32, bit b is set if bid b was made
    called: Array  # [] bool, the seat to move has called the last bid a lie


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class LiarsDice:
    """Liar's Dice for two players with one die each.

    Observations are OpenSpiel's information-state tensors: the seat, the own die, the bids, the call.

    Args:
      sides: sides of each die.
      shared: both players are drawn from one population.
    """

    sides: int = 6
    shared: bool = False

    name = "liars_dice"
    num_seats = 2
    simultaneous = False
    continuous = False
    zero_sum = True
    player_of_seat = (0, 1)
    return_bounds = (-1.0, 1.0)
    truncates = False

    def __post_init__(self) -> None:
        sound = type(self.sides) is int and 2 <= self.sides <= MAX_SIDES
        expect(sound, f"sides must be an integer from 2 to {MAX_SIDES}, got {self.sides!r}.")

    @property
    def num_bids(self) -> int:
        return 2 * self.sides

    @property
    def num_actions(self) -> int:
        return self.num_bids + 1

    @property
    def max_steps(self) -> int:
        return self.num_bids + 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (2 + self.sides + self.num_actions,)

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0, 0) if self.shared else (0, 1)

    @property
    def num_positions(self) -> int:
        """Positions of the whole tree: per roll one for each set of bids, and a call after all but the empty set."""
        return self.sides**2 * (2 ** (self.num_bids + 1) - 1)

    def init(self, key: Array) -> GameState:
        """Rolls both dice. key: consumed."""
        return self._start(jax.random.randint(key, (2,), 0, self.sides, jnp.int32))

    def deals(self) -> tuple[GameState, Array]:
        """Returns all rolls, [sides^2], and their probabilities."""
        rolls = np.stack(np.divmod(np.arange(self.sides**2, dtype=np.int32), self.sides), axis=1)
        chance = jnp.full(len(rolls), 1.0 / len(rolls), jnp.float32)
        return jax.vmap(self._start)(jnp.asarray(rolls)), chance

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [2] int32. key: unused, chance acts in `init`."""
        del key
        inner: Bids = state.inner
        mover = self._mover(inner)
        action = jnp.where(mover == 0, actions[0], actions[1])
        calls = action == self.num_bids
        bid = jnp.where(calls | inner.called, 0, jnp.left_shift(jnp.int32(1), action))
        after = Bids(inner.dice, inner.made | bid, inner.called | calls)
        quantity, face = jnp.divmod(_highest(inner.made), self.sides)
        matching = jnp.sum((inner.dice == face) | (inner.dice == self.sides - 1))
        won = (jnp.arange(2) == mover) == (matching <= quantity)
        pays = calls & ~inner.called
        return self._game_state(after, jnp.where(pays, jnp.where(won, 1.0, -1.0), 0.0))

    def _start(self, dice: Array) -> GameState:
        inner = Bids(dice, jnp.int32(0), jnp.bool_(False))
        return self._game_state(inner, jnp.zeros(2, jnp.float32))

    def _mover(self, inner: Bids) -> Array:
        return jax.lax.population_count(inner.made) & 1

    def _game_state(self, inner: Bids, reward: Array) -> GameState:
        to_move = (jnp.arange(2) == self._mover(inner)) & ~inner.called
        action = jnp.arange(self.num_actions)
        may = (action > _highest(inner.made)) & ((action < self.num_bids) | (inner.made != 0))
        return GameState(
            inner=inner,
            observation=jax.vmap(lambda seat, die: self._observe(inner, seat, die))(jnp.arange(2), inner.dice),
            legal=to_move[:, None] & may[None, :],
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=inner.called,
            truncated=jnp.zeros((), jnp.bool_),
            infoset=inner.dice * 2**self.num_bids + inner.made,
        )

    def _observe(self, inner: Bids, seat: Array, die: Array) -> Array:
        """One-hots of the seat and of its die, bits of the bids, and whether the last bid was called."""
        made = (jnp.right_shift(inner.made, jnp.arange(self.num_bids)) & 1).astype(jnp.bool_)
        parts = (jnp.arange(2) == seat, jnp.arange(self.sides) == die, made, inner.called[None])
        return jnp.concatenate(parts).astype(jnp.float32)


def _highest(made: Array) -> Array:
    """Returns the highest bid of a set, -1 for none."""
    return 31 - jax.lax.clz(made)
