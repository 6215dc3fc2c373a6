"""One cell: all its points and seeds in one compiled call, then an ordinary run directory for each point.

A cell that was stopped or killed resumes from its last checkpoint, on this or another machine. It is locked while it is
computed; a second process waits until it is done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gems_jax.runner.directory import RunDirectory, create_run, identity, open_run, write_status
from gems_jax.runner.errors import RunBusyError, RunError, report_write_errors
from gems_jax.runner.files import lock_run, resolve, write_json
from gems_jax.runner.options import RunOptions
from gems_jax.sweep.folder import SweepFolder, open_folder
from gems_jax.sweep.points import Cell, SweepPlan, make_plan

if TYPE_CHECKING:
    from gems_jax.runner.driver import RunResult
    from gems_jax.runner.engine import Family
    from gems_jax.runner.rebuild import Problem

PATIENCE = 600.0  # seconds to wait for another process that holds the lock of the cell


class Outcome(NamedTuple):
    """Outcome of a cell: done, failed, or stopped by a signal."""

    cell: int
    state: str
    reason: str = ""


def run_cell(path: Path | str, number: int, attempt: int = 1, trust: bool = False) -> Outcome:
    """Computes a cell of a sweep, or resumes it. Errors are returned as an outcome, not raised.

    Args:
      path: the sweep's folder.
      number: number of the cell.
      attempt: number of the attempt, from 1.
      trust: see `make_plan`. It comes from the command line, never from the folder.
    """
    folder = SweepFolder(Path(path))
    try:
        _, file = open_folder(folder.path)
        plan = make_plan(file, trust)
        folder.write_status(number, "running", attempt)
        with _lock_cell(folder.cell(number)):
            stopped = _compute(folder, plan, plan.cells[number])
        outcome = Outcome(number, "stopped" if stopped else "done", stopped)
    except Exception as error:
        outcome = Outcome(number, "failed", " ".join(f"{type(error).__name__}: {error}".split())[:500])
    with contextlib.suppress(RunError):
        folder.write_status(number, outcome.state, attempt, outcome.reason)
    return outcome


def _compute(folder: SweepFolder, plan: SweepPlan, cell: Cell) -> str:
    """Computes a cell; returns the signal that stopped it, or ""."""
    if folder.done(cell):
        return ""
    from gems_jax.runner.driver import run
    from gems_jax.runner.measuring import make_monitor
    from gems_jax.sweep.memory import choose_run_batch

    problem = make_problem(plan, cell.points[0])
    seeds = plan.file.seeds * len(cell.points)
    options = run_options(plan)
    directory = _work_directory(folder, plan, cell)
    result = run(
        problem.solver,
        iterations=problem.config.iterations,
        seeds=seeds,
        options=dataclasses.replace(options, keep=1, seed_batch=choose_run_batch(plan, cell, len(seeds)) or 0),
        # A point that diverges is a result, and does not stop the others.
        monitor=make_monitor(problem.game, problem.solver, options)._replace(allow_nonfinite=None, headlines=()),
        directory=directory,
        family=_family(plan, cell),
    )
    if result.stopped_by:
        return result.stopped_by
    _deliver(folder, plan, cell, directory, result)
    return ""


def _family(plan: SweepPlan, cell: Cell) -> Family | None:
    """Makes the family of the cell's runs, whose values are the traced swept fields; None if there are none."""
    if not plan.traced:
        return None
    from gems_jax.runner.engine import Parts
    from gems_jax.runner.measuring import make_monitor
    from gems_jax.sweep.points import make_family

    def parts(own: dict[str, Any]) -> Parts:
        one = make_problem(plan, cell.points[0], own)
        return Parts(one.solver, make_monitor(one.game, one.solver, run_options(plan)))

    columns = {name: [plan.changes[p][name] for p in cell.points for _ in plan.file.seeds] for name in plan.traced}
    return make_family(parts, columns)


def make_problem(plan: SweepPlan, point: int, own: dict[str, Any] | None = None) -> Problem:
    """Makes the problem of a point; traced values `own` replace those of the point."""
    from gems_jax.runner.rebuild import Problem
    from gems_jax.solvers import make_solver

    config = plan.configs[point].replace(**(own or {}))
    return Problem(plan.game, plan.file.method, config, make_solver(plan.file.method, plan.game, config))


def run_options(plan: SweepPlan) -> RunOptions:
    """Returns the run options of a sweep."""
    return RunOptions.from_record(dataclasses.asdict(plan.file.run))


def _point_directory(plan: SweepPlan, point: int, path: Path) -> RunDirectory:
    return create_run(
        game=plan.file.game,
        method=plan.file.method,
        config=plan.configs[point],
        seeds=plan.file.seeds,
        iterations=plan.configs[point].iterations,
        path=path,
        options={
            "game": dict(plan.file.game_options),
            "preset": plan.file.preset,
            "swept": plan.changes[point],
            **dataclasses.asdict(run_options(plan)),
        },
    )


def _work_directory(folder: SweepFolder, plan: SweepPlan, cell: Cell) -> RunDirectory:
    """Opens or creates the directory of the cell's checkpoints and rows: a point's own, or one for all points."""
    path, alone = folder.cell(cell.number) / "work", len(cell.points) == 1
    if (path / "config.json").exists():
        return open_run(path) if alone else _joint_directory(plan, cell, path)
    shutil.rmtree(path, ignore_errors=True)  # its creation was interrupted
    return _point_directory(plan, cell.points[0], path) if alone else _make_joint(plan, cell, path)


def _make_joint(plan: SweepPlan, cell: Cell, path: Path) -> RunDirectory:
    run = _joint_directory(plan, cell, path)
    with report_write_errors(path):
        for member in run.members:
            member.mkdir(parents=True)
    record = {
        "schema": 1,
        "game": plan.file.game,
        "method": plan.file.method,
        "seeds": list(run.seeds),
        "iterations": plan.configs[cell.points[0]].iterations,
        "config": {str(point): resolve(plan.configs[point]) for point in cell.points},
        "shared": ".",
        "members": [member.relative_to(path).as_posix() for member in run.members],
    }
    write_json(path / "config.json", record)  # written last: marks the directory as complete
    return run


def _joint_directory(plan: SweepPlan, cell: Cell, path: Path) -> RunDirectory:
    members = tuple(path / f"p{point:04d}" / f"s{seed}" for point in cell.points for seed in plan.file.seeds)
    return RunDirectory(shared=path, members=members, seeds=plan.file.seeds * len(cell.points))


def _deliver(folder: SweepFolder, plan: SweepPlan, cell: Cell, work: RunDirectory, result: RunResult) -> None:
    """Moves every point's run directory to points/ atomically, then removes the cell's work files."""
    if len(cell.points) == 1:
        with report_write_errors(folder.point(cell.points[0])):
            os.rename(work.shared, folder.point(cell.points[0]))
        return
    count = len(plan.file.seeds)
    for index, point in enumerate(cell.points):
        if not folder.point(point).exists():
            path = folder.cell(cell.number) / f"point-{point:04d}"
            shutil.rmtree(path, ignore_errors=True)
            _write_point(_point_directory(plan, point, path), work, slice(index * count, (index + 1) * count), result)
            with report_write_errors(folder.point(point)):
                os.rename(path, folder.point(point))
    shutil.rmtree(work.shared, ignore_errors=True)


def _write_point(run: RunDirectory, work: RunDirectory, own: slice, result: RunResult) -> None:
    """Writes rows and checkpoint of the runs `own` of a cell to the run directory of a point."""
    import jax

    from gems_jax.runner import checkpoint, machine
    from gems_jax.runner.integrity.schema import read_text
    from gems_jax.runner.session import Counters
    from gems_jax.runner.writers import checksum_text

    sums = []
    for there, here in zip(work.members[own], run.members, strict=True):
        with report_write_errors(here):
            shutil.copyfile(there / "metrics.csv", here / "metrics.csv")
        sums.append(checksum_text(read_text(here / "metrics.csv")))
    none = np.zeros((len(work.members), 1), int)
    episodes, env_steps = (result.rows.get(f"total_{name}", none)[own, -1] for name in ("episodes", "env_steps"))
    counters = Counters(result.seconds, result.compile_seconds, list(map(int, episodes)), list(map(int, env_steps)))
    checkpoint.write_checkpoint(
        run.checkpoints,
        result.iteration,
        jax.tree.map(lambda leaf: leaf[own], {"state": result.state, "monitor": result.monitor}),
        identity=identity(run),
        extra={
            "counters": dataclasses.asdict(counters),
            "versions": machine.versions(),
            "metric": None,
            "rows": sums,
        },
    )
    write_status(run, "done", iteration=result.iteration, iterations=result.iteration)


@contextlib.contextmanager
def _lock_cell(path: Path) -> Iterator[None]:
    """Locks the cell, and waits for another process (of a killed sweep) that holds it."""
    until = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock_run(path))
                break
            except RunBusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
        yield
