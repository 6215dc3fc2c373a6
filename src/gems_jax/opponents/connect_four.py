"""Connect Four: a one-ply tactician, and minimax players that look a few plies ahead.

The minimax player of depth d finds every win within d plies, its own and the opponent's, and nothing else: positions
without a forced win within d plies have value 0, however their stones lie. It prefers early wins and late losses, and
draws uniformly among the best moves. Two such players differ in their horizon alone, so their order is certain.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.opponents.bit_rows import column_bits, look, pack_rows, playable_squares, winning_squares
from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Policy, PolicyOutput, PyTree


@functools.cache
def _lines(height: int, width: int) -> np.ndarray:
    """Returns every line of four on a board as masks [lines, height * width]."""
    lines = []
    for row, column, (down, right) in itertools.product(range(height), range(width), [(0, 1), (1, 0), (1, 1), (1, -1)]):
        squares = [(row + step * down, column + step * right) for step in range(4)]
        if all(0 <= r < height and 0 <= c < width for r, c in squares):
            mask = np.zeros((height, width), np.float32)
            mask[tuple(zip(*squares, strict=True))] = 1.0
            lines.append(mask.reshape(-1))
    return np.stack(lines)


@dataclasses.dataclass(frozen=True)
class Tactician:
    """Plays Connect Four one ply deep: wins if it can, else blocks if it must, else plays at random."""

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        height, width = observation.shape[:2]
        lines = jnp.asarray(_lines(height, width))
        filled = observation.sum(axis=(0, 2)).astype(jnp.int32)  # [width]
        drop = (height - 1 - filled)[None, :] == jnp.arange(height)[
            :, None
        ]  # [height, width], where a stone would land

        def completes(stones: Array) -> Array:
            """Finds the columns [width] where one more stone makes four."""
            three = (lines @ stones.reshape(-1)) == 3.0
            targets = jnp.any(three[:, None] & (lines > 0.0), axis=0).reshape(height, width)
            return jnp.any(targets & drop, axis=0) & legal

        wins, blocks = completes(observation[:, :, 0]), completes(observation[:, :, 1])
        wanted = jnp.where(wins.any(), wins, jnp.where(blocks.any(), blocks, legal))
        return PolicyOutput(logits=mask_logits(jnp.zeros(width), wanted))


def tactician() -> Policy:
    """Makes the one-ply policy for Connect Four."""
    return Policy((), Tactician())


class _Search:
    """Depth-limited negamax over whole levels of the tree at once.

    A position is a pair of boards [..., R] (see `bit_rows`): the mover's stones and the other's. A level adds an axis
    [C] of moves. Wins in one ply and losses in two are found by masks, so depth d expands C^(d - 2) positions.

    Scores are those of the mover with d plies to go: d - n + 1 if the mover wins with the n-th ply, -(d - n + 1) if the
    opponent does, and 0 otherwise.
    """

    def __init__(self, width: int, connect: int):
        self.width, self.connect = width, connect

    def _targets(self, stones: Array) -> Array:
        return winning_squares(stones, self.width, self.connect)

    def _children(self, own: Array, free: Array) -> Array:
        """Adds one stone to the mover's in every column [..., C, R]; in a full column, none."""
        column = jnp.swapaxes(column_bits(self.width, own.ndim + 1), -1, -2)
        return own[..., None, :] | (free[..., None, :] & column)

    def value(self, own: Array, other: Array, depth: int) -> Array:
        """Computes the score [...] of positions that nobody has won yet."""
        free = playable_squares(own | other, self.width)
        wins = jnp.any((self._targets(own) & free) != 0, axis=-1)
        if depth == 1:
            return wins.astype(jnp.int32)
        if depth == 2:
            return jnp.where(wins, 2, jnp.where(self._has_safe_move(other, free), 0, -1))
        rest = self.best(self.replies(own, other, free, depth), self.columns(free))
        return jnp.where(wins, depth, rest)

    def _has_safe_move(self, other: Array, free: Array) -> Array:
        """Returns whether a move leaves the opponent no win in one, or there is no move at all, [...] bool."""
        targets = self._targets(other)
        threats = targets & free
        count = jnp.sum(jax.lax.population_count(threats), axis=-1)
        # A move must fill the only threat, and must not raise a column to a target.
        answers = jnp.where((count == 0)[..., None], free, threats) & ~look(targets, 1, 0)
        return ((count <= 1) & jnp.any(answers != 0, axis=-1)) | jnp.all(free == 0, axis=-1)

    def replies(self, own: Array, other: Array, free: Array, depth: int) -> Array:
        """Scores every move [..., C] by what follows it; `depth` counts the move."""
        children = self._children(own, free)
        return -self.value(jnp.broadcast_to(other[..., None, :], children.shape), children, depth - 1)

    def columns(self, squares: Array) -> Array:
        """Returns the columns [..., C] that hold one of the squares [..., R]."""
        joined = jax.lax.reduce(squares, jnp.int32(0), jax.lax.bitwise_or, (squares.ndim - 1,))
        return (joined[..., None] & column_bits(self.width, squares.ndim)) != 0

    def best(self, scores: Array, legal: Array) -> Array:
        """Returns the highest score [...] of the legal moves [..., C], and 0 without moves: a draw."""
        highest = jnp.max(jnp.where(legal, scores, -64), axis=-1)
        return jnp.where(jnp.any(legal, axis=-1), highest, 0)

    def score_moves(self, own: Array, other: Array, depth: int) -> Array:
        """Computes the score [C] of every move of one position [R]; arbitrary in full columns."""
        free = playable_squares(own | other, self.width)
        wins = self.columns(self._targets(own) & free)
        if depth == 1:
            return jnp.where(wins, 1, 0)
        return jnp.where(wins, depth, self.replies(own, other, free, depth))


@dataclasses.dataclass(frozen=True)
class Minimax:
    """Plays Connect Four by depth-limited minimax: uniformly among the moves of the best score.

    Args:
      depth: plies that it looks ahead, its own move included, at least 1.
      connect: length of a line that wins.
    """

    depth: int
    connect: int = 4

    def scores(self, observation: Array) -> Array:
        """Scores the moves of a position.

        Args:
          observation: the mover's stones and the other's, [R, C, 2].

        Returns:
          [C] int32: depth - n + 1 if the mover wins with ply n, minus that if the opponent does, 0 if nobody wins
          within the depth. Arbitrary in full columns.
        """
        own, other = pack_rows(observation[:, :, 0]), pack_rows(observation[:, :, 1])
        return _Search(observation.shape[1], self.connect).score_moves(own, other, self.depth)

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        scores = jnp.where(legal, self.scores(observation), -64)
        return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), legal & (scores == jnp.max(scores))))


def minimax(depth: int, connect: int = 4) -> Policy:
    """Makes the minimax policy for Connect Four.

    Args:
      depth: plies that it looks ahead, at least 1.
      connect: length of a line that wins.

    Returns:
      A policy without parameters.

    Raises:
      ValueError: if depth is less than 1.
    """
    if depth < 1:
        raise ValueError(f"minimax: expected a depth of at least 1, got {depth}. Use random_policy for no search.")
    return Policy((), Minimax(depth, connect))
