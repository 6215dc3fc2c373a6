"""Assembly of a page: styles, scripts and data of `assets/` in one HTML text.

The page's Content-Security-Policy names the hashes of its scripts and forbids everything else, so that no text of a
file can become a script and no page can load anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gems_jax.runner.errors import report_write_errors
from gems_jax.runner.files import replace_text

ASSETS = Path(__file__).resolve().parent / "assets"


def read_assets(names: Sequence[str]) -> str:
    """Reads files of `assets/` and joins their texts."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def to_json(data: Any) -> str:
    """Formats data as JSON that is safe inside a script element: NaN and infinities are null, `<` is escaped."""
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_page(title: str, body: str, styles: Sequence[str], scripts: Sequence[str], data: Any) -> str:
    """Makes the text of a page.

    Args:
      title: title of the document; escaped.
      body: name of the file of `assets/` with the content of the body.
      styles: names of style sheets of `assets/`.
      scripts: names of scripts of `assets/`, in the order in which they run.
      data: plain data that the scripts read from the element `data`.

    Returns:
      The HTML text.
    """
    script = f"\n{read_assets(scripts)}\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{read_assets(styles)}</style>\n</head>\n<body>\n"
        f"{read_assets([body])}\n"
        f'<script type="application/json" id="data">{to_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def write_page(path: Path | str, text: str) -> Path:
    """Writes a page and returns its path; its folder is created. Raises RunError if it cannot be written."""
    path = Path(path)
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    return path


def encode_numbers(raw: bytes) -> str:
    """Encodes bytes in base64."""
    return base64.b64encode(raw).decode("ascii")
