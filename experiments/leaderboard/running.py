"""Runs cells of the leaderboard and stores them: all seeds of a cell in one run, a finished cell never again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.leaderboard.cells import GAMES, Cell, settings_of
from gems_jax.evaluate.joint_play import MeanPlay, add_play, regrets, sum_positive_regrets
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import player_gains_of_mixture, policy_tables
from gems_jax.runner import machine
from gems_jax.runner.driver import RunResult, run
from gems_jax.runner.engine import Monitor
from gems_jax.runner.files import replace_text, resolve
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver
from gems_jax.types import Array, Game, PyTree, Solver, is_two_player_zero_sum

SCHEMA = 1
DIGITS = 6  # significant ones that are stored of a measured number
_UNKNOWN = 60.0  # seconds that a cell is taken to need where nothing like it has run
Report = Callable[[str], None]


def gap_column(game: Game) -> str:
    """Names the column that judges profiles: exploitability, or NashConv in games that are not two-player zero-sum."""
    return "exploitability" if is_two_player_zero_sum(game) else "nash_conv"


def gap_monitor(game: Game, solver: Solver) -> Monitor:
    """Measures both profiles after every iteration, exactly, and the CCE gap of games beyond two-player zero-sum."""
    tree, column, zero_sum = build_tree(game), gap_column(game), is_two_player_zero_sum(game)

    def measure(
        play: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array
    ) -> tuple[PyTree, dict[str, Array]]:
        del before, metrics, iteration
        profile = solver.profile(after)
        tables = policy_tables(tree, profile.population, profile.sigma.shape[1])
        mixtures = {column: profile.sigma, f"{column}_average": solver.profile(after, which="average").sigma}
        scale = 0.5 if zero_sum else 1.0
        row = {name: scale * player_gains_of_mixture(tree, tables, sigma).sum() for name, sigma in mixtures.items()}
        if not zero_sum:
            play = add_play(tree, play, tables, profile.sigma)
            row["cce_gap"] = sum_positive_regrets(regrets(tree, play))
        return play, row

    return Monitor(lambda state: () if zero_sum else MeanPlay.zeros(tree), measure, headlines=(column,))


def run_cell(cell: Cell, root: Path, seeds: Sequence[int] | None = None) -> dict[str, Any] | None:
    """Runs a cell that is not stored yet and stores it.

    Args:
      cell: what to run.
      root: folder of all cells.
      seeds: by default those of the game.

    Returns:
      The stored record, or None where the run was interrupted: then nothing is stored. A method that cannot play the
      game, or not within the budget, is stored with its reason under "skipped".

    Raises:
      FileExistsError: if the cell is stored already.
    """
    path = cell.path(root)
    if path.exists():
        raise FileExistsError(f"{path} holds this cell; finished cells are never run again")
    seeds = GAMES[cell.game].seeds if seeds is None else tuple(seeds)
    record = {
        "schema": SCHEMA, "game": cell.game, "method": cell.method, "budget": cell.budget,
        "iterations": cell.iterations, "seeds": list(seeds),
        "command": cell.command + f" --seeds {len(seeds)}" * (len(seeds) < len(GAMES[cell.game].seeds)),
        **machine.describe_circumstances(),
    }  # fmt: skip
    begin = time.perf_counter()
    try:
        game, method, config = settings_of(cell)
        solver = make_solver(method, game, config)
    except ValueError as error:
        found: dict[str, Any] = {"skipped": str(error)}
    else:
        monitor = gap_monitor(game, solver)
        done = run(solver, iterations=cell.iterations, seeds=seeds, options=RunOptions(), monitor=monitor)
        if done.stopped_by:
            return None
        found = {"config": resolve(config), **_outcome(done, gap_column(game))}
    record |= found | {"wall_seconds": round(time.perf_counter() - begin, 2)}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n")
    return record


def _outcome(done: RunResult, column: str) -> dict[str, Any]:
    """Collects the results of a run: seconds, steps played [seeds], and curves [seeds, iterations] by name."""
    names = [name for name in (column, f"{column}_average", "cce_gap") if name in done.rows]
    steps = np.asarray(done.rows["total_env_steps"])
    return {
        "seconds": round(done.seconds, 3),
        "compile_seconds": round(done.compile_seconds, 3),
        "gap": column,
        "env_steps": [int(total) for total in steps[:, -1]],
        "curves": {
            "env_steps": steps.astype(int).tolist(),
            **{name: [[_round(x) for x in seed] for seed in np.asarray(done.rows[name])] for name in names},
        },
    }


def _round(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def load_cells(cells: Iterable[Cell], root: Path) -> dict[Cell, dict[str, Any]]:
    """Reads the stored ones of `cells`."""
    return {cell: json.loads(cell.path(root).read_text()) for cell in cells if cell.path(root).exists()}


def estimate_seconds(cell: Cell, stored: dict[Cell, dict[str, Any]]) -> float:
    """Estimates how long a cell takes, from the nearest stored budget of its method.

    Running time grows with the environment steps, compilation does not. A cell of another game counts as it is; without
    any the estimate is a minute.
    """
    alike = [other for other in stored if other.method == cell.method and "skipped" not in stored[other]]
    if not alike:
        return _UNKNOWN
    nearest = min(alike, key=lambda other: (other.game != cell.game, abs(np.log(other.budget / cell.budget))))
    record = stored[nearest]
    grown = record["seconds"] * cell.budget / nearest.budget
    return float(max(record["wall_seconds"] - record["seconds"], 0.0) + grown)


def describe_plan(cells: Sequence[Cell], root: Path) -> list[str]:
    """Formats what is left to run with estimated seconds, and what finished cells took."""
    stored = load_cells(cells, root)
    left = [cell for cell in cells if cell not in stored]
    lines = [f"finished: {len(stored)} of {len(cells)} cells"]
    for cell, record in stored.items():
        took = f"skipped: {record['skipped']}" if "skipped" in record else _describe_cost(record)
        lines.append(f"  {cell.game:14} {cell.method:14} {cell.budget:>10,}  {took}")
    total = sum(estimate_seconds(cell, stored) for cell in left)
    lines.append(f"left: {len(left)} cells, about {total / 60:.0f} minutes")
    lines += [
        f"  {cell.game:14} {cell.method:14} {cell.budget:>10,}  about {estimate_seconds(cell, stored):.0f} s"
        for cell in left
    ]
    return lines


def _describe_cost(record: dict[str, Any]) -> str:
    ran, compiled, total = (record[name] for name in ("seconds", "compile_seconds", "wall_seconds"))
    return f"{ran:.1f} s, compilation {compiled:.1f} s, in all {total:.1f} s"


def run_cells(
    cells: Sequence[Cell], root: Path, max_minutes: float = 0.0, report: Report = print, num_seeds: int = 0
) -> int:
    """Runs the cells that are not stored yet, one after the other.

    Args:
      cells: which ones.
      root: folder of all cells.
      max_minutes: no cell is started that is estimated to end later; 0: no limit.
      report: prints a line.
      num_seeds: the first seeds of the game alone; 0: all of them.

    Returns:
      0 if nothing is left, 1 if time was up, 130 if a run was interrupted.
    """
    begin, waiting = time.monotonic(), 0
    for cell in cells:
        if cell.path(root).exists():
            continue
        stored = load_cells(cells, root)
        spent = time.monotonic() - begin
        if max_minutes and spent + estimate_seconds(cell, stored) > 60 * max_minutes:
            waiting += 1
            continue
        record = run_cell(cell, root, GAMES[cell.game].seeds[: num_seeds or None])
        if record is None:
            report(f"interrupted: {cell.command} starts this cell again")
            return 130
        took = f"skipped: {record['skipped']}" if "skipped" in record else _describe_cost(record)
        report(f"{cell.game} {cell.method} {cell.budget:,}: {took}")
    if waiting:
        report(f"{waiting} cells left for want of time; the same command continues")
    return 1 if waiting else 0
