"""A game of pgx as one animated SVG: pgx's own drawings of the positions, with a line of words below each.

pgx's animation alone is blank where CSS animations are not played (file managers, editors, a printed page), says
nothing of who moved, and rushes past the final position. This one stands still on the final position there, names
every move with its probability, and holds the result for a while.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax

from gems_jax.viz.board_pictures import Board, Field

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
FRAME_SECONDS = 1.0
LAST_SECONDS = 3.0
MARGIN = 8.0
LINE_HEIGHT = 18.0
LETTER_WIDTH = 7.4  # of the caption's font at 13 px, generously


def can_draw(position: Any) -> bool:
    """Whether pgx has an animation of this position (of a pgx state) that says more than words do."""
    name = str(getattr(position, "env_id", ""))
    # pgx draws both hands of its poker games, but neither seats nor bets: their transcripts say more.
    return bool(name) and not name.startswith("minatar") and name not in ("kuhn_poker", "leduc_holdem")


def animation(
    positions: Sequence[Any],
    captions: Sequence[Sequence[str]],
    board: Board | None = None,
    moved: Sequence[Sequence[Field]] = (),
) -> str:
    """SVG text: one frame per pgx state with its lines of caption; the last frame stays longest.

    board, moved: how to mark the fields of the move that led to each position; without a board nothing is marked.
    """
    if len(positions) != len(captions) or not positions:
        raise ValueError(f"one caption per position: got {len(positions)} positions, {len(captions)} captions")
    drawn = _drawn_by_pgx(jax.device_get(list(positions)))  # field by field, from the device that takes a minute
    frames = [group for group in drawn.iter(f"{{{SVG}}}g") if group.get("class") == "frame"]
    lines = max(len(caption) for caption in captions)
    longest = max(len(line) for caption in captions for line in caption)
    drawing = float(drawn.get("width", "0")), float(drawn.get("height", "0"))
    width = max(drawing[0], longest * LETTER_WIDTH + 2 * MARGIN)
    height = drawing[1] + lines * LINE_HEIGHT + MARGIN
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    root = ElementTree.Element(f"{{{SVG}}}svg", {**size, "viewBox": f"0 0 {width:g} {height:g}"})
    ElementTree.SubElement(root, f"{{{SVG}}}style").text = _style(len(frames))
    ElementTree.SubElement(root, f"{{{SVG}}}rect", {**size, "fill": "white"})
    ElementTree.SubElement(root, f"{{{SVG}}}defs").extend([*_share_images(frames), *_share_board(frames)])
    middle = {"transform": f"translate({(width - drawing[0]) / 2:g},0)"}
    for number, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        hidden = {} if number == len(frames) - 1 else {"visibility": "hidden"}
        group = ElementTree.SubElement(root, f"{{{SVG}}}g", {"class": "frame", "id": f"frame{number}", **hidden})
        for name in ("class", "id"):
            del frame.attrib[name]
        shifted = ElementTree.SubElement(group, f"{{{SVG}}}g", middle)
        shifted.append(frame)
        if board is not None:
            shifted.extend(board.marks(moved[number]))
        for row, line in enumerate(caption):
            place = {"x": f"{width / 2:g}", "y": f"{drawing[1] + (row + 0.7) * LINE_HEIGHT:g}", "text-anchor": "middle"}
            ElementTree.SubElement(group, f"{{{SVG}}}text", {"class": "caption", **place}).text = line
    if board is not None:
        ElementTree.SubElement(root, f"{{{SVG}}}g", middle).extend(board.labels())
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _drawn_by_pgx(positions: Sequence[Any]) -> ElementTree.Element:
    from pgx import save_svg_animation

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgx's drawings index with jax scalars
        path = Path(folder) / "game.svg"
        save_svg_animation(list(positions), path)
        return ElementTree.parse(path).getroot()


def _share_images(frames: Sequence[ElementTree.Element]) -> list[ElementTree.Element]:
    """Take the pictures of pieces, which pgx repeats in full, out of the frames; returns each once, to be referred to.

    With the empty board, which is shared as well, a game of chess shrinks from ten megabytes to one.
    """
    shared: dict[str, ElementTree.Element] = {}
    for frame in frames:
        for image in frame.iter(f"{{{SVG}}}image"):
            data = image.attrib.pop(HREF)
            if data not in shared:
                attributes = {"id": f"piece{len(shared)}", HREF: data}
                attributes |= {name: image.get(name, "0") for name in ("width", "height")}
                shared[data] = ElementTree.Element(f"{{{SVG}}}image", attributes)
            image.tag = f"{{{SVG}}}use"
            place = {name: image.get(name, "0") for name in ("x", "y")}
            image.attrib.clear()
            image.attrib.update({**place, HREF: f"#{shared[data].get('id')}"})
    return list(shared.values())


def _share_board(frames: Sequence[ElementTree.Element]) -> list[ElementTree.Element]:
    """The same for what all frames begin with: the empty board."""
    groups = [frame[-1] if len(frame) else frame for frame in frames]
    texts = [[ElementTree.tostring(part) for part in group] for group in groups]
    same = 0
    while all(len(parts) > same and parts[same] == texts[0][same] for parts in texts):
        same += 1
    if same < 2:
        return []
    empty = ElementTree.Element(f"{{{SVG}}}g", {"id": "empty"})
    empty.extend(groups[0][:same])
    for group in groups:
        group[:same] = [ElementTree.Element(f"{{{SVG}}}use", {HREF: "#empty"})]
    return [empty]


def _style(count: int) -> str:
    """Each frame is visible in its own part of the loop. Without animation the attributes decide: the last one is."""
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
