"""One cell: all its points and seeds in one compiled call, then an ordinary run directory for each point.

A cell may be stopped or killed at any moment and goes on from its last checkpoint, here or on another machine. It is
locked while it is computed; who comes second waits, and finds it done.
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
from gems_jax.runner.errors import RunBusyError, RunError, writing
from gems_jax.runner.files import locked, resolve, write_json
from gems_jax.runner.options import RunOptions
from gems_jax.sweep.folder import SweepFolder, open_folder
from gems_jax.sweep.points import Cell, SweepPlan, make_plan

if TYPE_CHECKING:
    from gems_jax.runner.driver import RunResult
    from gems_jax.runner.engine import Family
    from gems_jax.runner.rebuild import Problem

PATIENCE = 600.0  # seconds that a process waits for another one that holds the cell


class Outcome(NamedTuple):
    """How a cell ended: done, failed, or stopped by a signal."""

    cell: int
    state: str
    reason: str = ""


def run_cell(path: Path | str, number: int, attempt: int = 1, trust: bool = False) -> Outcome:
    """Compute cell `number` of the sweep in the folder `path`, or what is left of it. What goes wrong is an outcome.

    trust: see `make_plan`. It comes from the command line, never from the folder.
    """
    folder = SweepFolder(Path(path))
    try:
        _, file = open_folder(folder.path)
        plan = make_plan(file, trust)
        folder.write_status(number, "running", attempt)
        with _held(folder.cell(number)):
            stopped = _compute(folder, plan, plan.cells[number])
        outcome = Outcome(number, "stopped" if stopped else "done", stopped)
    except Exception as error:
        outcome = Outcome(number, "failed", " ".join(f"{type(error).__name__}: {error}".split())[:500])
    with contextlib.suppress(RunError):
        folder.write_status(number, outcome.state, attempt, outcome.reason)
    return outcome


def _compute(folder: SweepFolder, plan: SweepPlan, cell: Cell) -> str:
    """Why the cell was stopped, "" when it was not."""
    if folder.done(cell):
        return ""
    from gems_jax.runner.driver import run
    from gems_jax.runner.measuring import make_monitor
    from gems_jax.sweep.memory import runs_at_once

    problem = make_problem(plan, cell.points[0])
    seeds = plan.file.seeds * len(cell.points)
    options = run_options(plan)
    directory = _work(folder, plan, cell)
    result = run(
        problem.solver,
        iterations=problem.config.iterations,
        seeds=seeds,
        options=dataclasses.replace(options, keep=1, seed_batch=runs_at_once(plan, cell, len(seeds)) or 0),
        # a point that diverges is a finding, and no reason to stop the others
        monitor=make_monitor(problem.game, problem.solver, options)._replace(allow_nonfinite=None, headlines=()),
        directory=directory,
        family=_family(plan, cell),
    )
    if result.stopped_by:
        return result.stopped_by
    _deliver(folder, plan, cell, directory, result)
    return ""


def _family(plan: SweepPlan, cell: Cell) -> Family | None:
    """The cell's runs as one program whose numbers are the swept fields that may be traced; None without such."""
    if not plan.traced:
        return None
    from gems_jax.runner.engine import Parts
    from gems_jax.runner.measuring import make_monitor
    from gems_jax.sweep.points import family_of

    def parts(own: dict[str, Any]) -> Parts:
        one = make_problem(plan, cell.points[0], own)
        return Parts(one.solver, make_monitor(one.game, one.solver, run_options(plan)))

    columns = {name: [plan.changes[p][name] for p in cell.points for _ in plan.file.seeds] for name in plan.traced}
    return family_of(parts, columns)


def make_problem(plan: SweepPlan, point: int, own: dict[str, Any] | None = None) -> Problem:
    """Makes the problem of a point; `own` are traced values in the place of the point's."""
    from gems_jax.runner.rebuild import Problem
    from gems_jax.solvers import make_solver

    config = plan.configs[point].replace(**(own or {}))
    return Problem(plan.game, plan.file.method, config, make_solver(plan.file.method, plan.game, config))


def run_options(plan: SweepPlan) -> RunOptions:
    """How the runs of a sweep are driven."""
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


def _work(folder: SweepFolder, plan: SweepPlan, cell: Cell) -> RunDirectory:
    """Where the cell's checkpoints and rows are while it goes on: one point's own run directory, or one for all."""
    path, alone = folder.cell(cell.number) / "work", len(cell.points) == 1
    if (path / "config.json").exists():
        return open_run(path) if alone else _joint(plan, cell, path)
    shutil.rmtree(path, ignore_errors=True)  # its making was cut short
    return _point_directory(plan, cell.points[0], path) if alone else _make_joint(plan, cell, path)


def _make_joint(plan: SweepPlan, cell: Cell, path: Path) -> RunDirectory:
    run = _joint(plan, cell, path)
    with writing(path):
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
    write_json(path / "config.json", record)  # last: without it nothing counts
    return run


def _joint(plan: SweepPlan, cell: Cell, path: Path) -> RunDirectory:
    members = tuple(path / f"p{point:04d}" / f"s{seed}" for point in cell.points for seed in plan.file.seeds)
    return RunDirectory(shared=path, members=members, seeds=plan.file.seeds * len(cell.points))


def _deliver(folder: SweepFolder, plan: SweepPlan, cell: Cell, work: RunDirectory, result: RunResult) -> None:
    """Every point's run directory to its place, whole; then the cell's own files are not needed any more."""
    if len(cell.points) == 1:
        with writing(folder.point(cell.points[0])):
            os.rename(work.shared, folder.point(cell.points[0]))
        return
    count = len(plan.file.seeds)
    for place, point in enumerate(cell.points):
        if not folder.point(point).exists():
            path = folder.cell(cell.number) / f"point-{point:04d}"
            shutil.rmtree(path, ignore_errors=True)
            _write_point(_point_directory(plan, point, path), work, slice(place * count, (place + 1) * count), result)
            with writing(folder.point(point)):
                os.rename(path, folder.point(point))
    shutil.rmtree(work.shared, ignore_errors=True)


def _write_point(run: RunDirectory, work: RunDirectory, own: slice, result: RunResult) -> None:
    """Rows and checkpoint of the runs `own` of a cell as those of a point."""
    import jax

    from gems_jax.runner import checkpoint, machine
    from gems_jax.runner.session import Counters

    for there, here in zip(work.members[own], run.members, strict=True):
        with writing(here):
            shutil.copyfile(there / "metrics.csv", here / "metrics.csv")
    none = np.zeros((len(work.members), 1), int)
    episodes, env_steps = (result.rows.get(f"total_{name}", none)[own, -1] for name in ("episodes", "env_steps"))
    counters = Counters(result.seconds, result.compile_seconds, list(map(int, episodes)), list(map(int, env_steps)))
    checkpoint.write_checkpoint(
        run.checkpoints,
        result.iteration,
        jax.tree.map(lambda leaf: leaf[own], {"state": result.state, "monitor": result.monitor}),
        identity=identity(run),
        extra={"counters": dataclasses.asdict(counters), "versions": machine.versions(), "metric": None},
    )
    write_status(run, "done", iteration=result.iteration, iterations=result.iteration)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """The cell for this process alone: another one that holds it (left by a killed sweep) is waited for."""
    until = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(path))
                break
            except RunBusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
        yield
