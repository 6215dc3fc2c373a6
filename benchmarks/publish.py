"""Stores the newest figures of every benchmark and writes them into the documents.

    python -m benchmarks.publish [--history runs/bench/history.jsonl] [--provisional]     store and write
    python -m benchmarks.publish --check                                                  fail where a document differs

`docs/results/bench.json` holds the newest entry of each benchmark, with its command, commit and machine. Documents have
blocks between `<!-- bench: NAME -->` and `<!-- /bench -->`, each made by a function of `benchmarks.tables` from that
file alone. `--provisional` marks the new entries as measured beside other work, which the documents then say.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from benchmarks.compare import entries
from benchmarks.tables import BLOCKS, Entries
from benchmarks.timing import HISTORY

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "docs" / "results" / "bench.json"
DOCUMENTS = (ROOT / "docs" / "speed.md", ROOT / "docs" / "accelerators.md")
FIGURE = ROOT / "docs" / "figures" / "growth.png"
_BLOCK = re.compile(r"(<!-- bench: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- /bench -->)", re.DOTALL)


def read_store(path: Path = STORE) -> Entries:
    """Returns the stored entries by benchmark."""
    return {entry["benchmark"]: entry for entry in json.loads(path.read_text())["entries"]}


def store(history: Path, path: Path = STORE, provisional: bool = False) -> list[str]:
    """Replaces the stored entries of every benchmark that the history holds by the newest ones. -> their names."""
    kept: dict[str, dict[str, Any]] = dict(read_store(path)) if path.exists() else {}
    newest = {name: dict(runs[-1]) for name, runs in entries(history).items()}
    for entry in newest.values():
        if provisional:
            entry["provisional"] = True
    kept |= newest
    record = {"name": "bench", "entries": [kept[name] for name in sorted(kept)]}
    path.write_text(json.dumps(record, indent=1) + "\n")
    return sorted(newest)


def render(text: str, stored: Entries) -> str:
    """Returns a document with all of its blocks made anew. Raises KeyError for a block that nobody makes."""

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in BLOCKS:
            raise KeyError(f"unknown block {name!r}: expected one of {', '.join(BLOCKS)}")
        return f"{found[1]}{BLOCKS[name](stored).strip()}\n{found[4]}"

    return _BLOCK.sub(block, text)


def without_blocks(text: str) -> str:
    """Returns what is typed by hand in a document."""
    return _BLOCK.sub("", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, default=HISTORY)
    parser.add_argument("--provisional", action="store_true", help="the new entries were measured beside other work")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.check:
        stored = read_store()
        stale = [path.name for path in DOCUMENTS if render(path.read_text(), stored) != path.read_text()]
        if stale:
            raise SystemExit(f"{', '.join(stale)}: not what {STORE.name} gives; run python -m benchmarks.publish")
        return
    if options.history.exists():
        print("stored:", ", ".join(store(options.history, STORE, options.provisional)) or "nothing")
        picture = options.history.parent / FIGURE.name
        if picture.exists():
            shutil.copyfile(picture, FIGURE)
    for path in DOCUMENTS:
        path.write_text(render(path.read_text(), read_store()))
        print("written:", path.name)


if __name__ == "__main__":
    main()
