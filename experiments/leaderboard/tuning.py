"""Random search for the settings of a baseline: every trial is stored, and the choice is confirmed on other seeds.

Trial 0 has the present settings. Each further trial draws the settings of `SPACES` that the method has. All trials run
on `CHOOSING` seeds; the best `FINALISTS` of them and trial 0 run again on `CONFIRMING` seeds, and the best mean there
is chosen. Seeds of the leaderboard are not used. A chosen trial replaces the settings of a method's cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.leaderboard.cells import METHODS, Cell, choice_path, settings_of
from experiments.leaderboard.running import gap_column, gap_monitor
from experiments.leaderboard.scores import judged_column
from gems_jax.runner import machine
from gems_jax.runner.driver import run
from gems_jax.runner.files import replace_text
from gems_jax.solvers import make_solver

CHOOSING, CONFIRMING = (1000, 1001, 1002), tuple(range(1003, 1010))
FINALISTS = 3
BUDGET = 1_000_000
Draw = Callable[[np.random.Generator], Any]


def _log(low: float, high: float) -> Draw:
    """Draws from a log-uniform distribution, to two significant digits."""
    return lambda draw: float(f"{np.exp(draw.uniform(np.log(low), np.log(high))):.2g}")


def _one_of(*values: Any) -> Draw:
    return lambda draw: values[draw.integers(len(values))]


# Distributions of settings by name; a method draws those that it has.
SPACES: dict[str, Draw] = {
    "learning_rate": _log(0.005, 0.2),
    "critic_learning_rate": _log(0.005, 0.2),
    "entropy_weight": _one_of(0.0, 0.003, 0.01, 0.02, 0.05),
    "opponents": _one_of(32, 64, 128),
    "epochs": _one_of(1, 1, 2),
    "gae_lambda": _one_of(0.9, 0.95, 1.0),
    "entry_episodes": _one_of(100, 300, 1000),
    "weight_step": _log(1.0, 16.0),
    "warm_start": _one_of(0.0, 0.5, 0.9),
    "eta": _one_of(0.25, 0.5, 0.75),
    "acceptance": _log(0.001, 0.1),
    "updates": _one_of(5, 10, 20),
    "exploration": _one_of(0.2, 0.4, 0.6, 0.8),
    "baseline": _one_of("none", "learned"),
    "baseline_rate": _one_of(0.1, 0.3, 0.5, 0.8),
    "plus": _one_of(False, True),
    "linear": _one_of(False, True),
}


def draw_settings(config: Any, trial: int) -> dict[str, Any]:
    """Draws the changed settings of a trial; none for trial 0.

    Args:
      config: the present settings of the method.
      trial: number of the trial, which seeds the draw.

    Returns:
      New values by field name.
    """
    if trial == 0:
        return {}
    draw = np.random.default_rng((7, trial))
    drawn = {name: space(draw) for name, space in SPACES.items()}  # all of them: equal trials of methods are comparable
    return {name: value for name, value in drawn.items() if hasattr(config, name)}


def measure_trial(cell: Cell, settings: dict[str, Any], seeds: Sequence[int]) -> list[float]:
    """Trains a method with these settings and returns the gap [seeds] by which it is ranked."""
    game, method, config = settings_of(cell, settings)
    solver = make_solver(method, game, config)
    done = run(solver, iterations=cell.iterations, seeds=seeds, monitor=gap_monitor(game, solver))
    column = judged_column({"method": cell.method, "gap": gap_column(game)})
    return [float(f"{gap:.6g}") for gap in np.asarray(done.rows[column])[:, -1]]


def tune(game: str, method: str, trials: int, root: Path, report: Callable[[str], None] = print) -> dict[str, Any]:
    """Runs the trials of a method on a game that are not stored yet, and chooses.

    Args:
      game: a game of the leaderboard.
      method: a label of `METHODS`.
      trials: number of trials, the present settings among them.
      root: folder of the stored cells; trials are stored in its folder `trials`.
      report: prints a line.

    Returns:
      The record: "trials", "finalists" and the "chosen" settings.
    """
    cell, path = Cell(game, method, BUDGET), choice_path(game, method, root)
    record = json.loads(path.read_text()) if path.exists() else {"trials": []}
    record |= {
        "method": method, "game": game, "budget": BUDGET, "choosing": CHOOSING,
        "confirming": CONFIRMING,
        "command": f"python -m experiments.leaderboard tune --game {game} --method {method} --trials {trials}",
        **machine.describe_circumstances(),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    present = settings_of(cell, {})[2]
    for trial in range(len(record["trials"]), trials):
        settings = draw_settings(present, trial)
        try:
            gaps: list[float] | None = measure_trial(cell, settings, CHOOSING)
        except ValueError as error:  # the budget does not allow these settings
            gaps = None
            report(f"{game} {method} {trial}: {error}")
        record["trials"].append({"settings": settings, "gaps": gaps})
        replace_text(path, _text(record))
        report(f"{game} {method} {trial}: {np.mean(gaps) if gaps else float('nan'):.4f} {settings}")
    _choose(record, cell)
    replace_text(path, _text(record))
    report(f"{game} {method}: chosen {record['chosen'] or 'the present settings'}")
    return record


def _choose(record: dict[str, Any], cell: Cell) -> None:
    """Runs the finalists on other seeds and notes the best one."""
    ran = [index for index, one in enumerate(record["trials"]) if one["gaps"]]
    best = sorted(ran, key=lambda index: float(np.mean(record["trials"][index]["gaps"])))[:FINALISTS]
    finalists = []
    for index in dict.fromkeys((0, *best)):
        settings = record["trials"][index]["settings"]
        finalists.append({"trial": index, "gaps": measure_trial(cell, settings, CONFIRMING)})
    winner = min(finalists, key=lambda one: float(np.mean(one["gaps"])))["trial"]
    record |= {"finalists": finalists, "chosen": record["trials"][winner]["settings"]}


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"


def tunable_methods() -> list[str]:
    """Lists the labels of baselines with settings to draw; GEMS has presets of its own."""
    return [label for label, (method, _) in METHODS.items() if method != "gems"]
