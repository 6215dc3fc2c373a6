"""Figures of competing arms: a panel per group, and the headline against the setting in which the arms differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gems_jax.evaluate.statistics import mean_band
from gems_jax.runner.engine import Rows
from gems_jax.viz.plotting import (
    STYLES,
    add_legend,
    choose_styles,
    draw_curve,
    draw_grid,
    draw_reference,
    label_iterations,
    make_panels,
    set_log_ticks,
    set_lower_bound,
)


def league(
    curves: Mapping[str, Rows],
    column: str,
    label: str,
    references: Sequence[tuple[str, float]],
    groups: Sequence[tuple[str, Sequence[str]]],
) -> Any:
    """Draws the headline against iterations, a panel per group: means and bands, styles by order in the group."""
    figure, (axes,) = make_panels(1, len(groups), width=5.2 * len(groups), height=5.6, sharey=True)
    for axis, (title, arms) in zip(axes, groups, strict=True):
        for style, arm in zip(choose_styles(arms), arms, strict=True):
            if column in curves.get(arm, {}):
                draw_curve(axis, curves[arm]["iteration"][0], curves[arm][column], style, arm, log=True, thin=False)
        for name, value in references:
            draw_reference(axis, value, name)
        axis.set_yscale("log")
        draw_grid(axis)
        axis.set_title(title, fontsize=10)
        label_iterations(axis)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=7, frameon=False)
    set_lower_bound(axes[0], [rows[column] for rows in curves.values() if column in rows], [v for _, v in references])
    set_log_ticks(axes[0].yaxis)
    axes[0].set_ylabel(f"{label} (log scale)")
    return figure


LAST = 5  # iterations at the end that `dependence` takes the mean of: one alone is mostly luck


def dependence(curves: Mapping[str, Rows], column: str, label: str, against: tuple[str, Sequence[float]]) -> Any:
    """Draws the headline at the end against the setting in which the arms differ, and its terms."""
    what, x = against
    figure, (axes,) = make_panels(1, 2, width=10.0, height=4.4, sharey=True)
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
        draw_grid(axis)
    axes[0].set_ylabel(f"{label}\nmean of the last {LAST} iterations (log scale)")
    axes[1].set_title("its terms, and the noise beside them", fontsize=10)
    axes[0].set_title("all seeds, their mean and its 95 % interval", fontsize=10)
    add_legend(figure, axes[1])
    return figure
