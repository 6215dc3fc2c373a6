"""Training with final table and figures, for `gems train` and `gems resume`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.runner.console import Console, share_console, summary_table
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.driver import RunResult
from gems_jax.runner.engine import Monitor
from gems_jax.runner.errors import RunError
from gems_jax.runner.measuring import FALLBACK_COLUMNS
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem
from gems_jax.runner.training.train import advance, plan_run


def train_and_report(
    problem: Problem,
    directory: RunDirectory | None,
    options: RunOptions,
    iterations: int,
    seeds: Sequence[int],
    *,
    quiet: bool = False,
    figures: bool = True,
) -> int:
    """Advances a run to a number of iterations, prints its table and draws its figures.

    Args:
      problem: game, method, settings and solver.
      directory: the run's folder; None in a process that only computes.
      options: how the run is driven.
      iterations: total to reach.
      seeds: seeds of the batch.
      quiet: print nothing but errors.
      figures: draw the figures.

    Returns:
      The exit code.
    """
    enable_compilation_cache()
    console = share_console(quiet=quiet or directory is None)
    console.wait("choosing how to measure")
    plan = plan_run(problem, tuple(seeds), options)
    result = advance(plan, directory, console, iterations)
    if directory is not None and result.rows and not result.exit_code:
        _report(problem, directory, result, console, plan.monitor, figures)
    return result.exit_code


def _report(
    problem: Problem, directory: RunDirectory, result: RunResult, console: Console, monitor: Monitor, figures: bool
) -> None:
    shown = [name for name in monitor.headlines or FALLBACK_COLUMNS if name in result.rows]
    title = f"{problem.game.name}, {problem.method}"
    console.table(summary_table(title, result.rows, shown, compile_seconds=result.compile_seconds))
    if figures and monitor.headlines:
        columns = {"panels": shown} if monitor.highest else {"headline": shown[0]}
        console.wait("drawing the figures")
        drawn = _draw(problem.method, result, directory.shared / "figures", columns)
        console.stop()
        console.say(drawn)
    if "budget_total" in result.rows:
        console.say(f"what limits it: gems eval {directory.shared} --why")


def _draw(method: str, result: RunResult, folder: Path, columns: dict[str, Any]) -> str:
    """Draws the run's figures and returns a message; a failure does not fail the run."""
    from gems_jax.viz.figures import draw_run

    try:
        drawn = draw_run({method: result.rows}, folder, **columns)
    except RunError as error:
        return f"no figures: {error}"
    return f"figures in {folder}: {', '.join(path.name for path in drawn)}"
