"""Boards as integers per row: lines, playable squares and winning squares of Connect Four on any board.

A board is an int32 array [..., R] with one integer per row, the bottom row first; bit c is column c. All operations are
elementwise, so they apply to batches of boards and fuse. No integer exceeds the width of the board.
"""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp

from gems_jax.types import Array

_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))  # (up, right)


def pack_rows(stones: Array) -> Array:
    """Converts a plane [R, C], top row first, to integers [R], bottom row first."""
    return jnp.sum((stones[::-1] > 0) * column_bits(stones.shape[1], 2), axis=1, dtype=jnp.int32)


def column_bits(width: int, rank: int) -> Array:
    """Returns the bit of every column on the last of `rank` axes, [..., C] int32."""
    return jnp.left_shift(1, jnp.arange(width, dtype=jnp.int32)).reshape(*(1,) * (rank - 1), width)


def look(rows: Array, up: int, right: int) -> Array:
    """Moves the content of every square to the square that sees it at an offset.

    Args:
      rows: [..., R].
      up: rows between a square and the square it looks at.
      right: columns between them.

    Returns:
      Rows [..., R] whose square (r, c) holds that of (r + up, c + right), and 0 beyond top and bottom and to the right.
      To the left of the board there are bits that a caller masks.
    """
    if up:
        rows = jax.lax.pad(rows, jnp.int32(0), [(0, 0, 0)] * (rows.ndim - 1) + [(-up, up, 0)])
    return rows >> right if right >= 0 else rows << -right


def playable_squares(filled: Array, width: int) -> Array:
    """Returns the squares where a stone would land, given the filled squares [..., R]; at most one per column."""
    full = jnp.int32((1 << width) - 1)
    below = jax.lax.pad(filled, full, [(0, 0, 0)] * (filled.ndim - 1) + [(1, -1, 0)])
    return below & ~filled & full


def winning_squares(stones: Array, width: int, connect: int = 4) -> Array:
    """Finds the squares where one more stone completes a line.

    Args:
      stones: stones of one player, [..., R].
      width: C.
      connect: length of a line.

    Returns:
      The squares [..., R], whether or not they are filled or can be reached. A vertical line is completed on top.
    """
    found = []
    for up, right in _DIRECTIONS:
        gaps = range(connect) if right else (connect - 1,)
        reach = range(-(connect - 1), connect if right else 0)
        seen = {step: look(stones, step * up, step * right) for step in reach if step}
        for gap in gaps:
            found.append(reduce(jnp.bitwise_and, [seen[step - gap] for step in range(connect) if step != gap]))
    return reduce(jnp.bitwise_or, found) & jnp.int32((1 << width) - 1)
