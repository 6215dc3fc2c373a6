"""What an experiment's arms come to: numbers at a few iterations with their intervals, as a table, CSV and JSON.

Everything is read off the rows that the runs logged; an arm that lacks a column has an empty cell.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from gems_jax.evaluate.statistics import Interval, mean_interval
from gems_jax.runner.console import short_number
from gems_jax.runner.engine import Rows
from gems_jax.runner.labels import readable
from gems_jax.viz.tables import TextTable


@dataclasses.dataclass(frozen=True)
class ArmResult:
    """One finished arm. rows: {column: [seeds, iterations]}."""

    label: str
    rows: Rows
    compile_seconds: float
    profile: str = "iterate"  # of the two, the one that the method puts forward (`solvers.PUT_FORWARD`)

    def judged_by(self, metric: str) -> str:
        """The column of `metric` for the profile that the method puts forward."""
        average = f"{metric}_average"
        return average if self.profile == "average" and average in self.rows else metric

    def rows_put_forward(self, metric: str) -> Rows:
        """The rows with `metric` of the profile that the method puts forward, for figures."""
        return {**self.rows, metric: self.rows[self.judged_by(metric)]} if metric in self.rows else self.rows

    @property
    def seeds(self) -> int:
        return len(self.rows["iteration"])

    @property
    def iterations(self) -> int:
        return self.rows["iteration"].shape[1]

    def at(self, column: str, iteration: int) -> Interval | None:
        """Mean and 95 % interval over seeds; None where the arm has no such number.

        Of one seed the interval is that of the episodes it was measured by, where there is one.
        """
        if column not in self.rows or iteration > self.iterations:
            return None
        found = mean_interval(self.rows[column][:, iteration - 1])
        margin = self.rows.get(f"{column}_interval")
        if margin is None or self.seeds > 1:
            return found
        half = float(margin[0, iteration - 1])
        return Interval(found.mean, found.mean - half, found.mean + half)

    @property
    def sampled(self) -> bool:
        """One seed, measured by episodes."""
        return self.seeds == 1 and any(column.endswith("_interval") for column in self.rows)


def marks(report: Sequence[int], iterations: int) -> tuple[int, ...]:
    """The iterations to report: those of `report` that were reached, and the last."""
    return tuple(sorted({mark for mark in report if 1 <= mark <= iterations} | {iterations}))


def comparison(results: Sequence[ArmResult], metrics: Sequence[str], report: Sequence[int]) -> TextTable:
    """One column per arm: the metrics at the reported iterations, then what that cost."""
    last = max(result.iterations for result in results)
    body: list[tuple[str, ...]] = []
    sections = []
    for metric in metrics:
        for place, mark in enumerate(marks(report, last)):
            cells = [_interval_text(result.at(metric, mark)) for result in results]
            body.append(("" if place else readable(metric), str(mark), *cells))
        sections.append(len(body) - 1)
    for name, column in (("episodes per seed", "total_episodes"), ("env steps per seed", "total_env_steps")):
        cost = [result.at(column, result.iterations) for result in results]
        body.append((name, str(last), *(short_number(found.mean) if found else "" for found in cost)))
    seconds = [result.at("seconds", result.iterations) for result in results]
    body.append(("seconds, all seeds", str(last), *(f"{found.mean:.1f}" if found else "" for found in seconds)))
    body.append(("compile seconds", "", *(f"{result.compile_seconds:.1f}" for result in results)))
    seeds = sorted({result.seeds for result in results})
    interval = "; mean ± half of the 95 % interval (Student t)" if seeds[-1] > 1 else ""
    if any(result.sampled for result in results):
        interval = "; ± half of the 95 % interval of the measured episodes"
    caption = f"{' or '.join(map(str, seeds))} seed{'s' * (seeds[-1] > 1)}{interval}; seconds without compilation"
    return TextTable(("", "iteration", *(result.label for result in results)), tuple(body), tuple(sections), caption)


_BYTES = ("parameter_bytes", "payoff_bytes", "meta_bytes")


def ranking(
    results: Sequence[ArmResult],
    metrics: Sequence[str],
    report: Sequence[int],
    groups: Sequence[tuple[str, Sequence[str]]],
    each: bool = False,
) -> TextTable:
    """One line per arm, the best of each group first: the first metric at the reported iterations, the others and what
    it all cost at the last. Arms are ranked by the first metric of the profile that their method puts forward.
    Intervals are of the number that ranks: more would not fit a terminal. each: time is of one iteration and seed,
    excluding compilation, for arms that share programs."""
    by_label = {result.label: result for result in results}
    headline, others = metrics[0], metrics[1:]
    shown = marks(report, max(result.iterations for result in results))
    header = [readable(headline), "#", *(f"at {mark}" for mark in shown)]
    header += [readable(metric).removeprefix(f"{readable(headline)}, ").removeprefix("run ") for metric in others]
    header += ["steps", "updates", "ms" if each else "s", "kB", "payoffs"]
    body: list[tuple[str, ...]] = []
    sections = []
    for title, members in groups:
        here = [by_label[label] for label in members if label in by_label]
        body.append((title, *[""] * (len(header) - 1)))
        ranked = sorted(here, key=lambda result: _mean(result, result.judged_by(headline)))
        for place, result in enumerate(ranked, 1):
            last, ranks_by = result.iterations, result.judged_by(headline)
            cells = [
                _interval_text(result.at(headline, mark), alone=mark != shown[-1] or ranks_by != headline)
                for mark in shown
            ]
            cells += [_interval_text(result.at(metric, last), alone=metric != ranks_by) for metric in others]
            for column in ("env_steps", "gradient_steps"):
                cells.append(short_number(result.rows[column].mean()) if column in result.rows else "")
            seconds = _mean(result, "seconds")
            per = 1e3 * seconds / (result.seeds * result.iterations)
            cells.append(f"{per:.3g}" if each else f"{seconds + result.compile_seconds:.0f}")
            held = [_mean(result, column) if column in result.rows else 0.0 for column in _BYTES]
            cells += [f"{sum(held) / 1e3:.1f}", f"{held[1] / 1e3:.1f}"]
            body.append((f"  {result.label}", str(place), *cells))
        sections.append(len(body) - 1)
    seeds = results[0].seeds
    interval = "; mean ± half of the 95 % interval (Student t)" * (seeds > 1)
    interval += " of the profile that ranks an arm" * any(result.profile != "iterate" for result in results)
    time = "ms: of one iteration and seed" if each else "s: seconds of all seeds, including compilation"
    caption = (
        f"{seeds} seed{'s' * (seeds > 1)}{interval}; average: of the run's average mixture; steps of the environment "
        f"and gradient updates per iteration; {time}; kB: all that one seed carries along, at the end, of which payoff "
        "tables"
    )
    return TextTable(tuple(header), tuple(body), tuple(sections), caption)


def _mean(result: ArmResult, column: str) -> float:
    """At the last iteration, over seeds."""
    found = result.at(column, result.iterations)
    return math.inf if found is None else found.mean


def records(results: Sequence[ArmResult], report: Sequence[int]) -> list[dict[str, Any]]:
    """Every logged column of every arm at the reported iterations, one record each."""
    found = []
    for result in results:
        for column in result.rows:
            if column == "iteration":
                continue
            for mark in marks(report, result.iterations):
                interval = mean_interval(result.rows[column][:, mark - 1])
                found.append(_record(result, column, mark, interval))
        once = Interval(result.compile_seconds, math.nan, math.nan)
        found.append(_record(result, "compile_seconds", result.iterations, once))
    return found


def _record(result: ArmResult, column: str, iteration: int, interval: Interval) -> dict[str, Any]:
    numbers = {name: None if math.isnan(value) else value for name, value in interval._asdict().items()}
    return {"arm": result.label, "column": column, "iteration": iteration, **numbers, "seeds": result.seeds}


def _interval_text(interval: Interval | None, alone: bool = False) -> str:
    """`alone`: the mean without its interval."""
    if interval is None:
        return ""
    large = math.floor(math.log10(abs(interval.mean))) if abs(interval.mean) >= 100 else 0
    style = f".{max(4 - large, 0)}f"  # of both alike: what is rounding beside the mean comes out as zero
    unknown = alone or math.isnan(interval.low)
    return f"{interval.mean:{style}}" + ("" if unknown else f" ± {interval.half_width:{style}}")
