"""Figures of an experiment: those of a run for all its arms together, and those that compare arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.figures.ablation import grid, strip
from experiments.figures.arms import dependence, league
from gems_jax.runner.engine import Rows
from gems_jax.runner.errors import report_write_errors
from gems_jax.viz.figures import draw_causes_and_costs, draw_convergence, draw_outcomes, select_arms
from gems_jax.viz.plotting import STYLES, save_figure

__all__ = ["Layout", "draw_experiment"]
Groups = Sequence[tuple[str, Sequence[str]]]


class Layout(NamedTuple):
    """Content of the figures of an experiment."""

    headline: str = ""  # a gap, which goes towards zero on a logarithmic axis
    convention: str = ""  # what the headline is, with its unit
    unit: str = "return"  # of the game's returns
    references: Sequence[tuple[str, float]] = ()  # (label, headline value), lines in the figure
    panels: Sequence[str] = ()  # columns that get a panel each in `outcomes.png`
    bounds: Mapping[str, Sequence[tuple[str, float]]] = {}  # what panels are held against, ("at most", 0.1)
    over_time: bool = False  # panels against minutes instead of iterations
    groups: Groups = ()  # (title, arms) that get a panel each; an arm each where they are more than the styles
    against: tuple[str, Sequence[float]] | None = None  # what the arms differ in, and that number of each
    ablation: Sequence[str] = ()  # columns to show at the end, where the groups are factors


def draw_experiment(curves: Mapping[str, Rows], folder: Path, layout: Layout) -> list[Path]:
    """Draws every figure that the rows {arm: {column: [seeds, iterations]}} have the columns for.

    Args:
      curves: the rows of every arm.
      folder: where the PNG files go; made if it is not there.
      layout: what to show.

    Returns:
      The paths of the figures.
    """
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = [*_draw_headline(curves, folder, layout)]
    if layout.against is not None:
        label = layout.convention or layout.headline
        drawn.append(save_figure(dependence(curves, layout.headline, label, layout.against), folder / "against.png"))
    if shown := [column for column in layout.panels if select_arms(curves, column)]:
        figure = draw_outcomes(curves, shown, layout.unit, layout.bounds, layout.over_time)
        drawn.append(save_figure(figure, folder / "outcomes.png"))
    if layout.ablation:
        return drawn
    return drawn + draw_causes_and_costs(curves, folder, layout.unit, _leading(curves, layout.groups))


def _draw_headline(curves: Mapping[str, Rows], folder: Path, layout: Layout) -> list[Path]:
    if layout.ablation:
        shown = [column for column in layout.ablation if all(column in rows for rows in curves.values())]
        return [save_figure(strip(curves, shown, layout.groups), folder / "ablation.png")]
    if not select_arms(curves, layout.headline):
        return []
    return [save_figure(_headline(curves, layout), folder / f"{layout.headline}.png")]


def _headline(curves: Mapping[str, Rows], layout: Layout) -> Any:
    label = layout.convention or layout.headline.replace("_", " ")
    if not layout.groups:
        return draw_convergence(curves, layout.headline, label, layout.references)
    many = any(len(members) > len(STYLES) for _, members in layout.groups)
    return (grid if many else league)(curves, layout.headline, label, layout.references, layout.groups)


def _leading(curves: Mapping[str, Rows], groups: Groups) -> Mapping[str, Rows]:
    """Selects the arms whose costs are drawn: those of the first group if there are more arms than styles."""
    if len(curves) <= len(STYLES) or not groups:
        return curves
    return {arm: curves[arm] for arm in groups[0][1] if arm in curves}
