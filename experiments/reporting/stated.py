"""Stated numbers: what docs/results.md says, for programs. One small file docs/results/<name>.json per experiment.

The files have the fields of summary.json that say what was run and what came out, less the columns that nobody reads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gems_jax.runner.files import replace_text

FIELDS = (
    "name", "title", "convention", "command", "commit", "dirty", "created", "finished", "processor", "cpus", "device",
    "python", "versions", "checks", "pictures",
)  # fmt: skip
COSTS = (
    "seconds", "total_seconds", "compile_seconds", "total_episodes", "total_env_steps", "parameter_bytes",
    "payoff_bytes", "meta_bytes", "memory_mb", "active_anchors",
)  # fmt: skip


def stated_numbers(summary: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """summary.json, smaller: of an experiment's numbers these columns and what they cost, of a study's all."""
    kept = {*columns, *COSTS}
    kept |= {f"{column}_interval" for column in kept}
    rows = [row for row in summary["numbers"] if "column" not in row or row["column"] in kept]
    arms = {
        label: {field: arm[field] for field in ("game", "method", "iterations", "config") if field in arm}
        for label, arm in (summary.get("arms") or {}).items()
    }
    return {**{field: summary[field] for field in FIELDS if field in summary}, "arms": arms, "numbers": rows}


def write_stated(folder: Path, record: Mapping[str, Any]) -> Path:
    """One arm and one number per line, numbers with six digits: small, and a change shows as such."""
    folder.mkdir(parents=True, exist_ok=True)
    head = json.dumps({name: value for name, value in record.items() if name not in ("arms", "numbers")}, indent=1)
    parts = [head[:-2]]
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
    """By the names of the experiments."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
