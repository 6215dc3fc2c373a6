"""One figure per game: the judged gap against environment steps, the compared and the best methods in color."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.leaderboard.cells import GAMES
from experiments.leaderboard.scores import Records, iqm_band, judged_column, rank_methods
from gems_jax.viz.plotting import STYLES, Style, add_legend, draw_grid, make_panels, save_figure, set_log_ticks

# In color whatever their rank, each in the same style on all games. The other styles go to the best of the others.
COMPARED = ("gems", "psro", "self_play", "mmd", "es_mccfr", "xdo", "gems_paper", "jpsro", "neupl")
FLOOR = 1e-5  # of a logarithmic axis; lower values are drawn there


def draw_game(records: Records, game: str, path: Path) -> Path:
    """Draws all stored runs of one game.

    A method has one line per total budget: its interquartile mean over seeds, with the bootstrap 95 % interval.

    Args:
      records: stored cells.
      game: whose runs are drawn.
      path: of the PNG.

    Returns:
      The path.
    """
    ranked = rank_methods(records, game)
    styles = choose_styles(ranked)
    labeled = [name for name in ranked if name in styles]
    figure, ((axis,),) = make_panels(1, 1, 8.0, 5.2)
    gap = ""
    for method in [*(name for name in ranked if name not in labeled), *reversed(labeled)]:
        runs = [record for cell, record in sorted(records.items()) if (cell.game, cell.method) == (game, method)]
        label = method
        for record in runs:
            if "skipped" not in record:
                _draw_run(axis, record, styles.get(method), label)
                label, gap = "", record["gap"]
    axis.set_xscale("log")
    axis.set_yscale("log")
    set_log_ticks(axis.yaxis)
    draw_grid(axis)
    axis.set_xlabel("environment steps, of every phase")
    axis.set_ylabel(f"{gap.replace('nash_conv', 'NashConv')}, {GAMES[game].unit}")
    axis.set_title(
        f"{GAMES[game].title}: IQM over seeds, bands: 95 % intervals; a line per total budget; gray: other methods",
        fontsize=9,
    )
    _sort_legend(axis, labeled)
    add_legend(figure, axis, columns=5)
    path.parent.mkdir(parents=True, exist_ok=True)
    return save_figure(figure, path)


def choose_styles(ranked: Sequence[str]) -> dict[str, Style]:
    """Chooses the methods to draw in color, and their styles.

    Args:
      ranked: methods, the best first.

    Returns:
      Styles by method: those of `COMPARED` methods, and of the best others.
    """
    compared = {name: style for name, style in zip(COMPARED, STYLES, strict=False) if name in ranked}
    others = [name for name in ranked if name not in compared]
    return compared | dict(zip(others, STYLES[len(COMPARED) :], strict=False))


def _draw_run(axis: Any, record: dict[str, Any], style: Style | None, label: str) -> None:
    steps = np.asarray(record["curves"]["env_steps"], float).mean(axis=0)
    values = np.maximum(np.asarray(record["curves"][judged_column(record)], float), FLOOR)
    line, low, high = iqm_band(values)
    if style is None:
        axis.plot(steps, line, color="0.8", linewidth=0.8, zorder=1)
        return
    axis.fill_between(steps, low, high, color=style.color, alpha=0.15, linewidth=0, zorder=2)
    axis.plot(
        steps, line, color=style.color, linestyle=style.line, linewidth=1.6, marker=style.marker, markersize=3.5,
        markevery=max(len(steps) // 6, 1), label=label or None, zorder=3,
    )  # fmt: skip


def _sort_legend(axis: Any, labeled: list[str]) -> None:
    """Puts the lines into the order of the ranking, which the legend then follows."""
    order = {name: position for position, name in enumerate(labeled)}
    known = [line for line in axis.lines if line.get_label() in order]
    for line in sorted(known, key=lambda line: order[line.get_label()]):
        line.remove()
        axis.add_line(line)
