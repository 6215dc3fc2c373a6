"""Figures of an experiment: convergence, error budget, forgetting and diversity. Drawn from logged rows alone.

Arms are told apart as in `plotting`, the terms of the budget by colour and hatching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.evaluate.statistics import mean_band
from gems_jax.runner.engine import Rows
from gems_jax.runner.errors import writing
from gems_jax.runner.labels import readable
from gems_jax.viz.ablation_figures import grid, strip
from gems_jax.viz.plotting import (
    STYLES,
    along_iterations,
    bound_below,
    draw_curve,
    halo,
    legend,
    of_seeds,
    panels_of,
    plain_log_ticks,
    save,
    styles_of,
)
from gems_jax.viz.resource_figures import has_costs, resources

# (column, legend, colour, hatch), from the bottom of the stack to the top
BUDGET = (
    ("budget_meta_regret", "meta regret: σ is not yet a best mixture of the anchors", "#56B4E9", "..."),
    ("budget_newcomer", "newcomer: the oracle's choice has no mass yet", "#F0E442", "---"),
    ("budget_oracle", "oracle gap: a better candidate was passed over", "#009E73", "\\\\\\\\"),
    ("budget_best_response", "best-response gap: no candidate is good enough", "#D55E00", "////"),
)


def draw(
    curves: Mapping[str, Rows],
    folder: Path,
    *,
    headline: str = "",
    convention: str = "",
    unit: str = "return",
    references: Sequence[tuple[str, float]] = (),
    panels: Sequence[str] = (),
    bounds: Mapping[str, Sequence[tuple[str, float]]] | None = None,
    over_time: bool = False,
    groups: Sequence[tuple[str, Sequence[str]]] = (),
    against: tuple[str, Sequence[float]] | None = None,
    ablation: Sequence[str] = (),
) -> list[Path]:
    """Every figure that the rows {arm: {column: [seeds, iterations]}} have the columns for; returns their paths.

    headline: a gap, which goes towards zero on a logarithmic axis. panels: columns that get a panel each in
    `outcomes.png`, against iterations or `over_time`; bounds: what they are held against, ("at most", 0.1). groups:
    (title, arms) that get a panel each for the headline, where there are too many arms for one; where a group has more
    arms than there are styles, every arm gets one. against: what the arms differ in, and that number of each.
    ablation: columns to show at the end, one factor beside the other, where the groups are factors.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    if ablation:
        shown = [column for column in ablation if all(column in rows for rows in curves.values())]
        drawn.append(save(strip(curves, shown, groups), folder / "ablation.png"))
    elif any(headline in rows for rows in curves.values()):
        label = convention or headline.replace("_", " ")
        many = any(len(members) > len(STYLES) for _, members in groups)
        drawing = (grid if many else league) if groups else convergence
        figure = drawing(curves, headline, label, references, **({"groups": groups} if groups else {}))
        drawn.append(save(figure, folder / f"{headline}.png"))
    if against is not None:
        drawn.append(save(dependence(curves, headline, convention or headline, against), folder / "against.png"))
    shown = [column for column in panels if any(column in rows for rows in curves.values())]
    if shown:
        drawn.append(save(outcomes(curves, shown, unit, bounds or {}, over_time), folder / "outcomes.png"))
    if not ablation:
        drawn += _causes_and_costs(curves, folder, unit, groups)
    return drawn


def _causes_and_costs(
    curves: Mapping[str, Rows], folder: Path, unit: str, groups: Sequence[tuple[str, Sequence[str]]]
) -> list[Path]:
    """What has a panel or a line for each arm, as far as there are styles to tell them apart."""
    drawn = []
    if 0 < sum(BUDGET[0][0] in rows for rows in curves.values()) <= len(STYLES):
        drawn.append(save(error_budget(curves, unit), folder / "error_budget.png"))
    if 0 < sum("forgetting_kl" in rows for rows in curves.values()) <= len(STYLES):
        drawn.append(save(forgetting(curves, unit), folder / "forgetting.png"))
    if len(curves) > len(STYLES) and groups:
        curves = {arm: curves[arm] for arm in groups[0][1] if arm in curves}
    if has_costs(curves) and len(curves) <= len(STYLES):
        drawn.append(save(resources(curves), folder / "resources.png"))
    return drawn


def convergence(curves: Mapping[str, Rows], column: str, label: str, references: Sequence[tuple[str, float]]) -> Any:
    """The headline against iterations and against seconds, on a logarithmic axis: every seed, the mean, its band."""
    figure, (axes,) = panels_of(1, 2, width=10.0, height=4.8, sharey=True)
    seeds = max(len(rows[column]) for rows in curves.values() if column in rows)
    for style, (arm, rows) in zip(styles_of(curves), curves.items(), strict=True):
        if column in rows:
            draw_curve(axes[0], rows["iteration"][0], rows[column], style, arm, log=True)
            draw_curve(axes[1], rows["seconds"].mean(axis=0), rows[column], style, arm, log=True, thin=False)
    axes[1].set_xscale("log")
    for axis in axes:
        axis.set_yscale("log")
        axis.grid(True, which="major", color="0.9", linewidth=0.6)
    plain_log_ticks(axes[1].xaxis, sparse=50.0)
    bound_below(axes[0], [rows[column] for rows in curves.values() if column in rows], [v for _, v in references])
    plain_log_ticks(axes[0].yaxis)
    for name, value in references:
        for axis in axes:
            axis.axhline(value, color="0.35", linewidth=0.8, linestyle=(0, (1, 3)), zorder=1)
        axes[0].annotate(
            f"{name}: {value:.3g}", (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", ha="right", va="bottom", fontsize=7, color="0.2", zorder=5,
            path_effects=halo(),
        )  # fmt: skip
    axes[0].set_ylabel(f"{label} (log scale)")
    along_iterations(axes[0])
    together = f" all {seeds} seeds together," if seeds > 1 else ""
    axes[1].set_xlabel(f"seconds (log scale),{together} without compilation")
    legend(figure, axes[0], title=of_seeds(seeds, ", cut off at the lowest seed"))
    return figure


def league(
    curves: Mapping[str, Rows],
    column: str,
    label: str,
    references: Sequence[tuple[str, float]],
    groups: Sequence[tuple[str, Sequence[str]]],
) -> Any:
    """The headline against iterations, a panel for each group, arms in the same styles by place: means and bands."""
    figure, (axes,) = panels_of(1, len(groups), width=5.2 * len(groups), height=5.6, sharey=True)
    for axis, (title, arms) in zip(axes, groups, strict=True):
        for style, arm in zip(styles_of(arms), arms, strict=True):
            if column in curves.get(arm, {}):
                draw_curve(axis, curves[arm]["iteration"][0], curves[arm][column], style, arm, log=True, thin=False)
        for name, value in references:
            axis.axhline(value, color="0.35", linewidth=0.8, linestyle=(0, (1, 3)), zorder=1, label=name)
        axis.set_yscale("log")
        axis.grid(True, which="major", color="0.9", linewidth=0.6)
        axis.set_title(title, fontsize=10)
        along_iterations(axis)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=7, frameon=False)
    bound_below(axes[0], [rows[column] for rows in curves.values() if column in rows], [v for _, v in references])
    plain_log_ticks(axes[0].yaxis)
    axes[0].set_ylabel(f"{label} (log scale)")
    return figure


LAST = 5  # iterations at the end that `dependence` takes the mean of: one alone is mostly luck


def dependence(curves: Mapping[str, Rows], column: str, label: str, against: tuple[str, Sequence[float]]) -> Any:
    """The headline at the end against what the arms differ in, and beside it what it is made of."""
    what, x = against
    figure, (axes,) = panels_of(1, 2, width=10.0, height=4.4, sharey=True)
    found = [mean_band(rows[column][:, -LAST:].mean(axis=1, keepdims=True)) for rows in curves.values()]
    mean, low, high = (np.concatenate(part) for part in zip(*found, strict=True))
    color = STYLES[0].color
    axes[0].plot(x, mean, color=color, marker="o", linewidth=1.8)
    for at, rows in zip(x, curves.values(), strict=True):
        ends = rows[column][:, -LAST:].mean(axis=1)
        axes[0].plot(np.full(len(ends), at), ends, linestyle="", marker="_", color=color, alpha=0.6)
    if not np.isnan(low).any():
        axes[0].fill_between(x, np.maximum(low, mean / 10), high, color=color, alpha=0.15, linewidth=0)
    for name, words, shade, marker in (
        ("budget_meta_regret", "meta regret", STYLES[1].color, "s"),
        ("budget_best_response", "best-response gap", STYLES[2].color, "^"),
        ("budget_oracle", "oracle gap", STYLES[3].color, "D"),
        ("monte_carlo_error", "Monte-Carlo error of a round, max |v̂ − v|", STYLES[6].color, "X"),
    ):
        if all(name in rows for rows in curves.values()):
            ends = [rows[name][:, -LAST:].mean() for rows in curves.values()]
            axes[1].plot(x, np.maximum(ends, 1e-5), color=shade, marker=marker, label=words, linewidth=1.6)
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(x, [f"{at:g}" for at in x], minor=False)
        axis.set_xticks([], minor=True)
        axis.set_xlabel(what)
        axis.grid(True, color="0.9", linewidth=0.6)
    axes[0].set_ylabel(f"{label}\nmean of the last {LAST} iterations (log scale)")
    axes[1].set_title("its terms, and the noise beside them", fontsize=10)
    axes[0].set_title("all seeds, their mean and its 95 % interval", fontsize=10)
    legend(figure, axes[1])
    return figure


def outcomes(
    curves: Mapping[str, Rows],
    columns: Sequence[str],
    unit: str,
    bounds: Mapping[str, Sequence[tuple[str, float]]],
    over_time: bool = False,
) -> Any:
    """One panel per column against iterations or minutes, on linear axes: every seed, the mean, its band.

    With one seed the band is the interval of the episodes that it was measured by, where the rows have one. An arm of
    one iteration is a level: it did not learn.
    """
    figure, (axes,) = panels_of(1, len(columns), width=max(3.8 * len(columns), 7.5), height=4.0)
    for axis, column in zip(axes, columns, strict=True):
        for style, (arm, rows) in zip(styles_of(curves), curves.items(), strict=True):
            if column not in rows:
                continue
            if rows[column].shape[1] == 1:
                axis.axhline(rows[column].mean(), color=style.color, linestyle=":", linewidth=1.2, label=arm, zorder=1)
                continue
            x = rows["seconds"].mean(axis=0) / 60.0 if over_time else rows["iteration"][0]
            points = measured(rows)
            draw_curve(axis, x[points], rows[column][:, points], style, arm)
            margin = rows.get(f"{column}_interval")
            if margin is not None and len(margin) == 1:
                low, high = (rows[column][0] + sign * margin[0] for sign in (-1, 1))
                axis.fill_between(x[points], low[points], high[points], color=style.color, alpha=0.15, linewidth=0)
        for word, bound in bounds.get(column, ()):
            axis.axhline(bound, color="0.35", linewidth=0.8, linestyle=(0, (1, 3)), zorder=1)
            away, where = (2, "bottom") if word == "at most" else (-2, "top")  # on the side that is not allowed
            axis.annotate(
                f"bar: {word} {bound:g}", (0.99, bound), xycoords=("axes fraction", "data"), xytext=(0, away),
                textcoords="offset points", ha="right", va=where, fontsize=7, color="0.2", zorder=5,
                path_effects=halo(),
            )  # fmt: skip
        if over_time:
            axis.set_xlabel("minutes, evaluation included, compilation apart")
        else:
            along_iterations(axis)
        axis.set_ylabel(f"{readable(column)} ({unit})" if column.startswith("value_") else readable(column))
        axis.grid(True, color="0.9", linewidth=0.6)
    legend(figure, axes[0], title=of_seeds(max(len(rows["iteration"]) for rows in curves.values())))
    return figure


def measured(rows: Rows) -> np.ndarray:
    """Iterations (from 0) to draw: rows that are measured by episodes repeat themselves between two measurements."""
    margins = [values for column, values in rows.items() if column.endswith("_interval")]
    if not margins:
        return np.arange(rows["iteration"].shape[1])
    changed = np.any([(np.diff(values, axis=1) != 0).any(axis=0) for values in margins], axis=0)
    return np.flatnonzero(np.append(True, changed))


def error_budget(curves: Mapping[str, Rows], unit: str) -> Any:
    """The four terms, stacked, means over seeds: above what they add up to, below the share of each in the sum."""
    shown = {arm: rows for arm, rows in curves.items() if BUDGET[0][0] in rows}
    figure, (above, below) = panels_of(2, len(shown), width=max(3.4 * len(shown), 8.5), height=6.2, sharey=True)
    for number, (arm, rows) in enumerate(shown.items()):
        iteration, total = rows["iteration"][0], rows["budget_total"].mean(axis=0)
        terms = [rows[column].mean(axis=0) for column, *_ in BUDGET]
        _stack(above[number], iteration, terms)
        _stack(below[number], iteration, [100 * term / np.maximum(total, 1e-12) for term in terms])
        above[number].plot(iteration, total, color="black", linewidth=1.4, label="their sum, computed apart")
        if "monte_carlo_error" in rows:  # a number: as a curve it would squeeze the rest, being a maximum over anchors
            error = f"{rows['monte_carlo_error'].mean():.2g}"
            above[number].text(
                0.97, 0.95, f"beside the sum, Monte-Carlo error\nof a round, max |v̂ − v|: {error}",
                transform=above[number].transAxes, ha="right", va="top", fontsize=8, path_effects=halo(),
            )  # fmt: skip
        above[number].set_title(arm, fontsize=10)
        along_iterations(below[number])
    last = max(rows["iteration"].shape[1] for rows in shown.values())
    above[0].set_xlim(1, max(last, 2))
    above[0].set_ylim(bottom=0)
    below[0].set_ylim(0, 100)
    above[0].set_ylabel(f"gap to a best response, by cause\n({unit})")
    below[0].set_ylabel("share of the sum (%)")
    legend(figure, above[0], "of the mixture σ′ before the generator is trained; means over players and seeds", 2)
    return figure


def _stack(axis: Any, x: np.ndarray, terms: Sequence[np.ndarray]) -> None:
    floor = np.zeros(len(x))
    for (_, name, color, hatch), term in zip(BUDGET, terms, strict=True):
        axis.fill_between(
            x, floor, floor + term, label=name, facecolor=color, hatch=hatch, edgecolor="0.2", linewidth=0.4
        )
        floor = floor + term


def forgetting(curves: Mapping[str, Rows], unit: str) -> Any:
    """How far the anchors have moved since they were inserted, and how many different policies there are."""
    figure, (axes,) = panels_of(1, 3, width=11.5, height=3.9)
    panels = (
        ("forgetting_kl", "KL(at insertion ‖ now)\n(nats, mean over active anchors)"),
        ("forgetting_value", f"value now − value at insertion\n({unit}, mean over active anchors)"),
        ("effective_policies", "effective number of policies in the mixture\n(mean over populations)"),
    )
    for axis, (column, label) in zip(axes, panels, strict=True):
        for style, (arm, rows) in zip(styles_of(curves), curves.items(), strict=True):
            if column in rows:
                draw_curve(axis, rows["iteration"][0], rows[column], style, arm)
        along_iterations(axis)
        axis.set_ylabel(label)
        axis.grid(True, color="0.9", linewidth=0.6)
    axes[0].set_ylim(bottom=0)
    axes[1].axhline(0.0, color="0.35", linewidth=0.8)
    top = max(axes[2].get_ylim()[1], 1.2)
    axes[2].set_ylim(1.0 - 0.03 * (top - 1.0), top)
    legend(figure, axes[0])
    return figure
