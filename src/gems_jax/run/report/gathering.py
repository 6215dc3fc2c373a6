"""What there is to report: the newest finished folder of every experiment, and the figures of every benchmark."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gems_jax.run.console import short_number
from gems_jax.run.experiment import load_summary
from gems_jax.run.report.stated import read_stated
from gems_jax.run.statistics import Interval

SIZES = ("quick", "some arms", "full size")  # from the least to the most
BENCHMARKS = "bench"  # the folder of the benchmarks' history, and the name of their numbers in docs/results


@dataclasses.dataclass(frozen=True)
class Source:
    """A finished experiment or study. folder: where it is, or None for numbers that are only stated in the docs."""

    name: str
    summary: Mapping[str, Any]
    folder: Path | None = None

    @property
    def size(self) -> str:
        """One of SIZES, by the command that it was run with."""
        flags = shlex.split(self.summary.get("command") or "")
        if "--quick" in flags:
            return SIZES[0]
        if "--arms" in flags:
            return SIZES[1]
        return SIZES[2]

    @property
    def is_quick(self) -> bool:
        return self.size == SIZES[0]

    @property
    def day(self) -> str:
        """When it was finished, to the minute."""
        return str(self.summary.get("finished", ""))[:16].replace("T", " ")

    @property
    def command(self) -> str:
        return self.summary.get("command") or command_of(self.name)

    @property
    def arms(self) -> list[str]:
        return list(self.summary.get("arms") or {})

    @property
    def rank(self) -> tuple[int, int, str, bool]:
        """Larger is better: the size, then the seeds, then the time; a folder before the same numbers in the docs."""
        seeds = max((self.seeds(arm) for arm in self.arms), default=0)
        return SIZES.index(self.size), seeds, str(self.summary.get("finished", "")), self.folder is not None

    def last(self, arm: str) -> int:
        """The last iteration of an arm that numbers were written of."""
        return max((row["iteration"] for row in self._rows(arm)), default=0)

    def marks(self, arm: str, column: str) -> list[int]:
        return sorted(row["iteration"] for row in self._rows(arm) if row["column"] == column)

    def at(self, arm: str, column: str, iteration: int | None = None) -> Interval | None:
        """Mean and interval at an iteration, the last by default. Of one seed it is that of the measured episodes."""
        found = [row for row in self._rows(arm) if row["column"] == column]
        if iteration is not None:
            found = [row for row in found if row["iteration"] == iteration]
        if not found:
            return None
        row = max(found, key=lambda row: row["iteration"])
        mean, low, high = (_number(row.get(name)) for name in ("mean", "low", "high"))
        if math.isnan(low):
            margin = [
                _number(other["mean"])
                for other in self._rows(arm)
                if other["column"] == f"{column}_interval" and other["iteration"] == row["iteration"]
            ]
            if margin and row.get("seeds") == 1:
                low, high = mean - margin[0], mean + margin[0]
        return Interval(mean, low, high)

    def seeds(self, arm: str) -> int:
        return max((int(row.get("seeds") or 1) for row in self._rows(arm)), default=1)

    def budget(self, arm: str) -> str:
        """`40 iterations, 5 seeds, 1.03M env steps per seed`."""
        last, seeds = self.last(arm), self.seeds(arm)
        parts = [f"{last} iteration{'s' * (last != 1)}", f"{seeds} seed{'s' * (seeds != 1)}"]
        steps = self.at(arm, "total_env_steps")
        if steps is not None and steps.mean > 0:
            parts.append(f"{short_number(steps.mean)} env steps per seed")
        return ", ".join(parts)

    def _rows(self, arm: str) -> list[Mapping[str, Any]]:
        return [row for row in self.summary.get("numbers", ()) if row.get("arm") == arm and "column" in row]


@dataclasses.dataclass(frozen=True)
class Sources:
    """All that a report is written from."""

    experiments: Mapping[str, Source]  # the best there is of each
    benchmarks: Mapping[str, Mapping[str, Any]]  # by their names, the newest entry of each
    folders: Mapping[str, Source] = dataclasses.field(default_factory=dict)  # the best folder of each


def gather(root: Path | str, stated: Path | str | None = None) -> Sources:
    """The best folder of every experiment below `root`, a full-size one before a quick one and then the newest.

    stated: docs/results, for experiments that are full-size there and not here, or not here at all.
    """
    root, here = Path(root), []
    for path in sorted(root.glob("*/*/summary.json")):
        summary = _readable_summary(path.parent)
        if summary:
            here.append(Source(summary["name"], summary, path.parent))
    documents = read_stated(Path(stated)) if stated is not None else {}
    benchmarks = {entry["benchmark"]: entry for entry in documents.pop(BENCHMARKS, {}).get("entries", ())}
    there = [Source(name, summary) for name, summary in documents.items()]
    benchmarks.update(read_history(root / BENCHMARKS / "history.jsonl"))
    return Sources(_best([*here, *there]), benchmarks, _best(here))


def _best(found: Sequence[Source]) -> dict[str, Source]:
    """One of each name, by rank."""
    best = {source.name: source for source in sorted(found, key=lambda source: source.rank)}
    return dict(sorted(best.items()))


def read_history(path: Path) -> dict[str, dict[str, Any]]:
    """The newest entry of every benchmark that wrote to the history; of growth the one that went furthest."""
    if not path.exists():
        return {}
    entries: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        before = entries.get(entry["benchmark"])
        if before is None or len(entry["figures"]) >= len(before["figures"]):
            entries[entry["benchmark"]] = entry
    return entries


def command_of(name: str) -> str:
    """How to run an experiment, or the benchmarks."""
    return "make bench" if name == BENCHMARKS else f"python -m experiments.run {name}"


def _readable_summary(folder: Path) -> dict[str, Any] | None:
    """Without what is not an experiment's: other commands leave folders below runs/, too."""
    try:
        summary = load_summary(folder)
    except (ValueError, OSError):
        return None
    return summary if isinstance(summary, dict) and {"name", "table", "numbers"} <= set(summary) else None


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
