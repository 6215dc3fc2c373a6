"""Nim: two players take stones from heaps in turn, and the last stone wins, or loses under the misère rule.

A position is the size of every heap, which is all that a player observes. With normal play the player to move wins
exactly if the bitwise xor of the heaps (the nim-sum) is not 0; under the misère rule the same holds while some heap has
two or more stones, and the opposite after that.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, Struct, expect

MAX_STONES = 64  # of all heaps


class Heaps(Struct):
    """A position of Nim."""

    stones: Array  # [heaps] int32
    turn: Array  # [] int32, the seat to move


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Nim:
    """Nim for two players. Action `heap * max(heaps) + n - 1` takes n stones from a heap.

    Observations are one-hots of the size of every heap, equal for both seats. They do not contain the history: tables
    and CFR need `with_history`.

    Args:
      heaps: stones in each heap at the start.
      misere: the player who takes the last stone loses.
      shared: both players are drawn from one population.
    """

    heaps: tuple[int, ...] = (1, 3, 5)
    misere: bool = False
    shared: bool = False

    name = "nim"
    num_seats = 2
    simultaneous = False
    continuous = False
    zero_sum = True
    player_of_seat = (0, 1)
    return_bounds = (-1.0, 1.0)
    truncates = False

    def __post_init__(self) -> None:
        heaps = tuple(self.heaps) if isinstance(self.heaps, (tuple, list)) else (self.heaps,)
        sound = heaps and all(type(heap) is int and heap > 0 for heap in heaps) and sum(heaps) <= MAX_STONES
        expect(sound, f"heaps must be positive integers with a sum of at most {MAX_STONES}, got {self.heaps!r}.")
        object.__setattr__(self, "heaps", heaps)

    @property
    def any_winner(self) -> bool:
        """Whether the seat that moves last may lose."""
        return self.misere

    @property
    def num_actions(self) -> int:
        return len(self.heaps) * max(self.heaps)

    @property
    def max_steps(self) -> int:
        return sum(self.heaps)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (len(self.heaps) + sum(self.heaps),)

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0, 0) if self.shared else (0, 1)

    def init(self, key: Array) -> GameState:
        """Starts with full heaps. key: unused."""
        del key
        return self._game_state(Heaps(jnp.asarray(self.heaps, jnp.int32), jnp.int32(0)), jnp.zeros(2, jnp.float32))

    def deals(self) -> tuple[GameState, Array]:
        """Returns the only start, [1], and its probability."""
        return jax.tree.map(lambda leaf: leaf[None], self.init(jax.random.key(0))), jnp.ones(1, jnp.float32)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Takes the stones that the seat to move names, one of actions [2] int32. key: unused."""
        del key
        inner: Heaps = state.inner
        heap, less = jnp.divmod(jnp.where(inner.turn == 0, actions[0], actions[1]), max(self.heaps))
        taken = jnp.where((jnp.arange(len(self.heaps)) == heap) & ~state.done, less + 1, 0)
        left = jnp.maximum(inner.stones - taken, 0)
        ends = (left == 0).all() & ~state.done
        won = (jnp.arange(2) == inner.turn) != self.misere
        after = Heaps(left, jnp.where(state.done, inner.turn, 1 - inner.turn))
        return self._game_state(after, jnp.where(ends, jnp.where(won, 1.0, -1.0), 0.0))

    def action_name(self, state: GameState, action: int) -> str:
        """Names a move, such as `take 2 from heap 1`."""
        heap, less = divmod(int(action), max(self.heaps))
        return f"take {less + 1} from heap {heap + 1}"

    def _game_state(self, inner: Heaps, reward: Array) -> GameState:
        over = (inner.stones == 0).all()
        to_move = (jnp.arange(2) == inner.turn) & ~over
        may = jnp.arange(max(self.heaps))[None, :] < inner.stones[:, None]
        heap = np.repeat(np.arange(len(self.heaps)), np.asarray(self.heaps) + 1)
        size = np.concatenate([np.arange(stones + 1) for stones in self.heaps])
        seen = (inner.stones[heap] == size).astype(jnp.float32)
        return GameState(
            inner=inner,
            observation=jnp.stack([seen, seen]),
            legal=to_move[:, None] & may.reshape(-1)[None, :],
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=over,
            truncated=jnp.zeros((), jnp.bool_),
        )
