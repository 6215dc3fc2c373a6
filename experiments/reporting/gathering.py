"""Sources of a report: the best finished folder of every experiment, and the figures of every benchmark."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.harness.experiment import load_summary
from experiments.reporting.stated import read_stated
from gems_jax.evaluate.statistics import LEAST_SEEDS, Interval
from gems_jax.runner.console import format_number

SIZES = ("quick", "reduced", "some arms", "full size")  # from smallest to largest
BENCHMARKS = "bench"  # folder of the benchmarks' history, and name of their file in docs/results


@dataclasses.dataclass(frozen=True)
class Size:
    """Full size of an experiment according to its spec, by the labels of its arms."""

    iterations: Mapping[str, int]
    seeds: int
    settings: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)  # of the config, flat


@dataclasses.dataclass(frozen=True)
class Source:
    """A finished experiment or study.

    folder: its folder, or None for numbers from docs/results. full: the full size according to its spec; if None, the
    size is read from the command alone.
    """

    name: str
    summary: Mapping[str, Any]
    folder: Path | None = None
    full: Size | None = None

    @property
    def flags(self) -> list[str]:
        return shlex.split(self.summary.get("command") or "")

    @property
    def size(self) -> str:
        """One of SIZES, from the command and from a comparison of the results with the spec."""
        if "--quick" in self.flags:
            return "quick"
        if self.shortfalls():
            return "reduced"
        lacking = self.full is not None and set(self.full.iterations) - set(self.arms)
        return "some arms" if "--arms" in self.flags or lacking else "full size"

    @property
    def is_reduced(self) -> bool:
        return self.size in ("quick", "reduced")

    def shortfalls(self, arm: str = "") -> list[str]:
        """Lists how an arm, or any arm, falls short of its spec, such as `25 of 1,000 iterations`."""
        quick = ["the quick version"] * ("--quick" in self.flags)
        if self.full is None:
            return quick + [f"run with {flag}" for flag in ("--iterations", "--seeds") if flag in self.flags]
        found: dict[str, None] = {}
        for one in [arm] if arm else self.arms:
            wanted = self.full.iterations.get(one, 0)
            if self.last(one) < wanted:
                found[f"{self.last(one):,} of {wanted:,} iterations"] = None
            if self.seeds(one) < self.full.seeds:
                found[f"{self.seeds(one)} of {self.full.seeds} seeds"] = None
            has, states = self.settings(one), self.full.settings.get(one, {})
            other = [name for name, value in states.items() if name in has and has[name] != value]
            if other:
                found[f"other settings than the spec's ({', '.join(sorted(other))})"] = None
        return quick + list(found)

    def settings(self, arm: str) -> dict[str, Any]:
        """Returns the recorded settings of the arm, flat."""
        return flat_settings((self.summary.get("arms") or {}).get(arm, {}).get("config"))

    @property
    def day(self) -> str:
        """Time at which it was finished, to the minute."""
        return str(self.summary.get("finished", ""))[:16].replace("T", " ")

    @property
    def command(self) -> str:
        return self.summary.get("command") or command_of(self.name)

    @property
    def arms(self) -> list[str]:
        return list(self.summary.get("arms") or {})

    @property
    def rank(self) -> tuple[int, int, str, bool]:
        """Sort key, larger is better: size, seeds, time; a folder wins over the same numbers in docs/results."""
        seeds = max((self.seeds(arm) for arm in self.arms), default=0)
        return SIZES.index(self.size), seeds, str(self.summary.get("finished", "")), self.folder is not None

    def last(self, arm: str) -> int:
        """Returns the last iteration of an arm with recorded numbers."""
        return max((row["iteration"] for row in self._rows(arm)), default=0)

    def marks(self, arm: str, column: str) -> list[int]:
        return sorted(row["iteration"] for row in self._rows(arm) if row["column"] == column)

    def at(self, arm: str, column: str, iteration: int | None = None) -> Interval | None:
        """Returns mean and interval at an iteration, by default the last."""
        found = self.measured(arm, column, iteration)
        return None if found is None else found[0]

    def measured(self, arm: str, column: str, iteration: int | None = None) -> tuple[Interval, int] | None:
        """Returns mean and interval, and the number of seeds, at an iteration, by default the last.

        With one seed, or if all seeds have the same number, as in random play, the interval is that of the measured
        episodes. Two seeds have no interval.
        """
        found = [row for row in self._rows(arm) if row["column"] == column]
        if iteration is not None:
            found = [row for row in found if row["iteration"] == iteration]
        if not found:
            return None
        row = max(found, key=lambda row: row["iteration"])
        mean, low, high = (_number(row.get(name)) for name in ("mean", "low", "high"))
        seeds = int(row.get("seeds") or 1)
        if seeds == 1 or low == high:
            margin = [
                _number(other["mean"])
                for other in self._rows(arm)
                if other["column"] == f"{column}_interval" and other["iteration"] == row["iteration"]
            ]
            if margin:
                return Interval(mean, mean - margin[0], mean + margin[0]), 1
        if 1 < seeds < LEAST_SEEDS:
            low = high = math.nan
        return Interval(mean, low, high), seeds

    def seeds(self, arm: str) -> int:
        return max((int(row.get("seeds") or 1) for row in self._rows(arm)), default=1)

    def budget(self, arm: str) -> str:
        """Describes the size of an arm: `40 iterations, 5 seeds, 1.03M env steps per seed`."""
        last, seeds = self.last(arm), self.seeds(arm)
        parts = [f"{last} iteration{'s' * (last != 1)}", f"{seeds} seed{'s' * (seeds != 1)}"]
        steps = self.at(arm, "total_env_steps")
        if steps is not None and steps.mean > 0:
            parts.append(f"{format_number(steps.mean)} env steps per seed")
        return ", ".join(parts)

    def _rows(self, arm: str) -> list[Mapping[str, Any]]:
        return [row for row in self.summary.get("numbers", ()) if row.get("arm") == arm and "column" in row]


@dataclasses.dataclass(frozen=True)
class Sources:
    """All sources of a report."""

    experiments: Mapping[str, Source]  # the best source of each
    benchmarks: Mapping[str, Mapping[str, Any]]  # by their names, the newest entry of each
    folders: Mapping[str, Source] = dataclasses.field(default_factory=dict)  # the best folder of each


def gather(
    root: Path | str | None,
    stated: Path | str | None = None,
    size_of: Callable[[Mapping[str, Any]], Size | None] = lambda summary: None,
) -> Sources:
    """Finds the best folder of every experiment below `root`: full size before reduced, then the newest.

    Args:
        root: runs/; None for docs/results alone.
        stated: docs/results, for experiments that are not below `root`, or are only reduced there.
        size_of: maps a summary to the full size of its experiment, or None.
    """
    here, history = [], {}
    if root is not None:
        for path in sorted(Path(root).glob("*/*/summary.json")):
            summary = _readable_summary(path.parent)
            if summary:
                here.append(Source(summary["name"], summary, path.parent, size_of(summary)))
        history = read_history(Path(root) / BENCHMARKS / "history.jsonl")
    documents = read_stated(Path(stated)) if stated is not None else {}
    benchmarks = {entry["benchmark"]: entry for entry in documents.pop(BENCHMARKS, {}).get("entries", ())}
    there = [Source(name, summary, None, size_of(summary)) for name, summary in documents.items()]
    return Sources(_best([*here, *there]), {**benchmarks, **history}, _best(here))


def _best(found: Sequence[Source]) -> dict[str, Source]:
    """Selects the source of highest rank of every name."""
    best = {source.name: source for source in sorted(found, key=lambda source: source.rank)}
    return dict(sorted(best.items()))


def read_history(path: Path) -> dict[str, dict[str, Any]]:
    """Reads the newest entry of every benchmark, or an older one if it has more figures."""
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
    """Returns the command that runs an experiment, or the benchmarks."""
    return "make bench" if name == BENCHMARKS else f"python -m experiments.run {name}"


def _readable_summary(folder: Path) -> dict[str, Any] | None:
    """Reads summary.json; None for folders of other commands below runs/."""
    try:
        summary = load_summary(folder)
    except (ValueError, OSError):
        return None
    return summary if isinstance(summary, dict) and {"name", "table", "numbers"} <= set(summary) else None


def flat_settings(config: Any, prefix: str = "") -> dict[str, Any]:
    """Flattens nested settings to dotted names."""
    if isinstance(config, Mapping):
        parts = [flat_settings(value, f"{prefix}.{name}" if prefix else str(name)) for name, value in config.items()]
        return {name: value for part in parts for name, value in part.items()}
    return {} if config is None and not prefix else {prefix: config}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
