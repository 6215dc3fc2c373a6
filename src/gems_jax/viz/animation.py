"""Games of pgx as animated SVGs: pgx's drawings of the positions, with a caption below each.

pgx's own animation is blank where CSS animations are not played (file managers, editors, print), does not show who
moved, and hurries past the final position. This one falls back to the final position, names every move with its
probability, and shows the result longer. It adds coordinates along the edges, and a mark on the last move.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import jax
import numpy as np

from gems_jax.types import GameState
from gems_jax.viz.board_words import FILES, GO_COLUMNS, chess_move

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
FRAME_SECONDS = 1.0
LAST_SECONDS = 3.0
MARGIN = 8.0
LINE_HEIGHT = 18.0
LETTER_WIDTH = 7.4  # upper estimate for the caption's font at 13 px


MARK = {"fill": "none", "stroke": "#E69F00", "stroke-width": "3"}
Field = tuple[int, int]  # column and row, counted from the top left


class Board(NamedTuple):
    """Geometry of pgx's drawing in pixels; labels are `label_gap` away from the centers of the outer fields."""

    first: tuple[float, float]  # center of the field at the top left
    step: float  # distance between the centers of two neighbors
    moved: Callable[[GameState, int], list[Field]]  # fields of an action in a position
    radius: float = 0.0  # of the ring that marks a field; 0 for a square frame
    columns: str = ""
    rows: tuple[str, ...] = ()
    height: int = 0  # rows of fields
    label_gap: float = 0.0

    def marks(self, fields: Sequence[Field]) -> list[ElementTree.Element]:
        """Draws marks around fields."""
        return [self._mark(*self._centre(*field)) for field in fields]

    def labels(self) -> list[ElementTree.Element]:
        """Draws names of the columns below the lowest row, and of the rows to the left."""
        below = [(self._centre(column, self.height - 1), name) for column, name in enumerate(self.columns)]
        left = [(self._centre(0, row), name) for row, name in enumerate(self.rows)]
        positions = [((x, y + self.label_gap), name) for (x, y), name in below]
        positions += [((x - self.label_gap, y), name) for (x, y), name in left]
        return [self._text(x, y, name) for (x, y), name in positions]

    def _centre(self, column: int, row: int) -> tuple[float, float]:
        return self.first[0] + self.step * column, self.first[1] + self.step * row

    def _mark(self, x: float, y: float) -> ElementTree.Element:
        if self.radius:
            return _element("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{self.radius:g}", **MARK)
        side = self.step - 6
        frame = {"x": f"{x - side / 2:g}", "y": f"{y - side / 2:g}", "width": f"{side:g}", "height": f"{side:g}"}
        return _element("rect", **frame, **MARK)

    def _text(self, x: float, y: float, name: str) -> ElementTree.Element:
        element = _element("text", **{"class": "label", "x": f"{x:g}", "y": f"{y + 3.5:g}", "text-anchor": "middle"})
        element.text = name
        return element


def _element(name: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(f"{{{SVG}}}{name}", attributes)


def board_of(position: Any) -> Board | None:
    """Returns the board of a pgx state; None if its geometry is unknown."""
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


def can_draw(position: Any) -> bool:
    """Checks whether pgx has a drawing of this pgx state that is more useful than text."""
    name = str(getattr(position, "env_id", ""))
    # pgx draws both hands of its poker games, but neither seats nor bets: their transcripts show more.
    return bool(name) and not name.startswith("minatar") and name not in ("kuhn_poker", "leduc_holdem")


def draw_animation(
    positions: Sequence[Any],
    captions: Sequence[Sequence[str]],
    board: Board | None = None,
    moved: Sequence[Sequence[Field]] = (),
) -> str:
    """Draws an animated SVG with one frame per position; the last frame is shown longest.

    Args:
      positions: pgx states.
      captions: lines of text below each position.
      board: geometry for marks and labels; None for no marks.
      moved: fields to mark in each position, those of the last move.

    Returns:
      The text of the SVG.

    Raises:
      ValueError: unless there is one caption per position.
    """
    if len(positions) != len(captions) or not positions:
        raise ValueError(
            f"animation needs one caption per position, got {len(positions)} positions and {len(captions)} captions"
        )
    drawn = _draw_with_pgx(
        jax.device_get(list(positions))
    )  # on the host: reading field by field from the device takes a minute
    frames = [group for group in drawn.iter(f"{{{SVG}}}g") if group.get("class") == "frame"]
    longest = max(len(line) for caption in captions for line in caption)
    drawing = float(drawn.get("width", "0")), float(drawn.get("height", "0"))
    width = max(drawing[0], longest * LETTER_WIDTH + 2 * MARGIN)
    height = drawing[1] + max(map(len, captions)) * LINE_HEIGHT + MARGIN
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    root = _element("svg", **size, viewBox=f"0 0 {width:g} {height:g}")
    ElementTree.SubElement(root, f"{{{SVG}}}style").text = _style(len(frames))
    root.append(_element("rect", **size, fill="white"))
    ElementTree.SubElement(root, f"{{{SVG}}}defs").extend([*_reuse_images(frames), *_reuse_board(frames)])
    middle = {"transform": f"translate({(width - drawing[0]) / 2:g},0)"}
    for number, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        hidden = {} if number == len(frames) - 1 else {"visibility": "hidden"}
        group = ElementTree.SubElement(root, f"{{{SVG}}}g", {"class": "frame", "id": f"frame{number}", **hidden})
        for name in ("class", "id"):
            del frame.attrib[name]
        marks = board.marks(moved[number]) if board is not None else []
        ElementTree.SubElement(group, f"{{{SVG}}}g", middle).extend([frame, *marks])
        group.extend(_caption(caption, width / 2, drawing[1]))
    if board is not None:
        ElementTree.SubElement(root, f"{{{SVG}}}g", middle).extend(board.labels())
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _caption(lines: Sequence[str], x: float, top: float) -> list[ElementTree.Element]:
    found = []
    for row, line in enumerate(lines):
        at = {"x": f"{x:g}", "y": f"{top + (row + 0.7) * LINE_HEIGHT:g}", "text-anchor": "middle"}
        found.append(_element("text", **{"class": "caption", **at}))
        found[-1].text = line
    return found


def _draw_with_pgx(positions: Sequence[Any]) -> ElementTree.Element:
    from pgx import save_svg_animation

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgx's drawings index with jax scalars
        path = Path(folder) / "game.svg"
        save_svg_animation(list(positions), path)
        return ElementTree.parse(path).getroot()


def _reuse_images(frames: Sequence[ElementTree.Element]) -> list[ElementTree.Element]:
    """Replaces the repeated pictures of pieces in the frames by references, and returns each picture once.

    Together with `_reuse_board` this reduces a game of chess from ten megabytes to one.
    """
    shared: dict[str, ElementTree.Element] = {}
    for image in [image for frame in frames for image in frame.iter(f"{{{SVG}}}image")]:
        data = image.attrib.pop(HREF)
        if data not in shared:
            size = {name: image.get(name, "0") for name in ("width", "height")}
            shared[data] = _element("image", **{"id": f"piece{len(shared)}", HREF: data, **size})
        image.tag = f"{{{SVG}}}use"
        corner = {name: image.get(name, "0") for name in ("x", "y")}
        image.attrib.clear()
        image.attrib.update({**corner, HREF: f"#{shared[data].get('id')}"})
    return list(shared.values())


def _reuse_board(frames: Sequence[ElementTree.Element]) -> list[ElementTree.Element]:
    """Replaces the empty board, with which all frames begin, by references, and returns it once."""
    groups = [frame[-1] if len(frame) else frame for frame in frames]
    texts = [[ElementTree.tostring(part) for part in group] for group in groups]
    same = len(os.path.commonprefix(texts))
    if same < 2:
        return []
    empty = _element("g", id="empty")
    empty.extend(groups[0][:same])
    for group in groups:
        group[:same] = [_element("use", **{HREF: "#empty"})]
    return [empty]


def _style(count: int) -> str:
    """Makes each frame visible in its part of the loop. Without animation only the last frame is visible."""
    total = (count - 1) * FRAME_SECONDS + LAST_SECONDS
    parts = [
        ".caption{font:13px 'DejaVu Sans','Helvetica','Arial',sans-serif;fill:#222}"
        ".label{font:10px 'DejaVu Sans','Helvetica','Arial',sans-serif;fill:#666}"
    ]
    for number in range(count):
        begin = 100 * number * FRAME_SECONDS / total
        end = 100 * (number + 1) * FRAME_SECONDS / total
        steps = f"{begin:.4g}%{{visibility:visible}}"
        if number:
            steps = f"0%{{visibility:hidden}}{steps}"
        if number < count - 1:
            steps += f"{end:.4g}%{{visibility:hidden}}100%{{visibility:hidden}}"
        else:
            steps += "100%{visibility:visible}"
        parts.append(
            f"@keyframes k{number}{{{steps}}}#frame{number}{{animation:k{number} {total:g}s step-end infinite}}"
        )
    parts.append("@media (prefers-reduced-motion:reduce){.frame{animation:none!important}}")
    return "".join(parts)
