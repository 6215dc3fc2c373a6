"""Summary of an experiment: numbers at a few iterations with their intervals, as a table, CSV and JSON.

All numbers come from the logged rows; an arm without a column has an empty cell. Numbers of games that are measured by
episodes are reported at the last measured iteration up to the reported one, and named by it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gems_jax.evaluate.statistics import Interval, describe_mean, format_mean, mean_interval
from gems_jax.runner.console import format_number, measured_before
from gems_jax.runner.engine import Rows
from gems_jax.runner.labels import column_label
from gems_jax.viz.tables import TextTable


@dataclasses.dataclass(frozen=True)
class ArmResult:
    """Result of one arm."""

    label: str
    rows: Rows  # {column: [seeds, iterations]}
    compile_seconds: float
    profile: str = "iterate"  # the profile that the method is judged by (`solvers.REPORTED_PROFILE`)

    def judged_by(self, metric: str) -> str:
        """Names the column of `metric` for the profile that the method puts forward."""
        average = f"{metric}_average"
        return average if self.profile == "average" and average in self.rows else metric

    def rows_put_forward(self, metric: str) -> Rows:
        """Returns the rows with `metric` replaced by that of the profile that the method puts forward, for figures."""
        return {**self.rows, metric: self.rows[self.judged_by(metric)]} if metric in self.rows else self.rows

    @property
    def seeds(self) -> int:
        return len(self.rows["iteration"])

    @property
    def iterations(self) -> int:
        return self.rows["iteration"].shape[1]

    def at(self, column: str, iteration: int) -> Interval | None:
        """Computes mean and 95 % interval over seeds; None if the arm has no such number or did not measure it then.

        With one seed the interval is that of the measured episodes, if there is one.
        """
        values = self.rows[column][:, iteration - 1] if column in self.rows and iteration <= self.iterations else np.nan
        if np.isnan(values).all():
            return None
        found = mean_interval(values)
        margin = self.rows.get(f"{column}_interval")
        if margin is None or self.seeds > 1:
            return found
        half = float(margin[0, iteration - 1])
        return Interval(found.mean, found.mean - half, found.mean + half)

    def text(self, column: str, iteration: int, alone: bool = False) -> str:
        """Formats `at`, with its interval unless `alone`; both values of two seeds."""
        found = self.at(column, iteration)
        if found is None:
            return ""
        large = math.floor(math.log10(abs(found.mean))) if abs(found.mean) >= 100 else 0
        style = f".{max(4 - large, 0)}f"  # same digits for both: an interval below rounding is printed as zero
        if alone or (self.seeds == 1 and math.isnan(found.low)):
            return f"{found.mean:{style}}"
        if self.seeds == 1:
            return f"{found.mean:{style}} ± {found.half_width:{style}}"
        return format_mean(self.rows[column][:, iteration - 1], style, style)

    @property
    def sampled(self) -> bool:
        """Whether there is one seed, measured by episodes."""
        return self.seeds == 1 and any(column.endswith("_interval") for column in self.rows)


def marks(report: Sequence[int], iterations: int) -> tuple[int, ...]:
    """Lists the iterations to report: those of `report` that were reached, and the last."""
    return tuple(sorted({mark for mark in report if 1 <= mark <= iterations} | {iterations}))


def measured_marks(results: Sequence[ArmResult], column: str, report: Sequence[int]) -> tuple[int, ...]:
    """Lists the iterations to report of a column: the last measured ones up to those of `marks`, of any arm."""
    wanted = marks(report, max(result.iterations for result in results))
    found = {mark for result in results for mark in measured_before(result.rows, [column], wanted)}
    return tuple(sorted(found))


def comparison(results: Sequence[ArmResult], metrics: Sequence[str], report: Sequence[int]) -> TextTable:
    """Makes a table with one column per arm: metrics at the reported iterations, then costs."""
    last = max(result.iterations for result in results)
    body: list[tuple[str, ...]] = []
    sections = []
    for metric in metrics:
        for place, mark in enumerate(measured_marks(results, metric, report)):
            cells = [result.text(metric, mark) for result in results]
            body.append(("" if place else column_label(metric), str(mark), *cells))
        sections.append(len(body) - 1)
    for name, column in (("episodes per seed", "total_episodes"), ("env steps per seed", "total_env_steps")):
        cost = [result.at(column, result.iterations) for result in results]
        body.append((name, str(last), *(format_number(found.mean) if found else "" for found in cost)))
    seconds = [result.at("seconds", result.iterations) for result in results]
    body.append(("seconds, all seeds", str(last), *(f"{found.mean:.1f}" if found else "" for found in seconds)))
    body.append(("compile seconds", "", *(f"{result.compile_seconds:.1f}" for result in results)))
    seeds = sorted({result.seeds for result in results})
    interval = "; ± half of the 95 % interval of the measured episodes" * any(result.sampled for result in results)
    caption = f"{' or '.join(map(describe_mean, seeds))}{interval}; seconds exclude compilation"
    return TextTable(("", "iteration", *(result.label for result in results)), tuple(body), tuple(sections), caption)


_BYTES = ("parameter_bytes", "payoff_bytes", "meta_bytes")


def ranking(
    results: Sequence[ArmResult],
    metrics: Sequence[str],
    report: Sequence[int],
    groups: Sequence[tuple[str, Sequence[str]]],
    each: bool = False,
) -> TextTable:
    """Makes a table with one row per arm, best first within each group.

    Args:
      results: the arms.
      metrics: the first is shown at the reported iterations, the others at the last. Arms are ranked by the first, of
        the profile that their method puts forward; only this number has its interval, to fit a terminal.
      report: iterations to report.
      groups: (title, labels of arms).
      each: show the time of one iteration and seed, excluding compilation, for arms that share programs.
    """
    by_label = {result.label: result for result in results}
    headline, others = metrics[0], metrics[1:]
    shown = measured_marks(results, headline, report)
    header = [column_label(headline), "#", *(f"at {mark}" for mark in shown)]
    header += [
        column_label(metric).removeprefix(f"{column_label(headline)}, ").removeprefix("run ") for metric in others
    ]
    header += ["steps", "updates", "ms" if each else "s", "kB", "payoffs"]
    body: list[tuple[str, ...]] = []
    sections = []
    for title, members in groups:
        here = [by_label[label] for label in members if label in by_label]
        body.append((title, *[""] * (len(header) - 1)))
        ranked = sorted(here, key=lambda result: _mean(result, result.judged_by(headline)))
        for place, result in enumerate(ranked, 1):
            last, ranks_by = result.iterations, result.judged_by(headline)
            cells = [result.text(headline, mark, alone=mark != shown[-1] or ranks_by != headline) for mark in shown]
            cells += [result.text(metric, last, alone=metric != ranks_by) for metric in others]
            for column in ("env_steps", "gradient_steps"):
                cells.append(format_number(result.rows[column].mean()) if column in result.rows else "")
            seconds = _mean(result, "seconds")
            per = 1e3 * seconds / (result.seeds * result.iterations)
            cells.append(f"{per:.3g}" if each else f"{seconds:.0f}")
            held = [_mean(result, column) if column in result.rows else 0.0 for column in _BYTES]
            cells += [f"{sum(held) / 1e3:.1f}", f"{held[1] / 1e3:.1f}"]
            body.append((f"  {result.label}", str(place), *cells))
        sections.append(len(body) - 1)
    seeds = results[0].seeds
    interval = " of the profile that ranks an arm" * any(result.profile != "iterate" for result in results)
    time = "ms: time of one iteration and seed" if each else "s: seconds of all seeds"
    time += ", excluding compilation"
    caption = (
        f"{describe_mean(seeds)}{interval}; average: that of the run's average mixture; environment steps and "
        f"gradient updates per iteration; {time}; kB: memory that one seed carries between iterations, at the end; "
        "payoffs: the part of it in payoff tables"
    )
    return TextTable(tuple(header), tuple(body), tuple(sections), caption)


def _mean(result: ArmResult, column: str) -> float:
    """Averages over seeds at the last iteration."""
    found = result.at(column, result.iterations)
    return math.inf if found is None else found.mean


def records(results: Sequence[ArmResult], report: Sequence[int]) -> list[dict[str, Any]]:
    """Lists every logged column of every arm at the reported iterations, one record each."""
    found = []
    for result in results:
        for column in result.rows:
            if column == "iteration":
                continue
            for mark in measured_marks([result], column, report):
                interval = mean_interval(result.rows[column][:, mark - 1])
                found.append(_record(result, column, mark, interval))
        once = Interval(result.compile_seconds, math.nan, math.nan)
        found.append(_record(result, "compile_seconds", result.iterations, once))
    return found


def _record(result: ArmResult, column: str, iteration: int, interval: Interval) -> dict[str, Any]:
    numbers = {name: None if math.isnan(value) else value for name, value in interval._asdict().items()}
    return {"arm": result.label, "column": column, "iteration": iteration, **numbers, "seeds": result.seeds}
