"""What `gems train` and `gems resume` have in common: from a problem and a run directory to the final table."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from jax.experimental import checkify

from gems_jax.runner.console import Console, summary_table
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.driver import RunResult, run
from gems_jax.runner.engine import Monitor
from gems_jax.runner.errors import NonFiniteError, RunError
from gems_jax.runner.measuring import OTHERWISE, make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem
from gems_jax.types import Array, PyTree, Solver


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
    """Brings the run in `directory` to `iterations`, shows the table, draws the figures, and returns the exit code.

    The directory is None in a process that only helps to compute.
    """
    console = Console(quiet=quiet or directory is None)
    monitor, solver = make_monitor(problem.game, problem.solver, options), problem.solver
    if monitor.note:
        console.say(monitor.note)
    if options.debug and solver.jittable:
        solver = check_operations(solver)
        console.say("debugging: every operation is checked for NaN, one iteration at a time")
    result = run(
        solver,
        iterations=iterations,
        seeds=seeds,
        options=options,
        monitor=monitor,
        directory=directory,
        console=console,
        title=f"{problem.game.name} {problem.method}",
    )
    if directory is not None and result.rows and not result.exit_code:
        _report(problem, directory, result, console, monitor, figures)
    return result.exit_code


def _report(
    problem: Problem, directory: RunDirectory, result: RunResult, console: Console, monitor: Monitor, figures: bool
) -> None:
    shown = [name for name in monitor.headlines or OTHERWISE if name in result.rows]
    title = f"{problem.game.name}, {problem.method}"
    console.table(summary_table(title, result.rows, shown, compile_seconds=result.compile_seconds))
    if figures and monitor.headlines:
        columns = {"panels": shown} if monitor.highest else {"headline": shown[0]}
        console.say(_draw(problem.method, result, directory.shared / "figures", columns))
    if "budget_total" in result.rows:
        console.say(f"what limits it: gems eval {directory.shared} --why")


def _draw(method: str, result: RunResult, folder: Path, columns: dict[str, Any]) -> str:
    """Draws the run's figures, and says which; a failure costs nothing but them."""
    from gems_jax.viz.figures import draw_run

    try:
        drawn = draw_run({method: result.rows}, folder, **columns)
    except RunError as error:
        return f"no figures: {error}"
    return f"figures in {folder}: {', '.join(path.name for path in drawn)}"


def check_operations(solver: Solver) -> Solver:
    """The solver with every operation of its step checked for NaN. It leaves the device after every iteration."""
    step = jax.jit(checkify.checkify(solver.step, errors=checkify.nan_checks | checkify.user_checks))

    def checked_step(state: PyTree, key: Array) -> tuple[PyTree, PyTree]:
        error, result = step(state, key)
        try:
            error.throw()
        except checkify.JaxRuntimeError as found:
            number = getattr(state, "step", None)
            when = "" if number is None else f" in iteration {int(number) + 1}"
            raise NonFiniteError(f"NaN{when}: {str(found).rstrip('.')}{_where(found.__cause__ or found)}") from found
        return result

    return solver._replace(init=jax.jit(solver.init), step=checked_step)


def _where(error: BaseException) -> str:
    """The line of this package, or of the user's own game, that the operation stands in."""
    frames = [(Path(frame.filename), frame) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [frame for path, frame in frames if "gems_jax" in path.parts or "site-packages" not in path.parts]
    if not ours or ours[-1].filename == __file__:
        return ""
    return f", at {Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}: {ours[-1].line}"
