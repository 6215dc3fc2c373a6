"""Prints what has changed since the last time each benchmark ran.

python -m benchmarks.compare [--history runs/bench/history.jsonl]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.timing import HISTORY


def entries(history: Path) -> dict[str, list[dict[str, Any]]]:
    """The history by benchmark, oldest first; a line that was cut off is left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in history.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        found.setdefault(entry["benchmark"], []).append(entry)
    return found


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line per figure: then, now, and by how much; those that are new or gone say so."""
    then = {figure["name"]: figure for figure in before["figures"]}
    lines = []
    for figure in now["figures"]:
        name, unit = figure["name"], figure["unit"]
        old = then.pop(name, None)
        if old is None:
            lines.append(f"  {name:<64} {'':>10}    {figure['value']:10.4g} {unit}  new")
            continue
        change = figure["value"] / old["value"] - 1.0 if old["value"] else float("nan")
        apart = _apart(old, figure)
        lines.append(f"  {name:<64} {old['value']:10.4g} -> {figure['value']:10.4g} {unit}  {change:+.1%}{apart}")
    return lines + [f"  {name:<64} is no longer measured" for name in then]


def _apart(old: dict[str, Any], new: dict[str, Any]) -> str:
    if old["low"] is None or new["low"] is None:
        return ""
    return ", intervals apart" if old["high"] < new["low"] or new["high"] < old["low"] else ", within the intervals"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--history", type=Path, default=HISTORY)
    history = parser.parse_args().history
    if not history.exists():
        raise SystemExit(f"there is no history in {history} yet: run `make bench` first")
    for benchmark, runs in entries(history).items():
        now = runs[-1]
        if len(runs) == 1:
            print(f"{benchmark}: measured once, on {now['date']} at {now['commit']}")
            continue
        before = runs[-2]
        print(f"{benchmark}: {before['commit']} ({before['date']}) -> {now['commit']} ({now['date']})")
        print("\n".join(changes(before, now)))


if __name__ == "__main__":
    main()
