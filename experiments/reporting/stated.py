"""Published results as data: docs/results/<name>.json, one file per experiment.

A file holds the fields of summary.json that describe the run and its outcome, without the columns that no page and no
claim reads, and what its page docs/results/<name>.md prints: notes, tables and figures.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gems_jax.runner.files import replace_text

FIELDS = (
    "name", "title", "convention", "command", "commit", "dirty", "created", "finished", "processor", "cpus", "device",
    "python", "versions", "checks", "pictures", "table",
)  # fmt: skip
TABLES = ("table", "reasons")  # fields that hold a `TextTable`, or None
COSTS = (
    "seconds", "total_seconds", "compile_seconds", "total_episodes", "total_env_steps", "parameter_bytes",
    "payoff_bytes", "meta_bytes", "memory_mb", "active_anchors",
)  # fmt: skip


def stated_numbers(summary: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Reduces summary.json to what is published.

    Args:
      summary: the content of summary.json.
      columns: columns of an experiment to keep besides `COSTS`; a study keeps all of its numbers.

    Returns:
      The record for `write_stated`.
    """
    kept = {*columns, *COSTS}
    kept |= {f"{column}_interval" for column in kept}
    rows = [row for row in summary["numbers"] if "column" not in row or row["column"] in kept]
    arms = {
        label: {field: arm[field] for field in ("game", "method", "iterations", "config") if field in arm}
        for label, arm in (summary.get("arms") or {}).items()
    }
    return {**{field: summary[field] for field in FIELDS if field in summary}, "arms": arms, "numbers": rows}


def write_stated(folder: Path, record: Mapping[str, Any]) -> Path:
    """Writes one line per arm, number and table row, and six digits per number, so that diffs stay readable."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {name: value for name, value in record.items() if name not in ("arms", "numbers", *TABLES)}
    parts = [json.dumps(head, indent=1)[:-2]]
    parts += [f' "{name}": {_table_lines(record[name])}' for name in TABLES if name in record]
    if "arms" in record:
        arms = [f"{json.dumps(label)}: {json.dumps(arm)}" for label, arm in record["arms"].items()]
        parts.append(' "arms": {\n  ' + ",\n  ".join(arms) + "\n }")
    if "numbers" in record:
        rows = [json.dumps({name: _short(value) for name, value in row.items()}) for row in record["numbers"]]
        parts.append(' "numbers": [\n  ' + ",\n  ".join(rows) + "\n ]")
    path = folder / f"{record['name']}.json"
    replace_text(path, ",\n".join(parts) + "\n}\n")
    return path


def read_stated(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads all published records, by the name of their experiment."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def _table_lines(table: Mapping[str, Any] | None) -> str:
    """Formats a table as JSON with one line per row."""
    if table is None:
        return "null"
    rows = ",\n   ".join(json.dumps(row) for row in table["rows"])
    rest = [f'"{name}": {json.dumps(value)}' for name, value in table.items() if name != "rows"]
    return "{\n  " + ",\n  ".join(rest) + ',\n  "rows": [\n   ' + rows + "\n  ]\n }"


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
