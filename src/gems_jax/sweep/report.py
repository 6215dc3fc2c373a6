"""What a sweep comes to: a line per point, the best first, and parallel coordinates of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.evaluate.statistics import Interval, mean_interval
from gems_jax.runner.errors import RunError
from gems_jax.runner.labels import readable
from gems_jax.runner.writers import read_metrics
from gems_jax.sweep.folder import SweepFolder
from gems_jax.sweep.points import SweepPlan
from gems_jax.viz import plotting
from gems_jax.viz.tables import TextTable

SHOWN = 20  # lines of the table on the terminal
FEW = 8  # different values of a field that are marked one by one
HIGHEST = ("score_", "win_", "return_", "coop", "welfare")  # beginnings of columns of which more is better


class PointResult(NamedTuple):
    """A finished point at its last iteration."""

    number: int
    changes: dict[str, Any]
    value: Interval  # of the metric, over the seeds that did not diverge
    seeds: tuple[float, ...]
    diverged: int  # seeds whose rows hold NaN or infinity
    seconds: float  # of its cell, all points together
    env_steps: float  # per seed


class Ranking(NamedTuple):
    metric: str
    highest: bool
    points: tuple[PointResult, ...]  # the best first


def rank_points(plan: SweepPlan, folder: SweepFolder) -> Ranking:
    """All points that are finished. RunError where none is, or where they have no such column."""
    rows = {}
    for number in range(len(plan.changes)):
        if folder.point(number).exists():
            members = [folder.point(number)] if len(plan.file.seeds) == 1 else _members(plan, folder, number)
            rows[number] = [read_metrics(member) for member in members]
    if not rows:
        raise RunError("no point of the sweep is finished")
    first = next(iter(rows.values()))[0]
    metric = plan.file.metric or _headline(plan)
    if metric not in first:
        raise RunError(f"the runs have no column {metric!r}; they have: {', '.join(sorted(first))}")
    highest = plan.file.highest if plan.file.metric else metric.startswith(HIGHEST)
    points = [_point(number, plan.changes[number], found, metric) for number, found in rows.items()]
    worst = -math.inf if highest else math.inf

    def order(point: PointResult) -> tuple[float, int]:
        mean = worst if math.isnan(point.value.mean) else point.value.mean
        return (-mean if highest else mean), point.number

    return Ranking(metric, highest, tuple(sorted(points, key=order)))


def _members(plan: SweepPlan, folder: SweepFolder, number: int) -> list[Path]:
    return [folder.point(number) / f"s{seed}" for seed in plan.file.seeds]


def _headline(plan: SweepPlan) -> str:
    from gems_jax.runner.measuring import OTHERWISE, make_monitor
    from gems_jax.sweep.cell import make_problem, run_options

    problem = make_problem(plan, 0)
    return (*make_monitor(problem.game, problem.solver, run_options(plan)).headlines, *OTHERWISE)[0]


def _point(number: int, changes: dict[str, Any], rows: Sequence[dict[str, np.ndarray]], metric: str) -> PointResult:
    last = np.asarray([found[metric][-1] for found in rows])
    bad = sum(any(not np.isfinite(column).all() for column in found.values()) for found in rows)
    good = last[np.isfinite(last)]
    value = mean_interval(good) if len(good) else Interval(math.nan, math.nan, math.nan)
    steps = np.mean([found["total_env_steps"][-1] if "total_env_steps" in found else 0.0 for found in rows])
    seconds = max(found["seconds"][-1] for found in rows)
    return PointResult(number, changes, value, tuple(map(float, last)), bad, float(seconds), float(steps))


def ranking_table(ranking: Ranking, axes: Sequence[str], limit: int | None = SHOWN) -> TextTable:
    """The best points first; `limit` None for all."""
    body = []
    for point in ranking.points[:limit]:
        value = point.value
        interval = "" if math.isnan(value.low) else f" ± {value.half_width:.2g}"
        told = "diverged" if math.isnan(value.mean) else f"{value.mean:.4g}{interval}"
        cells = [_text(point.changes[name]) for name in axes]
        body.append((f"{point.number:04d}", *cells, told, str(point.diverged) if point.diverged else ""))
    left = len(ranking.points) - len(body)
    which = "highest" if ranking.highest else "lowest"
    seeds = len(ranking.points[0].seeds)
    caption = f"{readable(ranking.metric)} at the last iteration, the {which} first"
    caption += f"; {seeds} seeds, mean ± half of the 95 % interval" if seeds > 1 else "; one seed"
    caption += f"; {left} more in summary.csv" if left > 0 else ""
    return TextTable(("point", *axes, readable(ranking.metric), "diverged"), tuple(body), (), caption)


def ranking_records(ranking: Ranking) -> list[dict[str, Any]]:
    """A flat record per point, the best first."""
    found = []
    for place, point in enumerate(ranking.points, 1):
        numbers = {name: None if math.isnan(value) else value for name, value in point.value._asdict().items()}
        swept = {name: _text(value) if isinstance(value, tuple) else value for name, value in point.changes.items()}
        costs = {"diverged": point.diverged, "env_steps": point.env_steps, "cell_seconds": point.seconds}
        found.append({"place": place, "point": f"{point.number:04d}", **swept, **numbers, **costs})
    return found


def draw_parallel_coordinates(ranking: Ranking, axes: Sequence[str], path: Path, title: str) -> Path:
    """Parallel coordinates: a line per point through its values, coloured by the metric, the best on top."""
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    shown = [point for point in ranking.points if not math.isnan(point.value.mean)]
    columns = [*axes, ranking.metric]
    figure, panels = plotting.panels_of(1, 1, width=max(5.0, 1.7 * len(columns)), height=4.4)
    axis = panels[0][0]
    scales = [_scale([point.changes[name] for point in ranking.points]) for name in axes]
    values = [point.value.mean for point in shown]
    scales.append(_scale(values or [0.0], few=False))
    # a few bad points must not hide the differences among the good ones: colours follow the ranks
    colours = Normalize(0, max(len(shown) - 1, 1))
    for place, point in reversed(list(enumerate(shown))):
        own = [*(point.changes[name] for name in axes), point.value.mean]
        heights = [scale.place(value) for scale, value in zip(scales, own, strict=True)]
        best = place == 0
        axis.plot(
            range(len(columns)), heights, color=colormaps["viridis"](colours(place)) if not best else "#D55E00",
            linewidth=2.6 if best else 1.1, alpha=1.0 if best else 0.65, zorder=4 if best else 2,
            marker="o" if best else None, markersize=5, label=f"best: point {point.number:04d}" if best else None,
        )  # fmt: skip
    for place, scale in enumerate(scales):
        axis.axvline(place, color="0.35", linewidth=0.8, zorder=1)
        for tick, words in scale.ticks:
            axis.text(
                place + 0.02, tick, words, fontsize=7.5, va="center", zorder=5, path_effects=plotting.halo()
            )  # fmt: skip
    axis.set_xticks(range(len(columns)), [*axes, readable(ranking.metric)], fontsize=9)
    axis.set_xlim(-0.1, len(columns) - 1 + 0.35)
    axis.set_ylim(-0.06, 1.06)
    axis.set_yticks([])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="x", length=0)
    lost = len(ranking.points) - len(shown)
    note = f"colour: rank, dark is better; {len(shown)} points" + (f", {lost} diverged and not shown" if lost else "")
    axis.set_title(f"{title}\n{note}", fontsize=9, loc="left")
    if shown:
        plotting.legend(figure, axis)
    return plotting.save_figure(figure, path)


class _Scale(NamedTuple):
    low: float
    high: float
    log: bool
    names: tuple[str, ...] = ()  # of values that are no numbers: they stand at equal distances
    marks: tuple[float, ...] = ()  # the values themselves, where they are few

    def place(self, value: Any) -> float:
        if self.names:
            return self.names.index(_text(value)) / max(len(self.names) - 1, 1) if len(self.names) > 1 else 0.5
        if self.high == self.low:
            return 0.5
        number = math.log(max(value, 1e-300)) if self.log else value
        return (number - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        if self.names:
            return [(self.place(name), name) for name in self.names]
        if self.high == self.low:
            return [(0.5, f"{math.exp(self.low) if self.log else self.low:.3g}")]
        if self.marks:
            return [(self.place(value), f"{value:.4g}") for value in self.marks]
        found = []
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            number = self.low + share * (self.high - self.low)
            found.append((share, f"{math.exp(number) if self.log else number:.3g}"))
        return found


def _scale(values: Sequence[Any], few: bool = True) -> _Scale:
    """Logarithmic where all values are positive and more than a factor of ten apart. few: mark a few values each."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not numbers or any(not math.isfinite(value) for value in values):
        return _Scale(0.0, 1.0, False, names=tuple(dict.fromkeys(map(_text, values))))
    low, high, different = float(min(values)), float(max(values)), sorted(set(values))
    log = low > 0 and high / low > 10
    ends = (math.log(low), math.log(high)) if log else (low, high)
    return _Scale(*ends, log, marks=tuple(different) if few and len(different) <= FEW else ())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
