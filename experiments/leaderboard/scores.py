"""Statistics of stored cells: gaps at the end of a run, and environment steps until a gap is reached."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.leaderboard.cells import METHODS, Cell
from gems_jax.evaluate.statistics import Interval, interquartile_mean, stratified_bootstrap
from gems_jax.solvers import reported_profile

Records = dict[Cell, dict[str, Any]]
TOLERANCE = 0.02  # of a budget, by which a run may exceed it and still count
_NEVER = 1e30  # environment steps of a seed that does not reach a level


def judged_column(record: dict[str, Any]) -> str:
    """Names the curve by which a method is ranked: that of the profile it puts forward."""
    average = reported_profile(METHODS[record["method"]][0]) == "average"
    return f"{record['gap']}_average" if average else record["gap"]


def last_values(record: dict[str, Any], column: str) -> np.ndarray:
    """Reads a curve [seeds] at the last iteration that is within the budget and `TOLERANCE` of it.

    A run may play more steps than its budget, as games get longer while policies learn.
    """
    curve, steps = (np.asarray(record["curves"][name], float) for name in (column, "env_steps"))
    within = np.sum(steps <= (1.0 + TOLERANCE) * record["budget"], axis=1)
    return curve[np.arange(len(curve)), np.maximum(within, 1) - 1]


def final_gap(record: dict[str, Any], column: str) -> Interval:
    """Computes the IQM over seeds of a curve at the end of the budget, and its bootstrap 95 % interval."""
    return stratified_bootstrap(last_values(record, column))


def first_reach(record: dict[str, Any], column: str, level: float) -> np.ndarray:
    """Finds the environment steps [seeds] after which a curve is first at or below a level; infinity for never."""
    curve, steps = (np.asarray(record["curves"][name], float) for name in (column, "env_steps"))
    return np.where(curve <= level, steps, np.inf).min(axis=1)


def steps_to_reach(records: list[dict[str, Any]], level: float) -> Interval:
    """Computes the IQM over seeds of the steps to reach a level, in the run that reaches it with the fewest.

    Args:
      records: runs of one method on one game, each for another total budget.
      level: the gap to reach.

    Returns:
      The IQM and its bootstrap 95 % interval. Infinity where a seed that counts does not reach the level.
    """
    found = []
    for record in records:
        steps = np.minimum(first_reach(record, judged_column(record), level), _NEVER)
        found.append(Interval(*(_or_never(each) for each in stratified_bootstrap(steps))))
    return min(found, key=lambda interval: interval.mean, default=Interval(np.inf, np.inf, np.inf))


def _or_never(steps: float) -> float:
    """Infinity where a seed that never reaches the level is part of the mean."""
    return np.inf if steps > 1e-3 * _NEVER else steps


def rank_methods(records: Records, game: str) -> list[str]:
    """Orders the methods of a game by their judged gap, the best first.

    The largest budget that all of them have decides, then smaller ones, then those that some of them have.
    """
    done = {cell: record for cell, record in records.items() if cell.game == game and "skipped" not in record}
    methods = {cell.method for cell in done}

    def is_partial(budget: int) -> bool:
        return any(Cell(game, method, budget) not in done for method in methods)

    budgets = sorted({cell.budget for cell in done}, key=lambda budget: (is_partial(budget), -budget))

    def standing(method: str) -> tuple[float, ...]:
        found = (done.get(Cell(game, method, budget)) for budget in budgets)
        return tuple(np.inf if one is None else final_gap(one, judged_column(one)).mean for one in found)

    return sorted(methods, key=lambda method: (standing(method), method))


def iqm_band(values: np.ndarray, replicates: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes IQM, low and high, [n] each, of curves [seeds, n]: a line with a bootstrap 95 % band."""
    if len(values) < 2:
        line = np.asarray([interquartile_mean(column) for column in values.T])
        return line, line, line
    return tuple(np.asarray([stratified_bootstrap(x, replicates=replicates) for x in values.T]).T)  # type: ignore[return-value]
