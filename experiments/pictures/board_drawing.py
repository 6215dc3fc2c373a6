"""Draws positions of Connect Four, Go and chess on matplotlib axes, in the style of the animations.

The first player has the dark pieces in Connect Four and Go and the light ones in chess. A ring or frame marks the last
move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gems_jax.types import Game, GameState
from gems_jax.viz.animation import MARK, Field
from gems_jax.viz.board_words import FILES, GO_COLUMNS, board_cells, go_stones, whites_view

DARK, LIGHT, EDGE, LINE = "#1A1A1A", "#FFFFFF", "#222222", "#8A8A8A"
SQUARES = ("#F3F3F3", "#C9C9C9")
PIECES = " ♟♞♝♜♛♚"


def check_board(game: Game) -> None:
    """Raises ValueError for games that cannot be drawn."""
    if getattr(game, "id", "") not in _DRAWINGS:
        raise ValueError(f"boards are drawn of {', '.join(_DRAWINGS)}, not of {game.name}")


def draw_board(axis: Any, state: GameState, moved: Sequence[Field] = ()) -> None:
    """Draws a position and marks the fields of the last move."""
    axis.set(aspect="equal", xticks=[], yticks=[])
    _DRAWINGS[str(state.inner.state.env_id)](axis, state, moved)


def _connect_four(axis: Any, state: GameState, moved: Sequence[Field]) -> None:
    cells = board_cells(state).reshape(6, 7)
    axis.set(xlim=(-0.55, 6.55), ylim=(5.55, -0.55))
    axis.hlines(np.arange(7) - 0.5, -0.5, 6.5, color=LINE, linewidth=0.6, zorder=1)
    axis.vlines(np.arange(8) - 0.5, -0.5, 5.5, color=LINE, linewidth=0.6, zorder=1)
    _discs(axis, [(column, row, cells[row, column] == 0) for row, column in np.argwhere(cells >= 0)], 0.4)
    _rings(axis, moved, 0.4)
    axis.set_xticks(range(7), "1234567")
    _plain_labels(axis)


def _go(axis: Any, state: GameState, moved: Sequence[Field]) -> None:
    stones = go_stones(state)
    size = len(stones)
    axis.set(xlim=(-0.7, size - 0.3), ylim=(size - 0.3, -0.7))
    axis.hlines(range(size), 0, size - 1, color=LINE, linewidth=0.6, zorder=1)
    axis.vlines(range(size), 0, size - 1, color=LINE, linewidth=0.6, zorder=1)
    _discs(axis, [(column, row, stones[row, column] > 0) for row, column in np.argwhere(stones)], 0.46)
    _rings(axis, moved, 0.46)
    axis.set_xticks(range(size), GO_COLUMNS[:size])
    axis.set_yticks(range(size), [str(size - row) for row in range(size)])
    _plain_labels(axis)


def _chess(axis: Any, state: GameState, moved: Sequence[Field]) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    board = whites_view(state)  # [file, rank]
    axis.imshow(np.indices((8, 8)).sum(axis=0) % 2, cmap=ListedColormap(SQUARES), zorder=0)
    for column, row in moved:
        frame: dict[str, Any] = {"edgecolor": MARK["stroke"], "linewidth": 1.6, "fill": False, "zorder": 2}
        axis.add_patch(Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, **frame))
    inches = axis.get_window_extent().width / axis.figure.dpi  # before the layout, which makes boards wider
    font = {"fontsize": 72 * inches / 8 * 1.1, "ha": "center", "va": "center_baseline", "zorder": 3}
    for file, rank in np.argwhere(board):
        light = board[file, rank] > 0
        rim = [withStroke(linewidth=1.3, foreground=EDGE if light else LIGHT)]
        piece = PIECES[abs(int(board[file, rank]))]
        axis.text(file, 7 - rank + 0.02, piece, color=LIGHT if light else DARK, path_effects=rim, **font)
    axis.set_xticks(range(8), FILES)
    axis.set_yticks(range(8), "87654321")
    _plain_labels(axis)


def _discs(axis: Any, men: Sequence[tuple[int, int, bool]], radius: float) -> None:
    from matplotlib.patches import Circle

    for column, row, dark in men:
        axis.add_patch(
            Circle((column, row), radius, facecolor=DARK if dark else LIGHT, edgecolor=EDGE, lw=0.7, zorder=3)
        )


def _rings(axis: Any, moved: Sequence[Field], radius: float) -> None:
    from matplotlib.patches import Circle

    for place in moved:
        axis.add_patch(Circle(place, 0.6 * radius, fill=False, edgecolor=MARK["stroke"], linewidth=1.6, zorder=4))


def _plain_labels(axis: Any) -> None:
    axis.tick_params(length=0, labelsize=5, pad=1, colors="#666666")
    axis.spines[:].set_visible(False)


_DRAWINGS: dict[str, Callable[[Any, GameState, Sequence[Field]], None]] = {
    "connect_four": _connect_four,
    "go_9x9": _go,
    "go_19x19": _go,
    "chess": _chess,
}
