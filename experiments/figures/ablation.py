"""Figures of many arms: one panel per arm, or one strip with all factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gems_jax.evaluate.statistics import mean_interval
from gems_jax.runner.engine import Rows
from gems_jax.runner.labels import column_label
from gems_jax.viz.figures import held_bytes
from gems_jax.viz.plotting import (
    STYLES,
    draw_curve,
    draw_grid,
    draw_reference,
    label_iterations,
    make_panels,
    set_log_ticks,
    set_lower_bound,
)

COLUMNS = 5


def grid(
    curves: Mapping[str, Rows],
    column: str,
    label: str,
    references: Sequence[tuple[str, float]],
    groups: Sequence[tuple[str, Sequence[str]]],
) -> Any:
    """Draws a panel for every arm, by group: the headline of all seeds with mean and band, and the costs."""
    arms = [arm for _, members in groups for arm in members if column in curves.get(arm, {})]
    rows = math.ceil(len(arms) / COLUMNS)
    figure, axes = make_panels(rows, COLUMNS, width=2.5 * COLUMNS, height=1.75 * rows + 0.5, sharey=True)
    shown = [curves[arm][column] for arm in arms]
    for axis, arm in zip(axes.flat, arms, strict=False):
        found = curves[arm]
        draw_curve(axis, found["iteration"][0], found[column], STYLES[0], arm, log=True)
        for _, value in references:
            draw_reference(axis, value)
        axis.set_yscale("log")
        set_lower_bound(axis, shown, [value for _, value in references])
        axis.set_title(arm, fontsize=8)
        each = 1e3 * found["seconds"][:, -1].mean() / found["iteration"].size
        kept = held_bytes(found)
        cost = f"{each:.3g} ms" + ("" if kept is None else f", {kept[:, -1].mean() / 1e3:.3g} kB")
        axis.text(0.03, 0.05, cost, transform=axis.transAxes, fontsize=7, color="0.3")
        draw_grid(axis)
    for axis in axes.flat[len(arms) :]:
        axis.set_axis_off()
    for axis in axes[-1] if len(arms) % COLUMNS == 0 else (*axes[-1], *axes[-2]):
        label_iterations(axis)
    for axis in axes.flat:  # axes that share a scale do not share how ticks are written
        set_log_ticks(axis.yaxis)
    lines = "".join(f"; dotted: {name}, {value:.3g}" for name, value in references)
    figure.supylabel(f"{label} (log scale)", fontsize=9)
    figure.suptitle(f"thick: mean over seeds; band: its 95 % interval; thin: seeds{lines}", fontsize=9)
    return figure


def strip(curves: Mapping[str, Rows], columns: Sequence[str], groups: Sequence[tuple[str, Sequence[str]]]) -> Any:
    """Draws the columns at the end, and the costs, of all factors: mean and interval over seeds.

    A group is a factor. A dotted line shows the level of its first arm, the base.
    """
    places = _places(groups)
    width = max(0.34 * (places[-1][0] + 2), 7.5)
    ends: list[tuple[str, Callable[[Rows], np.ndarray]]] = [
        (column_label(name), partial(_end, name)) for name in columns
    ]
    measures = [*ends, ("ms of an iteration\nand seed", _milliseconds)]
    figure, axes = make_panels(len(measures), 1, width=width, height=1.5 * len(measures) + 1.6)
    base = groups[0][1][0]
    for (axis,), (label, of) in zip(axes, measures, strict=True):
        for x, arm in places:
            if arm not in curves:
                continue
            found = mean_interval(of(curves[arm]))
            color, marker = ("black", "s") if arm == base else (STYLES[0].color, "o")
            error = None if math.isnan(found.low) else [[found.half_width], [found.half_width]]
            axis.errorbar(x, found.mean, error, color=color, marker=marker, markersize=4, linewidth=1.2, capsize=2)
        draw_reference(axis, float(of(curves[base]).mean()))
        for edge in _edges(groups):
            axis.axvline(edge, color="0.8", linewidth=0.8, zorder=0)
        axis.set_ylabel(label, fontsize=8)
        axis.grid(True, axis="y", color="0.9", linewidth=0.6)
    axes[-1][0].set_xticks([x for x, _ in places], [_level(arm, base) for _, arm in places], rotation=90, fontsize=7)
    top = axes[0][0]
    for (title, members), edge in zip(groups, (-1.0, *_edges(groups)), strict=True):
        middle = edge + (len(members) + 1) / 2
        top.text(
            middle, 1.03, title.replace(" (", "\n("), transform=top.get_xaxis_transform(), ha="center", va="bottom",
            fontsize=7,
        )  # fmt: skip
    top.set_xlim(-1.0, places[-1][0] + 1.0)
    figure.supxlabel(f"value of the factor; black square and dotted line: {base}; bars: 95 % interval", fontsize=8)
    return figure


def _places(groups: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[float, str]]:
    """Lists (x, arm), with a gap between groups."""
    found: list[tuple[float, str]] = []
    for number, (_, members) in enumerate(groups):
        found += [(float(len(found) + number + place), arm) for place, arm in enumerate(members)]
    return found


def _edges(groups: Sequence[tuple[str, Sequence[str]]]) -> list[float]:
    """Lists the positions between groups."""
    ends = np.cumsum([len(members) + 1 for _, members in groups])
    return [float(end) - 1.0 for end in ends[:-1]]


def _level(arm: str, base: str) -> str:
    """Shortens a label: `mutations 8, randoms 8` -> 8, 8."""
    return arm if arm == base else ", ".join(part.split()[-1] for part in arm.split(","))


def _end(column: str, rows: Rows) -> np.ndarray:
    """Returns the last value of each seed [seeds]."""
    return rows[column][:, -1]


def _milliseconds(rows: Rows) -> np.ndarray:
    """Returns milliseconds per iteration [1]; all seeds share one clock."""
    return np.asarray([1e3 * rows["seconds"][:, -1].mean() / rows["iteration"].size])
