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
    """Ranks all points that are finished. RunError where none is, or where they have no such column."""
    done = [number for number in range(len(plan.changes)) if folder.point(number).exists()]
    rows = {number: [read_metrics(member) for member in _members(plan, folder, number)] for number in done}
    if not rows:
        raise RunError("no point of the sweep is finished")
    first = rows[done[0]][0]
    metric = plan.file.metric or _headline(plan)
    if metric not in first:
        raise RunError(f"the runs have no column {metric!r}; they have: {', '.join(sorted(first))}")
    highest = plan.file.highest if plan.file.metric else metric.startswith(HIGHEST)
    points = [_point(number, plan.changes[number], found, metric) for number, found in rows.items()]
    return Ranking(metric, highest, tuple(sorted(points, key=lambda point: (_place(point, highest), point.number))))


def _place(point: PointResult, highest: bool) -> float:
    """Lower is better; last where all seeds diverged."""
    mean = point.value.mean
    return math.inf if math.isnan(mean) else -mean if highest else mean


def _members(plan: SweepPlan, folder: SweepFolder, number: int) -> list[Path]:
    path, seeds = folder.point(number), plan.file.seeds
    return [path] if len(seeds) == 1 else [path / f"s{seed}" for seed in seeds]


def _headline(plan: SweepPlan) -> str:
    from gems_jax.runner.measuring import OTHERWISE, make_monitor
    from gems_jax.sweep.cell import make_problem, run_options

    problem = make_problem(plan, 0)
    return (*make_monitor(problem.game, problem.solver, run_options(plan)).headlines, *OTHERWISE)[0]


def _point(number: int, changes: dict[str, Any], rows: Sequence[dict[str, np.ndarray]], metric: str) -> PointResult:
    last = np.asarray([found[metric][-1] for found in rows])
    good = last[np.isfinite(last)]
    value = mean_interval(good) if len(good) else Interval(math.nan, math.nan, math.nan)
    bad = sum(not all(np.isfinite(column).all() for column in found.values()) for found in rows)
    steps = np.mean([found.get("total_env_steps", np.zeros(1))[-1] for found in rows])
    seconds = max(found["seconds"][-1] for found in rows)
    return PointResult(number, changes, value, tuple(map(float, last)), bad, float(seconds), float(steps))


def ranking_table(ranking: Ranking, axes: Sequence[str], limit: int | None = SHOWN) -> TextTable:
    """Lists the best points first; `limit` None for all."""
    body = [_cells(point, axes) for point in ranking.points[:limit]]
    left = len(ranking.points) - len(body)
    which = "highest" if ranking.highest else "lowest"
    seeds = len(ranking.points[0].seeds)
    caption = f"{readable(ranking.metric)} at the last iteration, the {which} first"
    caption += f"; {seeds} seeds, mean ± half of the 95 % interval" if seeds > 1 else "; one seed"
    caption += f"; {left} more in summary.csv" * (left > 0)
    return TextTable(("point", *axes, readable(ranking.metric), "diverged"), tuple(body), (), caption)


def _cells(point: PointResult, axes: Sequence[str]) -> tuple[str, ...]:
    value = point.value
    interval = "" if math.isnan(value.low) else f" ± {value.half_width:.2g}"
    told = "diverged" if math.isnan(value.mean) else f"{value.mean:.4g}{interval}"
    return (f"{point.number:04d}", *(_text(point.changes[name]) for name in axes), told, str(point.diverged or ""))


def ranking_records(ranking: Ranking) -> list[dict[str, Any]]:
    """Makes a flat record per point, the best first."""
    return [_record(place, point) for place, point in enumerate(ranking.points, 1)]


def _record(place: int, point: PointResult) -> dict[str, Any]:
    numbers = {name: None if math.isnan(value) else value for name, value in point.value._asdict().items()}
    swept = {name: _text(value) if isinstance(value, tuple) else value for name, value in point.changes.items()}
    costs = {"diverged": point.diverged, "env_steps": point.env_steps, "cell_seconds": point.seconds}
    return {"place": place, "point": f"{point.number:04d}", **swept, **numbers, **costs}


def draw_parallel_coordinates(ranking: Ranking, axes: Sequence[str], path: Path, title: str) -> Path:
    """Draws a line per point through its values, coloured by the metric, the best on top."""
    shown = [point for point in ranking.points if not math.isnan(point.value.mean)]
    names = [*axes, ranking.metric]
    figure, panels = plotting.panels_of(1, 1, width=max(5.0, 1.7 * len(names)), height=4.4)
    axis = panels[0][0]
    scales = [_scale([point.changes[name] for point in ranking.points]) for name in axes]
    scales.append(_scale([point.value.mean for point in shown] or [0.0], few=False))
    for place, point in reversed(list(enumerate(shown))):
        own = [*(point.changes[name] for name in axes), point.value.mean]
        heights = list(map(_Scale.place, scales, own))
        axis.plot(range(len(names)), heights, **_line_style(place, len(shown), point.number))
    for place, scale in enumerate(scales):
        _draw_scale(axis, place, scale)
    axis.set_xticks(range(len(names)), [*axes, readable(ranking.metric)], fontsize=9)
    axis.set_xlim(-0.1, len(names) - 1 + 0.35)
    axis.set_ylim(-0.06, 1.06)
    axis.set_yticks([])
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(axis="x", length=0)
    lost = len(ranking.points) - len(shown)
    note = f"colour: rank, dark is better; {len(shown)} points" + f", {lost} diverged and not shown" * (lost > 0)
    axis.set_title(f"{title}\n{note}", fontsize=9, loc="left")
    if shown:
        plotting.legend(figure, axis)
    return plotting.save_figure(figure, path)


def _draw_scale(axis: Any, place: int, scale: _Scale) -> None:
    axis.axvline(place, color="0.35", linewidth=0.8, zorder=1)
    for tick, words in scale.ticks:
        axis.text(place + 0.02, tick, words, fontsize=7.5, va="center", zorder=5, path_effects=plotting.halo())


def _line_style(place: int, count: int, number: int) -> dict[str, Any]:
    """Colours follow the ranks: a few bad points must not hide the differences among the good ones."""
    from matplotlib import colormaps

    if place == 0:
        best = {"color": "#D55E00", "linewidth": 2.6, "zorder": 4, "marker": "o", "markersize": 5}
        return {**best, "label": f"best: point {number:04d}"}
    color = colormaps["viridis"](place / max(count - 1, 1))
    return {"color": color, "linewidth": 1.1, "alpha": 0.65, "zorder": 2}


class _Scale(NamedTuple):
    low: float
    high: float
    log: bool
    names: tuple[str, ...] = ()  # of values that are no numbers: they stand at equal distances
    marks: tuple[float, ...] = ()  # the values themselves, where they are few

    def place(self, value: Any) -> float:
        """The height of a value in [0, 1]."""
        if self.names:
            return self._share(self.names.index(_text(value)), 0, len(self.names) - 1)
        return self._share(math.log(max(value, 1e-300)) if self.log else value, self.low, self.high)

    @staticmethod
    def _share(value: float, low: float, high: float) -> float:
        return 0.5 if high == low else (value - low) / (high - low)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(height, words)."""
        if self.names:
            return [(self.place(name), name) for name in self.names]
        if self.high == self.low:
            return [(0.5, self._number(0.5))]
        if self.marks:
            return [(self.place(value), f"{value:.4g}") for value in self.marks]
        return [(share, self._number(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]

    def _number(self, share: float) -> str:
        number = self.low + share * (self.high - self.low)
        return f"{math.exp(number) if self.log else number:.3g}"


def _scale(values: Sequence[Any], few: bool = True) -> _Scale:
    """Logarithmic where all values are positive and more than a factor of ten apart. few: mark a few values each."""
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
