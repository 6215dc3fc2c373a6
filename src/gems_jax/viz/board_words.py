"""Boards of pgx as text, names of moves, and parsing of typed moves: tic-tac-toe, Connect Four, Go, chess.

Functions take concrete states (not traced ones). Moves have their usual notation: `4` for a field or a column,
`d4` and `pass` in Go (columns skip the letter i, rows count from below), `e2e4`, `e7e8q` and `o-o` in chess.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from gems_jax.types import GameState

MARKS = "XO"


def list_moves(state: GameState) -> list[int]:
    """Lists the legal actions of the seat to move."""
    return [int(action) for action in np.flatnonzero(np.asarray(state.legal).any(axis=0))]


def parse_number(state: GameState, text: str) -> int | None:
    """Parses the number of a field or column, counted from 1; None if it is invalid."""
    number = int(text) - 1 if text.isascii() and text.isdigit() and len(text) < 6 else -1
    return number if 0 <= number < state.legal.shape[1] else None


# --- tic-tac-toe and Connect Four


def draw_tic_tac_toe(state: GameState) -> str:
    """Draws the board, with numbers in empty fields."""
    cells = [str(n + 1) if int(mark) < 0 else MARKS[int(mark)] for n, mark in enumerate(board_cells(state))]
    return "\n---+---+---\n".join(" " + " | ".join(cells[start : start + 3]) for start in (0, 3, 6))


def draw_connect_four(state: GameState) -> str:
    """Draws the board, with numbers below the columns."""
    cells = [" " if int(mark) < 0 else MARKS[int(mark)] for mark in board_cells(state)]
    rows = [" " + " | ".join(cells[start : start + 7]) for start in range(0, 42, 7)]
    return ("\n" + "-" * 27 + "\n").join(rows) + "\n " + "   ".join("1234567")


def board_cells(state: GameState) -> np.ndarray:
    """Returns the flat board of a pgx state."""
    return np.asarray(state.inner.state._x.board)


# --- Go

GO_COLUMNS = "abcdefghjklmnopqrst"
GO_KOMI = 7.5


def go_stones(state: GameState) -> np.ndarray:
    """Returns the stones [N, N] from the top row: 1 for black, -1 for white."""
    board = np.sign(board_cells(state))
    size = round(len(board) ** 0.5)
    return board.reshape(size, size)


def go_move(state: GameState, action: int) -> str:
    """Names a move of Go: `d4` or `pass`."""
    size = len(go_stones(state))
    return "pass" if action == size**2 else f"{GO_COLUMNS[action % size]}{size - action // size}"


def parse_go_move(state: GameState, text: str) -> int | None:
    """Parses a move of Go; None if it is not a point of the board or `pass`."""
    size, text = len(go_stones(state)), text.lower()
    if text == "pass":
        return size**2
    found = re.fullmatch(rf"([{GO_COLUMNS[:size]}])([0-9]{{1,3}})", text)
    if not found or not 1 <= int(found[2]) <= size:
        return None
    return (size - int(found[2])) * size + GO_COLUMNS.index(found[1])


def explain_go_error(state: GameState, text: str) -> str:
    """Explains why a typed move of Go is not possible."""
    action = parse_go_move(state, text)
    if action is None:
        size = len(go_stones(state))
        corners = f"a1 to {GO_COLUMNS[size - 1]}{size}"
        return f"it is neither a point of the board, {corners} (without a column i), nor `pass`"
    if go_stones(state).ravel()[action]:
        return "there is a stone"
    return "a stone there would have no liberty, or take back a ko at once"


def go_board(state: GameState) -> str:
    """Draws the board: X is black, O is white, the last stone is in parentheses."""
    stones, size = go_stones(state), len(go_stones(state))
    history = np.asarray(state.inner.state._x.board_history)[:2].reshape(2, size, size)
    last = (history[0] != history[1]) & (np.abs(history[0]) == 1)
    marks = np.array(list(".XO"))[stones]
    marks = np.where(
        last, np.strings.add(np.strings.add("(", marks), ")"), np.strings.add(" ", np.strings.add(marks, " "))
    )
    letters = "   " + "".join(f" {letter} " for letter in GO_COLUMNS[:size]).rstrip()
    rows = [f"{size - number:>2} {''.join(row)}".rstrip() for number, row in enumerate(marks)]
    taken = np.asarray(state.inner.state._x.num_captured)
    counts = f"stones taken: black {int(taken[0])}, white {int(taken[1])}"
    return "\n".join([letters, *rows, counts])


def go_area(stones: np.ndarray) -> tuple[int, int]:
    """Counts the points of black and white: stones, and empty regions bordered by only one color."""
    points = {1: int((stones == 1).sum()), -1: int((stones == -1).sum())}
    empty = {(int(row), int(column)) for row, column in np.argwhere(stones == 0)}
    while empty:
        region, border = _region(stones, empty.pop())
        empty -= region
        if len(border) == 1:
            points[border.pop()] += len(region)
    return points[1], points[-1]


def _region(stones: np.ndarray, start: tuple[int, int]) -> tuple[set[tuple[int, int]], set[int]]:
    """Finds the empty points connected with `start`, and the colors of the stones around them."""
    region, border, todo = {start}, set[int](), [start]
    while todo:
        row, column = todo.pop()
        for near in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if min(near) < 0 or max(near) >= len(stones):
                continue
            if stones[near]:
                border.add(int(stones[near]))
            elif near not in region:
                region.add(near)
                todo.append(near)
    return region, border


def go_result(state: GameState) -> str:
    """Describes how a finished game ended."""
    inner = state.inner.state._x
    if bool(inner.is_psk):
        return "the position was there before: who repeated it has lost"
    black, white = go_area(go_stones(state))
    why = "both passed" if int(inner.consecutive_pass_count) >= 2 else f"{int(inner.step_count)} moves were played"
    ahead = black - white - GO_KOMI
    return f"{why}: {'black' if ahead > 0 else 'white'} wins by {abs(ahead):g} ({black} to {white} + {GO_KOMI})"


# --- chess

FILES = "abcdefgh"
PIECES = ".PNBRQKkqrbnp"  # by piece, 1 to 6 and -6 to -1
PROMOTIONS = "rbn"
PLANES = 73


@cache
def _steps() -> list[tuple[int, int]]:
    """Lists (files, ranks) of the 64 planes after the 9 of underpromotion: eight rays of seven, then knights."""
    near, far = list(range(1, 8)), list(range(-7, 0))
    ranks = far + near + [0] * 14 + far + near + near[::-1] + far[::-1]
    files = [0] * 14 + far + near + far + near + far + near
    return [
        *zip(files, ranks, strict=True),
        *((f, r) for f, sides in ((-2, 1), (-1, 2), (2, 1), (1, 2)) for r in (-sides, sides)),
    ]


def whites_view(state: GameState) -> np.ndarray:
    """Returns the pieces [8, 8] by file and rank, positive for white."""
    position = state.inner.state._x
    board = np.asarray(position.board).reshape(8, 8)
    return -board[:, ::-1] if int(position.color) else board


def chess_move(state: GameState, action: int) -> str:
    """Names a move of chess: `e2e4`, or `e7e8q` with the piece that a pawn is promoted to."""
    position = state.inner.state._x
    start, plane = divmod(action, PLANES)
    file, rank = divmod(start, 8)
    pawn = int(np.asarray(position.board)[start]) == 1
    if plane < 9:
        across, up = (0, 1, -1)[plane % 3], 1
        promoted = PROMOTIONS[plane // 3]
    else:
        across, up = _steps()[plane - 9]
        promoted = "q" if pawn and rank == 6 else ""
    flip = int(position.color)
    squares = [f"{FILES[f % 8]}{(8 - r if flip else r + 1)}" for f, r in ((file, rank), (file + across, rank + up))]
    return "".join([*squares, promoted])


def _expand_castling(state: GameState, text: str) -> str:
    home = "8" if int(state.inner.state._x.color) else "1"
    return {"oo": f"e{home}g{home}", "ooo": f"e{home}c{home}"}.get(text.replace("0", "o"), text)


def _normalize_move(state: GameState, text: str) -> str:
    return _expand_castling(state, re.sub(r"[-x=+#\s]", "", text.lower()))


def parse_chess_move(state: GameState, text: str) -> int | None:
    """Parses a move of chess; None if it is not legal."""
    wanted = _normalize_move(state, text)
    return next((action for action in list_moves(state) if chess_move(state, action) == wanted), None)


def explain_chess_error(state: GameState, text: str) -> str:
    """Explains why a typed move of chess is not possible."""
    wanted = _normalize_move(state, text)
    if not re.fullmatch(r"[a-h][1-8][a-h][1-8][qrbn]?", wanted):
        return "a move is two squares, from and to, as in e2e4; e7e8q promotes to a queen"
    start = wanted[:2]
    names = [chess_move(state, action) for action in list_moves(state)]
    if own := [name for name in names if name.startswith(start)]:
        return f"from {start} there are only {', '.join(own)}"
    piece = int(whites_view(state)[FILES.index(start[0]), int(start[1]) - 1])
    mine = -piece if int(state.inner.state._x.color) else piece
    return f"the piece on {start} cannot move" if mine > 0 else f"no piece of yours is on {start}"


def chess_board(state: GameState) -> str:
    """Draws the board: capital letters are white, white is at the bottom."""
    board = whites_view(state)
    rows = [
        f"{rank + 1}  " + " ".join(PIECES[int(board[file, rank])] for file in range(8)) for rank in range(7, -1, -1)
    ]
    return "\n".join([*rows, "   " + " ".join(FILES)])


def chess_result(state: GameState) -> str:
    """Describes how a finished game ended."""
    position = state.inner.state._x
    if not np.asarray(position.legal_action_mask).any():
        lost = ("white", "black")[int(position.color)]
        mate = np.asarray(state.reward).any()
        return f"checkmate: {lost} has lost" if mate else f"stalemate, {lost} cannot move: a draw"
    men = np.sort(np.abs(np.asarray(position.board)))[-4:]
    draws = {
        "fifty moves without a capture or a pawn's move": int(position.halfmove_count) >= 100,
        "512 plies were played": int(position.step_count) >= 512,
        "too little material to win": men[0] == 0 or set(men.tolist()) == {3, 6},
        "the position came up for the third time": True,
    }
    return f"{next(why for why, holds in draws.items() if holds)}: a draw"
