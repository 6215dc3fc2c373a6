"""Positions of Connect Four with the exact value of every move, solved by this project.

`data/connect_four.txt` has 960 positions of 20 to 35 stones in which no player can win at once and moves differ in
value. It is written by experiments/solve_connect_four.py, which describes how positions are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

SOLVED_FILE = Path(__file__).parent / "data" / "connect_four.txt"
_ROWS, _COLUMNS = 6, 7
_LETTERS = {1: "w", 0: "d", -1: "l", None: "."}


class SolvedPositions(NamedTuple):
    """Solved positions, from the view of the player to move.

    Attributes:
      observation: [N, 6, 7, 2] float32, as the game shows it.
      legal: [N, 7] bool.
      values: value of every move, 1 for a win, 0 for a draw, -1 for a loss and for illegal moves, [N, 7] int32.
      keeps: moves that keep the value of the position, [N, 7] bool.
      seat: who is to move, [N] int32.
      moves: the columns that lead to each position, N texts.
    """

    observation: np.ndarray
    legal: np.ndarray
    values: np.ndarray
    keeps: np.ndarray
    seat: np.ndarray
    moves: tuple[str, ...]


def format_position(moves: str, values: Sequence[int | None]) -> str:
    """Formats one line of the file.

    Args:
      moves: the columns that lead to the position, as digits.
      values: value of every column, 1, 0 or -1, and None for full columns.

    Returns:
      A text such as `3342 wdl..wl`.
    """
    return f"{moves} {''.join(_LETTERS[value] for value in values)}"


@cache
def solved_positions() -> SolvedPositions:
    """Reads the stored positions."""
    lines = [line.split() for line in SOLVED_FILE.read_text().splitlines() if not line.startswith("#")]
    moves = tuple(columns for columns, _ in lines)
    letters = np.asarray([list(values) for _, values in lines])
    legal = letters != "."
    values = np.select([letters == "w", letters == "d"], [1, 0], -1).astype(np.int32)
    best = np.max(np.where(legal, values, -1), axis=1, keepdims=True)
    return SolvedPositions(
        observation=np.stack([_observe(columns) for columns in moves]),
        legal=legal,
        values=values,
        keeps=legal & (values == best),
        seat=np.asarray([len(columns) % 2 for columns in moves], np.int32),
        moves=moves,
    )


def _observe(moves: str) -> np.ndarray:
    """Replays moves and returns the observation [6, 7, 2] of the player to move."""
    board, height = np.zeros((_ROWS, _COLUMNS, 2), np.float32), [0] * _COLUMNS
    for number, column in enumerate(map(int, moves)):
        board[_ROWS - 1 - height[column], column, (number + len(moves)) % 2] = 1.0
        height[column] += 1
    return board
