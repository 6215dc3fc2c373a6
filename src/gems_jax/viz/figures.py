"""Figures of runs, drawn from logged rows: convergence, outcomes, error budget, forgetting and diversity, costs.

Arms have the styles of `plotting`; the terms of the budget differ by color and hatching. Every function takes the rows
{arm: {column: [seeds, iterations]}} and returns a matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.runner.engine import Rows
from gems_jax.runner.errors import report_write_errors
from gems_jax.runner.labels import column_label
from gems_jax.viz.plotting import (
    STYLES,
    Style,
    add_legend,
    annotate_line,
    choose_styles,
    describe_seeds,
    draw_curve,
    draw_grid,
    draw_reference,
    halo,
    label_iterations,
    make_panels,
    save_figure,
    set_log_ticks,
    set_lower_bound,
    widen_log_axis,
)

# (column, legend, color, hatch), from the bottom of the stack to the top
BUDGET = (
    ("budget_meta_regret", "meta regret: σ is not yet a best mixture of the anchors", "#56B4E9", "..."),
    ("budget_newcomer", "newcomer: the oracle's choice has no mass yet", "#F0E442", "---"),
    ("budget_oracle", "oracle gap: a better candidate was passed over", "#009E73", "\\\\\\\\"),
    ("budget_best_response", "best-response gap: no candidate is good enough", "#D55E00", "////"),
)
HELD = ("parameter_bytes", "payoff_bytes", "meta_bytes")
Curves = Mapping[str, Rows]


def draw_run(curves: Curves, folder: Path, *, headline: str = "", panels: Sequence[str] = ()) -> list[Path]:
    """Draws every figure that the rows have the columns for, and returns their paths.

    Args:
      curves: rows [seeds, iterations] by arm and column.
      folder: folder of the PNG files; created if missing.
      headline: column of a gap, drawn on a logarithmic axis.
      panels: columns that get a panel each in `outcomes.png`.
    """
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    if select_arms(curves, headline):
        figure = draw_convergence(curves, headline, headline.replace("_", " "), ())
        drawn.append(save_figure(figure, folder / f"{headline}.png"))
    if shown := [column for column in panels if select_arms(curves, column)]:
        drawn.append(save_figure(draw_outcomes(curves, shown), folder / "outcomes.png"))
    return drawn + draw_causes_and_costs(curves, folder)


def draw_causes_and_costs(
    curves: Curves, folder: Path, unit: str = "return", costly: Curves | None = None
) -> list[Path]:
    """Draws error budget, forgetting and costs, if there are enough styles for the arms.

    Args:
      curves: rows [seeds, iterations] by arm and column.
      folder: folder of the PNG files.
      unit: unit of returns.
      costly: arms whose costs are shown, by default all.

    Returns:
      The paths of the figures.
    """
    drawn = []
    if 0 < len(select_arms(curves, BUDGET[0][0])) <= len(STYLES):
        drawn.append(save_figure(stack_error_budget(curves, unit), folder / "error_budget.png"))
    if 0 < len(select_arms(curves, "forgetting_kl")) <= len(STYLES):
        drawn.append(save_figure(draw_forgetting(curves, unit), folder / "forgetting.png"))
    costly = curves if costly is None else costly
    if has_costs(costly) and len(costly) <= len(STYLES):
        drawn.append(save_figure(draw_resources(costly), folder / "resources.png"))
    return drawn


def select_arms(curves: Curves, column: str) -> dict[str, Rows]:
    """Selects the arms that have the column."""
    return {arm: rows for arm, rows in curves.items() if column in rows}


def draw_convergence(curves: Curves, column: str, label: str, references: Sequence[tuple[str, float]]) -> Any:
    """Draws the headline against iterations and seconds, on a logarithmic axis: every seed, the mean, its band.

    Args:
      curves: rows [seeds, iterations] by arm and column.
      column: the headline.
      label: label of its axis.
      references: names and values of horizontal lines.
    """
    figure, (axes,) = make_panels(1, 2, width=10.0, height=4.8, sharey=True)
    shown = select_arms(curves, column)
    seeds = max(len(rows[column]) for rows in shown.values())
    for style, (arm, rows) in zip(choose_styles(curves), curves.items(), strict=True):
        if column in rows:
            draw_curve(axes[0], rows["iteration"][0], rows[column], style, arm, log=True)
            draw_curve(axes[1], rows["seconds"].mean(axis=0), rows[column], style, arm, log=True, thin=False)
    axes[1].set_xscale("log")
    for axis in axes:
        axis.set_yscale("log")
        draw_grid(axis)
        for _, value in references:
            draw_reference(axis, value)
    set_log_ticks(axes[1].xaxis, sparse=50.0)
    set_lower_bound(axes[0], [rows[column] for rows in shown.values()], [value for _, value in references])
    set_log_ticks(axes[0].yaxis)
    for name, value in references:
        annotate_line(axes[0], value, f"{name}: {value:.3g}")
    axes[0].set_ylabel(f"{label} (log scale)")
    label_iterations(axes[0])
    together = f" all {seeds} seeds together," * (seeds > 1)
    axes[1].set_xlabel(f"seconds (log scale),{together} without compilation")
    add_legend(figure, axes[0], title=describe_seeds(seeds, ", cut off at the lowest seed"))
    return figure


def draw_outcomes(
    curves: Curves,
    columns: Sequence[str],
    unit: str = "return",
    bounds: Mapping[str, Sequence[tuple[str, float]]] | None = None,
    over_time: bool = False,
) -> Any:
    """Draws one panel per column on linear axes: every seed, the mean, its band.

    With one seed the band is the interval over episodes, if the rows have one. An arm of one iteration, which did not
    learn, is a horizontal line.

    Args:
      curves: rows [seeds, iterations] by arm and column.
      columns: columns to draw.
      unit: unit of returns.
      bounds: bounds of columns such as ("at most", 0.1), drawn as lines.
      over_time: draw against minutes instead of iterations.
    """
    figure, (axes,) = make_panels(1, len(columns), width=max(3.8 * len(columns), 7.5), height=4.0)
    for axis, column in zip(axes, columns, strict=True):
        for style, (arm, rows) in zip(choose_styles(curves), curves.items(), strict=True):
            if column in rows:
                _draw_outcome(axis, rows, column, style, arm, over_time)
        for word, bound in (bounds or {}).get(column, ()):
            draw_reference(axis, bound)
            annotate_line(
                axis, bound, f"bar: {word} {bound:g}", above=word == "at most"
            )  # on the side that violates it
        _label_outcome(axis, column, unit, over_time)
    add_legend(figure, axes[0], title=_describe_outcomes(curves, columns))
    return figure


def _describe_outcomes(curves: Curves, columns: Sequence[str]) -> str:
    """Describes lines, bands and markers of `draw_outcomes`."""
    title = describe_seeds(max(len(rows["iteration"]) for rows in curves.values()))
    shown = [(rows, column) for column in columns for rows in select_arms(curves, column).values()]
    if any(f"{column}_interval" in rows and len(rows[column]) == 1 for rows, column in shown):
        title += "; bands: 95 % interval of the measured episodes"
    sparse = any(len(measured_iterations(rows, column)) < rows[column].shape[1] for rows, column in shown)
    return title + "; markers: measured iterations" * sparse


def _draw_outcome(axis: Any, rows: Rows, column: str, style: Style, arm: str, over_time: bool) -> None:
    if rows[column].shape[1] == 1:
        axis.axhline(rows[column].mean(), color=style.color, linestyle=":", linewidth=1.2, label=arm, zorder=1)
        return
    x = rows["seconds"].mean(axis=0) / 60.0 if over_time else rows["iteration"][0]
    points = measured_iterations(rows, column)
    draw_curve(axis, x[points], rows[column][:, points], style, arm, every_point=len(points) < len(x))
    margin = rows.get(f"{column}_interval")
    if margin is not None and len(margin) == 1:
        low, high = (rows[column][0] + sign * margin[0] for sign in (-1, 1))
        axis.fill_between(x[points], low[points], high[points], color=style.color, alpha=0.15, linewidth=0)


def _label_outcome(axis: Any, column: str, unit: str, over_time: bool) -> None:
    if over_time:
        axis.set_xlabel("minutes, including evaluation, excluding compilation")
    else:
        label_iterations(axis)
    axis.set_ylabel(column_label(column) + f" ({unit})" * column.startswith("value_"))
    draw_grid(axis)


def measured_iterations(rows: Rows, column: str) -> np.ndarray:
    """Lists the iterations (from 0) at which every seed has measured the column; its other cells are NaN."""
    return np.flatnonzero(~np.isnan(rows[column]).any(axis=0))


def stack_error_budget(curves: Curves, unit: str) -> Any:
    """Stacks the four terms of the error budget, averaged over seeds, and below it their fractions of the sum."""
    shown = select_arms(curves, BUDGET[0][0])
    figure, (above, below) = make_panels(2, len(shown), width=max(3.4 * len(shown), 8.5), height=6.2, sharey=True)
    for top, bottom, (arm, rows) in zip(above, below, shown.items(), strict=True):
        iteration, total = rows["iteration"][0], rows["budget_total"].mean(axis=0)
        terms = [rows[column].mean(axis=0) for column, *_ in BUDGET]
        _stack(top, iteration, terms)
        _stack(bottom, iteration, [100 * term / np.maximum(total, 1e-12) for term in terms])
        top.plot(iteration, total, color="black", linewidth=1.4, label="their sum, computed independently")
        if "monte_carlo_error" in rows:  # as text: a curve of this maximum over anchors would dwarf the others
            error = f"{rows['monte_carlo_error'].mean():.2g}"
            top.text(
                0.97, 0.95, f"not in the sum: Monte-Carlo error\nof a round, max |v̂ − v|: {error}",
                transform=top.transAxes, ha="right", va="top", fontsize=8, path_effects=halo(),
            )  # fmt: skip
        top.set_title(arm, fontsize=10)
        label_iterations(bottom)
    last = max(rows["iteration"].shape[1] for rows in shown.values())
    above[0].set_xlim(1, max(last, 2))
    above[0].set_ylim(bottom=0)
    below[0].set_ylim(0, 100)
    above[0].set_ylabel(f"gap to a best response, by cause\n({unit})")
    below[0].set_ylabel("fraction of the sum (%)")
    add_legend(figure, above[0], "of the mixture σ′ before the generator is trained; means over players and seeds", 2)
    return figure


def _stack(axis: Any, x: np.ndarray, terms: Sequence[np.ndarray]) -> None:
    floor = np.zeros(len(x))
    for (_, name, color, hatch), term in zip(BUDGET, terms, strict=True):
        axis.fill_between(
            x, floor, floor + term, label=name, facecolor=color, hatch=hatch, edgecolor="0.2", linewidth=0.4
        )
        floor = floor + term


def draw_forgetting(curves: Curves, unit: str) -> Any:
    """Draws the drift of anchors since their insertion, and the effective number of policies. unit: of returns."""
    figure, (axes,) = make_panels(1, 3, width=11.5, height=3.9)
    panels = (
        ("forgetting_kl", "KL(at insertion ‖ now)\n(nats, mean over active anchors)"),
        ("forgetting_value", f"value now − value at insertion\n({unit}, mean over active anchors)"),
        ("effective_policies", "effective number of policies in the mixture\n(mean over populations)"),
    )
    for axis, (column, label) in zip(axes, panels, strict=True):
        for style, (arm, rows) in zip(choose_styles(curves), curves.items(), strict=True):
            if column in rows:
                draw_curve(axis, rows["iteration"][0], rows[column], style, arm)
        label_iterations(axis)
        axis.set_ylabel(label)
        draw_grid(axis)
    axes[0].set_ylim(bottom=0)
    axes[1].axhline(0.0, color="0.35", linewidth=0.8)
    top = max(axes[2].get_ylim()[1], 1.2)
    axes[2].set_ylim(1.0 - 0.03 * (top - 1.0), top)
    add_legend(figure, axes[0])
    return figure


def held_bytes(rows: Rows) -> np.ndarray | None:
    """Sums the bytes of policies, payoff tables and meta-strategy of one seed, [seeds, iterations]; None if unknown."""
    parts = [rows[name] for name in HELD if name in rows]
    return np.sum(parts, axis=0) if parts else None


def has_costs(curves: Curves) -> bool:
    """Checks whether an arm of more than one iteration has logged its bytes."""
    return any(held_bytes(rows) is not None and rows["iteration"].shape[1] > 1 for rows in curves.values())


def draw_resources(curves: Curves) -> Any:
    """Draws total seconds, seconds per iteration, bytes of the state, and growth of the process, by arm."""
    shown = {arm: rows for arm, rows in curves.items() if rows["iteration"].shape[1] > 1}
    figure, axes = make_panels(2, 2, width=10.5, height=7.0)
    (total, each), (held, grown) = axes
    for style, (arm, rows) in zip(choose_styles(shown), shown.items(), strict=True):
        for axis, values in zip(axes.flat, _costs(rows), strict=True):
            if values is not None:
                draw_curve(axis, rows["iteration"][0], values, style, arm)
    total.set_ylabel("seconds so far, per seed\n(excluding compilation)")
    each.set_ylabel("seconds of an iteration, per seed\n(moving median)")
    held.set_ylabel("kB per seed: policies or generator,\npayoff table, meta-strategy (log scale)")
    grown.set_ylabel("MB resident of the process,\nabove its first iteration")
    for axis in (each, held):
        axis.set_yscale("log")
        widen_log_axis(axis)
        set_log_ticks(axis.yaxis)
    total.set_ylim(bottom=0)
    low, high = grown.get_ylim()
    grown.set_ylim(min(low, -1.0), max(high, 1.0))  # less than a megabyte does not count as growth
    for axis in axes.flat:
        draw_grid(axis)
    for axis in (held, grown):
        label_iterations(axis)
    most = max(len(rows["iteration"]) for rows in shown.values())
    shared = f"{most} seeds; seconds of all of them divided by their number" if most > 1 else "one seed"
    add_legend(figure, total, title=shared)
    return figure


def _costs(rows: Rows) -> tuple[np.ndarray | None, ...]:
    """Computes total seconds, seconds per iteration, kilobytes, megabytes above the first, [1, iterations] each."""
    seconds = rows["seconds"].mean(axis=0, keepdims=True) / len(rows["iteration"])
    held, memory = held_bytes(rows), rows["memory_mb"].mean(axis=0, keepdims=True)
    kilobytes = None if held is None else held.mean(axis=0, keepdims=True) / 1e3
    return seconds, smooth(np.diff(seconds, axis=1, prepend=0.0)), kilobytes, memory - memory[:, :1]


def smooth(values: np.ndarray, width: int = 5) -> np.ndarray:
    """Computes the moving median [1, n] over `width` values, which removes single slow iterations."""
    row, half = values[0], width // 2
    return np.asarray([[np.median(row[max(n - half, 0) : n + half + 1]) for n in range(len(row))]])
