"""Report of a sweep: a table of its points, the best first, and a figure of parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.evaluate.statistics import Interval, describe_mean, format_mean, mean_interval
from gems_jax.runner.errors import RunError
from gems_jax.runner.labels import column_label, higher_is_better
from gems_jax.runner.writers import read_metrics
from gems_jax.sweep.folder import SweepFolder
from gems_jax.sweep.points import SweepPlan
from gems_jax.viz import plotting
from gems_jax.viz.tables import TextTable

SHOWN = 20  # rows of the printed table
FEW = 8  # maximum number of distinct values with individual ticks


class PointResult(NamedTuple):
    """Finished point at its last iteration."""

    number: int
    changes: dict[str, Any]
    value: Interval  # of the metric, over the finite seeds
    seeds: tuple[float, ...]
    diverged: int  # seeds whose rows contain NaN or infinity
    seconds: float  # of its cell, for all points together
    env_steps: float  # per seed


class Ranking(NamedTuple):
    """Finished points, ranked by a metric."""

    metric: str
    highest: bool
    points: tuple[PointResult, ...]  # the best first


def rank_points(plan: SweepPlan, folder: SweepFolder) -> Ranking:
    """Ranks the finished points. Raises RunError if there are none, or if they lack the metric."""
    done = [number for number in range(len(plan.changes)) if folder.point(number).exists()]
    # Cells that were not measured are zero here, so that what is not finite has diverged.
    rows = {number: [read_metrics(member, empty=0.0) for member in _members(plan, folder, number)] for number in done}
    if not rows:
        raise RunError("no point of the sweep is finished")
    first = rows[done[0]][0]
    metric = plan.file.metric or _headline(plan)
    if metric not in first:
        raise RunError(f"the runs have no column {metric!r}; known: {', '.join(sorted(first))}")
    highest = bool(higher_is_better(metric) or plan.file.highest)
    points = [_point(number, plan.changes[number], found, metric) for number, found in rows.items()]
    return Ranking(metric, highest, tuple(sorted(points, key=lambda point: (_sort_key(point, highest), point.number))))


def _sort_key(point: PointResult, highest: bool) -> float:
    """Returns the value to sort by, infinity if all seeds diverged."""
    mean = point.value.mean
    return math.inf if math.isnan(mean) else -mean if highest else mean


def _members(plan: SweepPlan, folder: SweepFolder, number: int) -> list[Path]:
    path, seeds = folder.point(number), plan.file.seeds
    return [path] if len(seeds) == 1 else [path / f"s{seed}" for seed in seeds]


def _headline(plan: SweepPlan) -> str:
    from gems_jax.runner.measuring import FALLBACK_COLUMNS, make_monitor
    from gems_jax.sweep.cell import make_problem, run_options

    problem = make_problem(plan, 0)
    return (*make_monitor(problem.game, problem.solver, run_options(plan)).headlines, *FALLBACK_COLUMNS)[0]


def _point(number: int, changes: dict[str, Any], rows: Sequence[dict[str, np.ndarray]], metric: str) -> PointResult:
    last = np.asarray([found[metric][-1] for found in rows])
    good = last[np.isfinite(last)]
    value = mean_interval(good) if len(good) else Interval(math.nan, math.nan, math.nan)
    bad = sum(not all(np.isfinite(column).all() for column in found.values()) for found in rows)
    steps = np.mean([found.get("total_env_steps", np.zeros(1))[-1] for found in rows])
    seconds = max(found["seconds"][-1] for found in rows)
    return PointResult(number, changes, value, tuple(map(float, last)), bad, float(seconds), float(steps))


def ranking_table(ranking: Ranking, axes: Sequence[str], limit: int | None = SHOWN) -> TextTable:
    """Makes the table of the best `limit` points (None: all); axes: swept fields."""
    body = [_cells(point, axes) for point in ranking.points[:limit]]
    left = len(ranking.points) - len(body)
    which = "highest" if ranking.highest else "lowest"
    seeds = len(ranking.points[0].seeds)
    caption = f"{column_label(ranking.metric)} at the last iteration, the {which} first"
    caption += f"; {describe_mean(seeds)}"
    caption += f"; {left} more in summary.csv" * (left > 0)
    return TextTable(("point", *axes, column_label(ranking.metric), "diverged"), tuple(body), (), caption)


def _cells(point: PointResult, axes: Sequence[str]) -> tuple[str, ...]:
    good = [value for value in point.seeds if math.isfinite(value)]
    text = format_mean(good) if good else "diverged"
    return (f"{point.number:04d}", *(_text(point.changes[name]) for name in axes), text, str(point.diverged or ""))


def ranking_records(ranking: Ranking) -> list[dict[str, Any]]:
    """Makes a flat record per point, the best first."""
    return [_record(rank, point) for rank, point in enumerate(ranking.points, 1)]


def _record(rank: int, point: PointResult) -> dict[str, Any]:
    numbers = {name: None if math.isnan(value) else value for name, value in point.value._asdict().items()}
    swept = {name: _text(value) if isinstance(value, tuple) else value for name, value in point.changes.items()}
    costs = {"diverged": point.diverged, "env_steps": point.env_steps, "cell_seconds": point.seconds}
    return {"place": rank, "point": f"{point.number:04d}", **swept, **numbers, **costs}


def draw_parallel_coordinates(ranking: Ranking, axes: Sequence[str], path: Path, title: str) -> Path:
    """Draws a line per point through its values, colored by rank, with the best on top.

    Args:
      ranking: the ranked points.
      axes: swept fields.
      path: PNG file to write.
      title: title of the figure.

    Returns:
      The path.
    """
    shown = [point for point in ranking.points if not math.isnan(point.value.mean)]
    names = [*axes, ranking.metric]
    figure, panels = plotting.make_panels(1, 1, width=max(5.0, 1.7 * len(names)), height=4.4)
    axis = panels[0][0]
    scales = [_scale([point.changes[name] for point in ranking.points]) for name in axes]
    scales.append(_scale([point.value.mean for point in shown] or [0.0], few=False))
    for rank, point in reversed(list(enumerate(shown))):
        own = [*(point.changes[name] for name in axes), point.value.mean]
        heights = list(map(_Scale.height, scales, own))
        axis.plot(range(len(names)), heights, **_line_style(rank, len(shown), point.number))
    for position, scale in enumerate(scales):
        _draw_scale(axis, position, scale)
    axis.set_xticks(range(len(names)), [*axes, column_label(ranking.metric)], fontsize=9)
    axis.set_xlim(-0.1, len(names) - 1 + 0.35)
    axis.set_ylim(-0.06, 1.06)
    axis.set_yticks([])
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(axis="x", length=0)
    lost = len(ranking.points) - len(shown)
    note = f"color: rank, dark is better; {len(shown)} points" + f", {lost} diverged and not shown" * (lost > 0)
    axis.set_title(f"{title}\n{note}", fontsize=9, loc="left")
    if shown:
        plotting.add_legend(figure, axis)
    return plotting.save_figure(figure, path)


def _draw_scale(axis: Any, position: int, scale: _Scale) -> None:
    axis.axvline(position, color="0.35", linewidth=0.8, zorder=1)
    for tick, label in scale.ticks:
        axis.text(position + 0.02, tick, label, fontsize=7.5, va="center", zorder=5, path_effects=plotting.halo())


def _line_style(rank: int, count: int, number: int) -> dict[str, Any]:
    """Colors lines by rank, so that a few bad points do not hide the differences among good ones."""
    from matplotlib import colormaps

    if rank == 0:
        best = {"color": "#D55E00", "linewidth": 2.6, "zorder": 4, "marker": "o", "markersize": 5}
        return {**best, "label": f"best: point {number:04d}"}
    color = colormaps["viridis"](rank / max(count - 1, 1))
    return {"color": color, "linewidth": 1.1, "alpha": 0.65, "zorder": 2}


class _Scale(NamedTuple):
    low: float
    high: float
    log: bool
    names: tuple[str, ...] = ()  # values that are not numbers, at equal distances
    marks: tuple[float, ...] = ()  # the values, if there are few

    def height(self, value: Any) -> float:
        """Computes the height of a value in [0, 1]."""
        if self.names:
            return self._fraction(self.names.index(_text(value)), 0, len(self.names) - 1)
        return self._fraction(math.log(max(value, 1e-300)) if self.log else value, self.low, self.high)

    @staticmethod
    def _fraction(value: float, low: float, high: float) -> float:
        return 0.5 if high == low else (value - low) / (high - low)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Heights and labels of the ticks."""
        if self.names:
            return [(self.height(name), name) for name in self.names]
        if self.high == self.low:
            return [(0.5, self._number(0.5))]
        if self.marks:
            return [(self.height(value), f"{value:.4g}") for value in self.marks]
        return [(height, self._number(height)) for height in (0.0, 0.25, 0.5, 0.75, 1.0)]

    def _number(self, height: float) -> str:
        number = self.low + height * (self.high - self.low)
        return f"{math.exp(number) if self.log else number:.3g}"


def _scale(values: Sequence[Any], few: bool = True) -> _Scale:
    """Makes a scale, logarithmic if all values are positive and span more than a factor of ten."""
    if not all(map(_is_finite_number, values)):
        return _Scale(0.0, 1.0, False, names=tuple(dict.fromkeys(map(_text, values))))
    low, high, different = float(min(values)), float(max(values)), sorted(set(values))
    marks = tuple(different) if few and len(different) <= FEW else ()
    if low > 0 and high / low > 10:
        return _Scale(math.log(low), math.log(high), True, marks=marks)
    return _Scale(low, high, False, marks=marks)


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
