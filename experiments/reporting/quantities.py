"""Quantities that claims refer to: columns of experiments, rows of studies, benchmarks, pictures.

Each is found as a list, because a pattern such as `psro *` may match several arms. No match raises
`Missing`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from experiments.reporting.gathering import BENCHMARKS, Source, Sources
from gems_jax.evaluate.statistics import Interval, mean_interval, normal_half_width, student_factor
from gems_jax.runner.labels import column_label

CARRIED = ("parameter_bytes", "payoff_bytes", "meta_bytes")  # all that a seed carries from iteration to iteration


class Missing(Exception):
    """Raised for a number that was not measured; `experiment` measures it."""

    def __init__(self, experiment: str, why: str):
        super().__init__(why)
        self.experiment = experiment


class Found(NamedTuple):
    """A number with its interval and source."""

    label: str
    interval: Interval
    seeds: int
    experiment: str
    source: Source | None  # None: a benchmark's
    budget: str = ""
    arm: str = ""

    @property
    def mean(self) -> float:
        return self.interval.mean

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.interval.low) or math.isnan(self.interval.high))

    @property
    def standard_error(self) -> tuple[float, float]:
        """Standard error and degrees of freedom, from the 95 % interval; NaN if there is none."""
        if not self.has_interval:
            return math.nan, 1.0
        freedom = self.seeds - 1 if self.seeds > 1 else math.inf  # with one seed the interval is over many episodes
        factor = student_factor(freedom)
        return self.interval.half_width / float(factor), freedom


class Quantity(Protocol):
    def find(self, sources: Sources) -> list[Found]: ...

    @property
    def columns(self) -> tuple[str, ...]: ...


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of an experiment's arms at an iteration, by default the last. Several columns are summed."""

    experiment: str
    arm: str | tuple[str, ...]  # or patterns
    column: str | tuple[str, ...]
    at: int | None = None
    iterations: int = 0  # at least so many must have been run

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,) if isinstance(self.column, str) else self.column

    @property
    def words(self) -> str:
        return "carried bytes" if self.columns == CARRIED else " + ".join(map(column_label, self.columns))

    def find(self, sources: Sources) -> list[Found]:
        source = source_of(sources, self.experiment)
        wanted = (self.arm,) if isinstance(self.arm, str) else self.arm
        arms = [arm for arm in source.arms if any(fnmatchcase(arm, pattern) for pattern in wanted)]
        if not arms:
            raise Missing(self.experiment, f"no arm {' or '.join(wanted)} in what was run of {self.experiment}")
        found = [self._of(source, arm) for arm in arms]
        there = [one for one in found if one is not None]
        if not there:
            short = max(source.last(arm) for arm in arms) < self.iterations
            why = f"fewer than {self.iterations} iterations" if short else f"no column {', '.join(self.columns)}"
            raise Missing(self.experiment, f"{why} in what was run of {self.experiment}")
        return there

    def _of(self, source: Source, arm: str) -> Found | None:
        if source.last(arm) < self.iterations:
            return None
        parts = [source.measured(arm, column, self.at) for column in self.columns]
        known = [part for part in parts if part is not None]
        if not known:
            return None
        whole, seeds = known[0]
        if len(self.columns) > 1:
            whole, seeds = Interval(sum(part.mean for part, _ in known), math.nan, math.nan), source.seeds(arm)
        label = arm if self.at is None else f"{arm} at iteration {self.at}"
        return Found(label, whole, seeds, self.experiment, source, source.budget(arm), arm)


@dataclasses.dataclass(frozen=True)
class Row:
    """A field of the rows of a study that match `where`; a tuple there matches any of its values."""

    experiment: str
    field: str
    where: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = "{}"  # of a row, with its fields
    error: str = ""  # the field with the standard error
    deviation: str = ""  # or that with the deviation of one of the row's `runs`
    missing: float = math.nan  # value of a word instead of a number

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def find(self, sources: Sources) -> list[Found]:
        source, found = source_of(sources, self.experiment), []
        for row in source.summary["numbers"]:
            if self.field in row and all(_among(row.get(name), wanted) for name, wanted in self.where.items()):
                value = row[self.field]
                mean = self.missing if isinstance(value, str) else float(value)
                half = normal_half_width(self._error(row))
                found.append(
                    Found(
                        self.label.format(**row), Interval(mean, mean - half, mean + half), 1, self.experiment, source
                    )
                )
        if not found:
            raise Missing(
                self.experiment, f"no {self.field} for {dict(self.where)} in what was run of {self.experiment}"
            )
        return found

    def _error(self, row: Mapping[str, Any]) -> float:
        if self.deviation in row:
            return float(row[self.deviation]) / math.sqrt(row["runs"])
        return float(row[self.error]) if self.error in row else math.nan


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a benchmark, the newest in its history."""

    benchmark: str
    figure: str

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def find(self, sources: Sources) -> list[Found]:
        entry = sources.benchmarks.get(self.benchmark)
        for one in (entry or {}).get("figures", ()):
            if one["name"] == self.figure:
                low, high = (math.nan if one[end] is None else one[end] for end in ("low", "high"))
                when = f"benchmark, {entry['machine']['devices']}" if entry else ""
                label = f"{self.figure}, {one['unit']}:" if one.get("unit") else self.figure
                return [Found(label, Interval(one["value"], low, high), 1, BENCHMARKS, None, when)]
        raise Missing(BENCHMARKS, f"no figure {self.figure!r} of the benchmark {self.benchmark!r}")


@dataclasses.dataclass(frozen=True)
class Picture:
    """Numbers of a picture whose names contain all `words` and end in the last one; the mean over seeds.

    The first word begins with the arm's label and a dot.
    """

    experiment: str
    picture: str
    words: tuple[str, ...]
    label: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    def find(self, sources: Sources) -> list[Found]:
        source = source_of(sources, self.experiment)
        drawn = (source.summary.get("pictures") or {}).get(self.picture) or {}
        values = [
            value
            for name, value in flat(drawn.get("numbers") or {})
            if all(word in name for word in self.words) and name.endswith(self.words[-1]) and math.isfinite(value)
        ]
        if not values:
            why = drawn.get("failed") or f"no numbers about {' '.join(self.words)}"
            raise Missing(self.experiment, f"{why} in the picture {self.picture} of {self.experiment}")
        label = self.label or " ".join(self.words)
        seeds = len(values)
        size = f"{seeds} seed{'s' * (seeds != 1)}"
        arm, found = self.words[0].split(".")[0], mean_interval(values)
        return [Found(label, found, seeds, self.experiment, source, size, arm if arm in source.arms else "")]


def source_of(sources: Sources, experiment: str) -> Source:
    if experiment not in sources.experiments:
        raise Missing(experiment, f"{experiment} was not run")
    return sources.experiments[experiment]


def flat(numbers: Any, prefix: str = "") -> list[tuple[str, float]]:
    """Lists (dotted name, number) of all numbers in nested dicts and lists."""
    if isinstance(numbers, Mapping):
        return [pair for name, value in numbers.items() for pair in flat(value, f"{prefix}.{name}" if prefix else name)]
    if isinstance(numbers, Sequence) and not isinstance(numbers, str):
        return [pair for index, value in enumerate(numbers) for pair in flat(value, f"{prefix}.{index}")]
    try:
        return [] if numbers is None else [(prefix, float(numbers))]
    except ValueError:
        return []


def _among(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else value == wanted
