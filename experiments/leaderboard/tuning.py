"""Random search for the settings of a baseline: every trial is stored, and the choice is confirmed on other seeds.

Trial 0 has the present settings. Each further trial draws the settings of `SPACES` that the method has. All trials run
on `CHOOSING` seeds at a small budget. For each budget of the leaderboard, the best `FINALISTS` of them and trial 0 run
again on `CONFIRMING` seeds, and the best mean there is chosen for the cells of that budget. Budgets without a choice
keep the present settings. Seeds of the leaderboard are not used.

Methods with the learner and the payoff table of PSRO take its trials (`SEARCHED_WITH`), but choose for themselves.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.leaderboard.cells import METHODS, SEARCHED_WITH, Cell, choice_path, settings_of
from experiments.leaderboard.running import gap_column, gap_monitor
from experiments.leaderboard.scores import judged_column
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import player_gains_of_mixture, policy_tables
from gems_jax.runner import machine
from gems_jax.runner.driver import run
from gems_jax.runner.files import replace_text
from gems_jax.solvers import make_solver, reported_profile
from gems_jax.types import Game, Solver, is_two_player_zero_sum

CHOOSING, CONFIRMING = (1000, 1001, 1002), tuple(range(1003, 1008))
FINALISTS = 3
BUDGET = 300_000
CONFIRMED_AT = (100_000, 1_000_000)
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
    """Trains a method with these settings and returns the gap [seeds] by which it is ranked.

    Methods whose step runs in Python are measured once, after the last iteration. They share compiled programs with
    all trials that have equal integers; a cell of these settings and seeds ends with the same gap.
    """
    game, method, config = settings_of(cell, settings)
    solver = make_solver(method, game, config)
    if solver.jittable:
        done = run(solver, iterations=cell.iterations, seeds=seeds, monitor=gap_monitor(game, solver))
        column = judged_column({"method": cell.method, "gap": gap_column(game)})
        gaps = np.asarray(done.rows[column])[:, -1]
    else:
        gaps = np.asarray([_train(solver, method, game, cell.iterations, seed) for seed in seeds])
    return [float(f"{gap:.6g}") for gap in gaps]


def _train(solver: Solver, method: str, game: Game, iterations: int, seed: int) -> float:
    """Trains one seed with the keys of the runner, and measures the profile by which the method is ranked."""
    key = jax.random.key(seed)
    state = solver.init(jax.random.fold_in(key, 0))
    for iteration in range(1, iterations + 1):
        state, _ = solver.step(state, jax.random.fold_in(key, iteration))
    profile = solver.profile(state, which=reported_profile(method))
    return float(_measure_gap(game, profile.population, profile.sigma))


@functools.partial(jax.jit, static_argnames="game")
def _measure_gap(game: Game, population: Any, sigma: jax.Array) -> jax.Array:
    """Measures NashConv of a profile, or half of it if the game is zero-sum and has two players."""
    tree = build_tree(game)
    gains = player_gains_of_mixture(tree, policy_tables(tree, population, sigma.shape[1]), sigma)
    return (0.5 if is_two_player_zero_sum(game) else 1.0) * gains.sum()


def tune(
    game: str, method: str, trials: int, root: Path, budgets: Sequence[int] = (), report: Callable[[str], None] = print
) -> dict[str, Any]:
    """Runs the trials of a method on a game that are not stored yet, and chooses settings for total budgets.

    Args:
      game: a game of the leaderboard.
      method: a label of `METHODS`. One of `SEARCHED_WITH` takes the trials of the other, and confirms them itself.
      trials: number of trials, the present settings among them.
      root: folder of the stored cells; trials are stored in its folder `trials`.
      budgets: total budgets to choose settings for; by default those of `CONFIRMED_AT`.
      report: prints a line.

    Returns:
      The record: "trials", and by budget "finalists" and the "chosen" settings.
    """
    if method in SEARCHED_WITH:
        searched = tune(game, SEARCHED_WITH[method], trials, root, (), report)["trials"]
    else:
        searched = _search(game, method, trials, root, report)
    path = choice_path(game, method, root)
    record = _load(path)
    for budget in budgets or CONFIRMED_AT:
        if str(budget) not in record.get("finalists", {}):
            _choose(record, Cell(game, method, budget), searched)
            replace_text(path, _text(record | _describe(game, method, trials)))
        report(f"{game} {method} {budget:,}: chosen {record['chosen'][str(budget)] or 'the present settings'}")
    return {**_load(path), "trials": searched}


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _describe(game: str, method: str, trials: int) -> dict[str, Any]:
    return {
        "method": method, "game": game, "budget": BUDGET, "choosing": CHOOSING, "confirming": CONFIRMING,
        "searched_with": SEARCHED_WITH.get(method, method),
        "command": f"python -m experiments.leaderboard tune --game {game} --method {method} --trials {trials}",
        **machine.describe_circumstances(),
    }  # fmt: skip


def _search(game: str, method: str, trials: int, root: Path, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Runs the trials that are not stored yet and returns all of them."""
    cell, path = Cell(game, method, BUDGET), choice_path(game, method, root)
    record = {"trials": [], **_load(path)}
    present = settings_of(cell, {})[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    for trial in range(len(record["trials"]), trials):
        settings = draw_settings(present, trial)
        try:
            gaps: list[float] | None = measure_trial(cell, settings, CHOOSING)
        except ValueError as error:  # the budget does not allow these settings
            gaps = None
            report(f"{game} {method} {trial}: {error}")
        record["trials"].append({"settings": settings, "gaps": gaps})
        replace_text(path, _text(record | _describe(game, method, trials)))
        report(f"{game} {method} {trial}: {np.mean(gaps) if gaps else float('nan'):.4f} {settings}")
    return record["trials"]


def _choose(record: dict[str, Any], cell: Cell, searched: Sequence[dict[str, Any]]) -> None:
    """Runs the finalists at the budget of the cell, on other seeds, and notes the best one."""
    ran = [index for index, one in enumerate(searched) if one["gaps"]]
    best = sorted(ran, key=lambda index: float(np.mean(searched[index]["gaps"])))[:FINALISTS]
    finalists = []
    for index in dict.fromkeys((0, *best)):
        finalists.append({"trial": index, "gaps": measure_trial(cell, searched[index]["settings"], CONFIRMING)})
    winner = min(finalists, key=lambda one: float(np.mean(one["gaps"])))["trial"]
    record.setdefault("finalists", {})[str(cell.budget)] = finalists
    record.setdefault("chosen", {})[str(cell.budget)] = searched[winner]["settings"]


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"


def tunable_methods() -> list[str]:
    """Lists the labels of baselines with settings to draw; GEMS has presets of its own."""
    return [label for label, (method, _) in METHODS.items() if method != "gems"]
