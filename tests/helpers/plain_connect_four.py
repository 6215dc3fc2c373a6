"""Connect Four in plain Python, sharing no code with the package: strings of columns and a memo, no bit tricks."""

from __future__ import annotations

import functools
import random

import numpy as np

ROWS, COLUMNS = 6, 7
Board = tuple[str, ...]  # a string per column from the bottom up: x of the mover, o of the other


def completes(board: Board, column: int, stone: str) -> bool:
    """Whether a stone dropped into the column makes a line of four, counted outwards from it."""
    row = len(board[column])

    def at(r: int, c: int) -> bool:
        return 0 <= c < COLUMNS and 0 <= r < len(board[c]) and board[c][r] == stone

    for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        count = 1
        for sign in (1, -1):
            step = 1
            while at(row + sign * step * up, column + sign * step * right):
                count, step = count + 1, step + 1
        if count >= 4:
            return True
    return False


def drop(board: Board, column: int) -> Board:
    """The mover's stone falls, and the other player moves."""
    after = [pile + "x" if number == column else pile for number, pile in enumerate(board)]
    return tuple(pile.translate(str.maketrans("xo", "ox")) for pile in after)


def legal_columns(board: Board) -> list[int]:
    return [column for column in range(COLUMNS) if len(board[column]) < ROWS]


@functools.cache
def negamax(board: Board, depth: int) -> int:
    """depth - n + 1 if the mover wins with ply n, minus that if the other does, else 0."""
    scores = move_scores(board, depth)
    return max(scores.values()) if scores and depth else 0


def move_scores(board: Board, depth: int) -> dict[int, int]:
    return {
        column: depth if completes(board, column, "x") else -negamax(drop(board, column), depth - 1)
        for column in (legal_columns(board) if depth else [])
    }


def exact_values(board: Board) -> dict[int, int]:
    """Wins (1), draws (0) and losses (-1) of all moves by alpha-beta, for late positions."""
    values = {}
    for column in legal_columns(board):
        values[column] = 1 if completes(board, column, "x") else -_solve(drop(board, column), -1, 1)
    return values


@functools.cache
def _solve(board: Board, alpha: int, beta: int) -> int:
    columns = legal_columns(board)
    if not columns:
        return 0
    if any(completes(board, column, "x") for column in columns):
        return 1
    forced = [column for column in columns if completes(board, column, "o")]
    best = -1
    for column in forced or sorted(columns, key=lambda c: abs(c - 3)):
        best = max(best, -_solve(drop(board, column), -beta, -max(alpha, best)))
        if best >= beta:
            break
    return best


def random_board(generator: random.Random, stones: int) -> Board:
    """A position that nobody has won, after random moves; drawn again until there is one."""
    while True:
        board: Board = ("",) * COLUMNS
        for _ in range(stones):
            column = generator.choice(legal_columns(board))
            if completes(board, column, "x"):
                break
            board = drop(board, column)
        else:
            return board


def observe(board: Board) -> np.ndarray:
    """The observation [6, 7, 2] of the mover, top row first."""
    seen = np.zeros((ROWS, COLUMNS, 2), np.float32)
    for column, pile in enumerate(board):
        for row, stone in enumerate(pile):
            seen[ROWS - 1 - row, column, "xo".index(stone)] = 1.0
    return seen
