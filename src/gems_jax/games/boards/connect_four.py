"""The rules of Connect Four in a form that XLA fuses: equal states to pgx, in less time on a CPU.

pgx gathers the 69 lines of four and scatters a stone into the board, each an elementwise kernel. Here a stone is placed
by comparison, and the rows of the board are integers: a line of four is a common bit of four rows, shifted by one per
row for a diagonal. The board may have any size, and lines any length.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax.numpy as jnp
from pgx._src.games import connect_four

from gems_jax.types import Array


def has_line(stones: Array, length: int = 4) -> Array:
    """Returns whether stones [rows, columns] bool, top row first, contain a line of `length`, [] bool."""
    height, width = stones.shape
    values = jnp.left_shift(1, jnp.arange(width)).reshape(1, width)
    rows = jnp.sum(jnp.where(stones, values, 0), axis=1, dtype=jnp.int32)  # [rows]
    flat = reduce(jnp.bitwise_and, [rows >> shift for shift in range(length)])
    starts = max(height - length + 1, 0)
    parts = [rows[start : start + starts] for start in range(length)]
    upright = reduce(jnp.bitwise_and, parts)
    falling = reduce(jnp.bitwise_and, [part >> shift for shift, part in enumerate(parts)])
    rising = reduce(jnp.bitwise_and, [part << shift for shift, part in enumerate(parts)])
    return jnp.any(flat != 0) | jnp.any((upright | falling | rising) != 0)


class ConnectFourRules(connect_four.Game):
    """The rules of Connect Four; on 6 rows of 7 equal to `pgx._src.games.connect_four.Game`.

    Args:
      rows: height of the board.
      columns: width of the board.
      connect: length of a line that wins.
    """

    def __init__(self, rows: int = 6, columns: int = 7, connect: int = 4):
        self.rows, self.columns, self.connect = rows, columns, connect

    def step(self, state: Any, action: Array) -> Any:
        rows, columns = self.rows, self.columns
        board = state.board.reshape(rows, columns)
        height = jnp.sum(board >= 0, axis=0, dtype=jnp.int32)  # [columns]
        # In a full column pgx replaces the lowest stone, and then ends the game because the move was illegal.
        row = jnp.where(height == rows, rows - 1, rows - 1 - height)
        here = (jnp.arange(rows)[:, None] == row[None, :]) & (jnp.arange(columns) == action)[None, :]
        board = jnp.where(here, state.color, board)
        won = has_line(board == state.color, self.connect)
        return state._replace(
            color=1 - state.color, board=board.reshape(-1), winner=jnp.where(won, state.color, jnp.int32(-1))
        )

    def observe(self, state: Any, color: Array | None = None) -> Array:
        whose = jnp.where(jnp.asarray(color) == 0, 0, 1) ^ jnp.arange(2)
        return state.board.reshape(self.rows, self.columns, 1) == whose.reshape(1, 1, 2)

    def legal_action_mask(self, state: Any) -> Array:
        return state.board[: self.columns] < 0

    def is_terminal(self, state: Any) -> Array:
        return (state.winner >= 0) | ~jnp.any(self.legal_action_mask(state))

    def rewards(self, state: Any) -> Array:
        ends = jnp.where(jnp.arange(2) == state.winner, jnp.float32(1), jnp.float32(-1))
        return jnp.where(state.winner >= 0, ends, jnp.float32(0))
