"""Building blocks of the report: pure functions from data to HTML text. Text is escaped here and nowhere else."""

from __future__ import annotations

import base64
import html
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from gems_jax.viz.tables import TextTable

WIDE = 1000  # pixels: a figure of several panels
KINDS = {".png": "image/png", ".gif": "image/gif", ".svg": "image/svg+xml", ".csv": "text/csv", ".json": "text/plain"}


def escape(text: object) -> str:
    return html.escape(str(text), quote=True)


def words(text: object) -> str:
    """Escapes a text and renders `code` in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def element(name: str, inner: str = "", **attributes: str) -> str:
    """Renders <name attribute="...">inner</name>; attributes are escaped, `inner` is HTML, `class_` is class."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{told}>{inner}</{name}>"


def paragraphs(lines: Iterable[str], class_: str = "") -> str:
    return "".join(element("p", words(line), **({"class_": class_} if class_ else {})) for line in lines)


def bullets(lines: Sequence[str]) -> str:
    return element("ul", "".join(element("li", words(line)) for line in lines)) if lines else ""


def folded(title: str, inner: str, open_: bool = False) -> str:
    """Renders a text that unfolds below its title."""
    start = "<details open>" if open_ else "<details>"
    return f"{start}{element('summary', words(title))}{inner}</details>"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Renders names with their texts."""
    inner = "".join(element("dt", escape(name)) + element("dd", words(text)) for name, text in rows)
    return element("dl", inner)


def table(data: TextTable) -> str:
    """Renders a table that scrolls if it is too wide; the first column is aligned left, the others right."""
    head = "".join(element("th", escape(cell), scope="col") for cell in data.header)
    body = []
    for place, cells in enumerate(data.rows):
        if cells[0].strip() and not any(cell.strip() for cell in cells[1:]) and len(cells) > 1:
            row = f'<th scope="rowgroup" colspan="{len(cells)}">{escape(cells[0])}</th>'
        else:
            first, *rest = cells
            row = element("th", escape(first.strip()), scope="row") + "".join(element("td", escape(c)) for c in rest)
        body.append(element("tr", row, **({"class_": "end"} if place in data.sections else {})))
    whole = element("table", element("thead", element("tr", head)) + element("tbody", "".join(body)))
    caption = paragraphs([data.caption], "caption") if data.caption else ""
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label="table") + caption


def data_uri(path: Path) -> str:
    """Encodes a file as a data URI."""
    return f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def picture(path: Path, alt: str, caption: str) -> str:
    """Renders a figure on a white card with its alternative text. A wide one has the full width of the page."""
    width, height = _size(path)
    size = f' width="{width}" height="{height}"' if width and height else ""  # keeps its place until it is loaded
    image = f'<img src="{data_uri(path)}" alt="{escape(alt)}"{size} loading="lazy">'
    inner = element("div", image, class_="card", tabindex="0") + element("figcaption", words(caption))
    is_wide = path.suffix == ".png" and (width > 1.7 * height or width > WIDE)
    return element("figure", inner, **({"class_": "wide"} if is_wide else {}))


def _size(path: Path) -> tuple[int, int]:
    """Reads width and height in pixels from the first bytes of a PNG or GIF; zeros for other files."""
    head = path.read_bytes()[:24]
    if path.suffix == ".png" and len(head) == 24:
        return struct.unpack(">II", head[16:])  # behind the name of the first chunk
    if path.suffix == ".gif" and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    return 0, 0


def download(path: Path, name: str) -> str:
    return element("a", escape(name), href=data_uri(path), download=name)
