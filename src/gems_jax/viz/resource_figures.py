"""What runs cost, against iterations: seconds, and memory that is held. Drawn from logged rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gems_jax.runner.engine import Rows
from gems_jax.viz.plotting import along_iterations, draw_curve, legend, panels_of, plain_log_ticks, styles_of

HELD = ("parameter_bytes", "payoff_bytes", "meta_bytes")


def held_bytes(rows: Rows) -> np.ndarray | None:
    """[seeds, iterations]: networks or policies, payoff tables, and what the meta-strategy needs of one seed."""
    parts = [rows[name] for name in HELD if name in rows]
    return np.sum(parts, axis=0) if parts else None


def has_costs(curves: Mapping[str, Rows]) -> bool:
    """Whether there is an arm that held something for more than one iteration."""
    return any(held_bytes(rows) is not None and rows["iteration"].shape[1] > 1 for rows in curves.values())


def resources(curves: Mapping[str, Rows]) -> Any:
    """Cumulative seconds, seconds of an iteration, bytes held, and growth of the process: one line for each arm."""
    shown = {arm: rows for arm, rows in curves.items() if rows["iteration"].shape[1] > 1}
    figure, axes = panels_of(2, 2, width=10.5, height=7.0)
    (total, each), (held, grown) = axes
    for style, (arm, rows) in zip(styles_of(shown), shown.items(), strict=True):
        iteration, seeds = rows["iteration"][0], len(rows["iteration"])
        seconds = rows["seconds"].mean(axis=0, keepdims=True) / seeds
        draw_curve(total, iteration, seconds, style, arm)
        spent = np.diff(seconds, axis=1, prepend=0.0)
        draw_curve(each, iteration, smooth(spent), style, arm)
        if (kept := held_bytes(rows)) is not None:
            draw_curve(held, iteration, kept.mean(axis=0, keepdims=True) / 1e3, style, arm)
        memory = rows["memory_mb"].mean(axis=0, keepdims=True)
        draw_curve(grown, iteration, memory - memory[:, :1], style, arm)
    total.set_ylabel("seconds so far, per seed\n(excluding compilation)")
    each.set_ylabel("seconds of an iteration, per seed\n(moving median)")
    held.set_ylabel("kB that one seed holds: policies or generator,\npayoff table, meta-strategy (log scale)")
    grown.set_ylabel("MB resident of the process,\nabove its first iteration")
    for axis in (each, held):
        axis.set_yscale("log")
        plain_log_ticks(axis.yaxis)
    total.set_ylim(bottom=0)
    for axis in axes.flat:
        axis.grid(True, color="0.9", linewidth=0.6)
    for axis in (held, grown):
        along_iterations(axis)
    legend(figure, total, title=_seeds([len(rows["iteration"]) for rows in shown.values()]))
    return figure


def smooth(values: np.ndarray, width: int = 5) -> np.ndarray:
    """Moving median [1, n] of at most `width` neighbours: one slow iteration alone is the machine's doing."""
    row, half = values[0], width // 2
    return np.asarray([[np.median(row[max(n - half, 0) : n + half + 1]) for n in range(len(row))]])


def _seeds(counts: Sequence[int]) -> str:
    return f"{max(counts)} seed{'s' * (max(counts) > 1)}; seconds of all of them divided by their number"
