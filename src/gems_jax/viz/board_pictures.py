"""What pgx's drawings of boards lack: coordinates along the edges, and a mark on the move that was just made.

A `Board` knows where pgx draws its fields, and which fields a move concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from gems_jax.types import GameState
from gems_jax.viz.board_words import FILES, GO_COLUMNS, chess_move

SVG = "http://www.w3.org/2000/svg"
MARK = {"fill": "none", "stroke": "#E69F00", "stroke-width": "3"}
Field = tuple[int, int]  # column and row, counted from the top left


class Board(NamedTuple):
    """In pixels of pgx's drawing; labels stand `label_gap` from the centres of the outer fields."""

    first: tuple[float, float]  # centre of the field at the top left
    step: float  # between the centres of two neighbours
    moved: Callable[[GameState, int], list[Field]]  # fields of an action in a position
    radius: float = 0.0  # of the ring around a field that was moved to; 0 for a square frame
    columns: str = ""
    rows: tuple[str, ...] = ()
    height: int = 0  # rows of fields
    label_gap: float = 0.0

    def marks(self, fields: Sequence[Field]) -> list[ElementTree.Element]:
        return [self._mark(*self._centre(*field)) for field in fields]

    def labels(self) -> list[ElementTree.Element]:
        """Names of the columns below the lowest row, and of the rows to the left."""
        below = [(self._centre(column, self.height - 1), name) for column, name in enumerate(self.columns)]
        left = [(self._centre(0, row), name) for row, name in enumerate(self.rows)]
        places = [((x, y + self.label_gap), name) for (x, y), name in below]
        places += [((x - self.label_gap, y), name) for (x, y), name in left]
        return [self._text(x, y, name) for (x, y), name in places]

    def _centre(self, column: int, row: int) -> tuple[float, float]:
        return self.first[0] + self.step * column, self.first[1] + self.step * row

    def _mark(self, x: float, y: float) -> ElementTree.Element:
        if self.radius:
            return _element("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{self.radius:g}", **MARK)
        side = self.step - 6
        place = {"x": f"{x - side / 2:g}", "y": f"{y - side / 2:g}", "width": f"{side:g}", "height": f"{side:g}"}
        return _element("rect", **place, **MARK)

    def _text(self, x: float, y: float, name: str) -> ElementTree.Element:
        element = _element("text", **{"class": "label", "x": f"{x:g}", "y": f"{y + 3.5:g}", "text-anchor": "middle"})
        element.text = name
        return element


def _element(name: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(f"{{{SVG}}}{name}", attributes)


def board_of(position: Any) -> Board | None:
    """The board of a pgx state, None where nothing is known of its drawing."""
    return _BOARDS.get(str(position.env_id))


def _field(state: GameState, action: int) -> list[Field]:
    return [(action % 3, action // 3)]


def _disc(state: GameState, action: int) -> list[Field]:
    column = np.asarray(state.inner.state._x.board).reshape(6, 7)[:, action]
    return [(action, int((column < 0).sum()) - 1)]


def _go(size: int) -> Board:
    def stone(state: GameState, action: int) -> list[Field]:
        return [] if action == size**2 else [(action % size, action // size)]

    rows = tuple(str(size - row) for row in range(size))
    return Board((25.0, 25.0), 25.0, stone, 5.0, GO_COLUMNS[:size], rows, size, 18.0)


def _squares(state: GameState, action: int) -> list[Field]:
    name = chess_move(state, action)
    return [(FILES.index(square[0]), 8 - int(square[1])) for square in (name[:2], name[2:4])]


_BOARDS = {
    "tic_tac_toe": Board((60.0, 60.0), 60.0, _field),
    "connect_four": Board((35.0, 35.0), 35.0, _disc, 14.0, "1234567", (), 6, 32.0),
    "go_9x9": _go(9),
    "go_19x19": _go(19),
    "chess": Board((60.0, 50.0), 50.0, _squares),  # pgx draws its coordinates
}
