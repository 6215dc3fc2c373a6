"""Results of the mixture against itself over the iterations: first player, draw, second player, stacked.

All numbers come from logged columns (`evaluate/sampled.py`) at the iterations in which they were measured. Further
panels show the fraction of decisive games and, for chess, of central squares occupied.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.pictures.drawn import Drawn
from gems_jax.runner.directory import open_run, slug
from gems_jax.runner.labels import column_label
from gems_jax.runner.writers import read_metrics
from gems_jax.viz.figures import measured_iterations
from gems_jax.viz.plotting import choose_styles, describe_seeds, draw_curve, label_iterations, make_panels
from gems_jax.viz.words import words_of

if TYPE_CHECKING:
    from experiments.harness.spec import Plan

# (column, colour, hatch), from the bottom of the stack to the top
SHARES = (
    ("first_wins", "#0072B2", "////"),
    ("self_draws", "#EEEEEE", ""),
    ("second_wins", "#E69F00", "...."),
)
BARS = 40  # measurements up to which there is a bar for each

Logged = dict[str, np.ndarray]  # column -> [seeds, measurements]


def outcomes_of_sides(plan: Plan, folder: Path) -> Drawn:
    """Draws `outcomes_of_sides.png`; numbers: fractions at the first and last measurement, means over seeds."""
    logged = {arm.label: _logged(folder / slug(arm.label)) for arm, *_ in plan.arms if arm.method != "random"}
    logged = {label: rows for label, rows in logged.items() if SHARES[0][0] in rows}
    if not logged:
        raise ValueError(f"no arm logs {SHARES[0][0]}: only boards that are measured by playing have sides that win")
    beside = [name for name in ("decisive", "centre") if all(name in rows for rows in logged.values())]
    words = words_of(next(iter(plan.games.values())))
    figure, (axes,) = make_panels(1, len(logged) + len(beside), width=3.7 * (len(logged) + len(beside)), height=3.9)
    for axis, (label, rows) in zip(axes, logged.items(), strict=False):
        _stack(axis, rows, (f"{words.seat(0)} wins", "draw", f"{words.seat(1)} wins"))
        axis.set_title(label, fontsize=10)
    for axis, name in zip(axes[len(logged) :], beside, strict=True):
        for style, (label, rows) in zip(choose_styles(logged), logged.items(), strict=True):
            x, margin = rows["iteration"][0], rows.get(f"{name}_interval")
            draw_curve(axis, x, rows[name], style, label)
            if margin is not None and len(margin) == 1:  # one seed: the interval of the games that it was measured by
                low, high = (rows[name][0] + sign * margin[0] for sign in (-1, 1))
                axis.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)
        axis.set_ylim(-0.02, 1.02)
        axis.set_ylabel(column_label(name))
        axis.grid(True, color="0.9", linewidth=0.6)
        label_iterations(axis)
    seeds = max(len(rows["iteration"]) for rows in logged.values())
    one = "one seed; bands: 95 % intervals of its games"
    _legends(
        figure, axes, len(logged), one if seeds == 1 else f"stacks: means over {seeds} seeds; {describe_seeds(seeds)}"
    )
    return Drawn({"outcomes_of_sides.png": figure}, {label: _numbers(rows) for label, rows in logged.items()})


def _logged(path: Path) -> Logged:
    """Reads the rows of all seeds at the iterations in which games were played."""
    seeds = [read_metrics(member) for member in open_run(path).members]
    rows = {name: np.stack([seed[name] for seed in seeds]) for name in seeds[0]}
    if SHARES[0][0] not in rows:
        return rows
    points = measured_iterations(rows, SHARES[0][0])
    return {name: values[:, points] for name, values in rows.items()}


def _stack(axis: Any, rows: Logged, names: tuple[str, ...]) -> None:
    x = rows["iteration"][0]
    floor = np.zeros(len(x))
    width = 0.8 * np.min(np.diff(x)) if len(x) > 1 else 0.8
    for (column, colour, hatch), name in zip(SHARES, names, strict=True):
        share = 100 * rows[column].mean(axis=0)
        style = {"facecolor": colour, "hatch": hatch, "edgecolor": "0.15", "linewidth": 0.4, "label": name}
        if len(x) > BARS:
            axis.fill_between(x, floor, floor + share, **style)
        else:
            axis.bar(x, share, width, bottom=floor, **style)
        floor = floor + share
    axis.set_ylim(0, 100)
    axis.set_ylabel("share of games of the mixture against itself (%)")
    label_iterations(axis)


def _legends(figure: Any, axes: Any, stacks: int, title: str) -> None:
    handles, names = axes[0].get_legend_handles_labels()
    if len(axes) > stacks and stacks > 1:
        more = axes[stacks].get_legend_handles_labels()
        handles, names = [*handles, *more[0]], [*names, *more[1]]
    figure.legend(
        handles, names, loc="outside lower center", ncols=min(len(names), 5), fontsize=8, frameon=False,
        title=title, title_fontsize=8, handlelength=3.0,
    )  # fmt: skip


def _numbers(rows: Logged) -> dict[str, Any]:
    kept = [name for name in (*(column for column, *_ in SHARES), "decisive", "centre") if name in rows]
    return {
        f"iteration {int(rows['iteration'][0, place])}": {name: float(rows[name][:, place].mean()) for name in kept}
        for place in (0, -1)
    }
