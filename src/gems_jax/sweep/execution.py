"""Execution of a sweep: finished cells are skipped, failed cells are retried and reported."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gems_jax.runner import machine
from gems_jax.runner.console import Console, format_clock
from gems_jax.runner.directory import claim_folder, slug
from gems_jax.runner.errors import RunError
from gems_jax.runner.files import lock_run, resolve, write_csv, write_json
from gems_jax.runner.signals import StopRequest, stop_request
from gems_jax.sweep import report
from gems_jax.sweep.executors import Executor, make_executor
from gems_jax.sweep.file import SweepFile, read_sweep
from gems_jax.sweep.folder import SweepFolder, create_folder, open_folder
from gems_jax.sweep.memory import bytes_of_run, check_memory
from gems_jax.sweep.points import SweepPlan, make_plan


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """Result of a sweep."""

    folder: Path
    done: int  # number of finished cells
    failed: dict[int, str]  # cells that failed, with the reason
    ranking: report.Ranking | None
    exit_code: int


def run_sweep(
    source: Path,
    *,
    run_dir: Path | None = None,
    root: Path = Path("runs/sweep"),
    console: Console | None = None,
    trust: bool = False,
) -> SweepResult:
    """Runs or resumes a sweep. Errors in its file are raised before any cell starts.

    Args:
      source: a sweep file, or the folder of a sweep to resume.
      run_dir: folder of the sweep; an existing folder of the same sweep is resumed.
      root: folder in which to create the sweep's folder, if `run_dir` is None.
      console: prints progress.
      trust: import the game if the file names a user's own class, `package.module:MyGame`.

    Returns:
      The result. Its exit code is 0 if all cells are done, 1 if some failed, or that of a signal.

    Raises:
      SweepError: if the file is invalid.
    """
    console = console or Console()
    plan, folder = _open_sweep(source, run_dir, root, trust)
    execute = make_executor(plan, folder)
    with lock_run(folder.path), stop_request(console.say) as stop:
        waiting = [cell.number for cell in plan.cells if not folder.done(cell)]
        console.say(_describe_start(plan, folder, len(waiting)))
        failed = _run_cells(plan, folder, waiting, execute, console, stop)
        if stop.signal is not None:
            console.say(f"stopped by {stop.reason}; everything is saved. Continue with: gems sweep {folder.path}")
            return SweepResult(folder.path, _count_done(plan, folder), failed, None, stop.exit_code)
        ranking = _report(plan, folder, failed, console)
    return SweepResult(folder.path, _count_done(plan, folder), failed, ranking, 1 if failed else 0)


def _open_sweep(source: Path, run_dir: Path | None, root: Path, trust: bool) -> tuple[SweepPlan, SweepFolder]:
    if source.is_dir():
        folder, file = open_folder(source)
        return _check_plan(file, trust), folder
    file = read_sweep(source)
    plan = _check_plan(file, trust)
    path = run_dir if run_dir is not None else claim_folder(root / slug(file.name))
    return plan, create_folder(path, file, machine.describe_circumstances())


def _run_cells(
    plan: SweepPlan, folder: SweepFolder, waiting: list[int], execute: Executor, console: Console, stop: StopRequest
) -> dict[int, str]:
    """Computes the cells and retries failed ones; returns the reasons of failed cells."""
    failed: dict[int, str] = {}
    for attempt in range(1, plan.file.run.retries + 2):
        if not waiting or stop.signal is not None:
            break
        for cell, state, reason in execute([(cell, attempt) for cell in waiting], lambda: stop.signal is not None):
            failed.pop(cell, None)
            failed |= {cell: reason} if state == "failed" else {}
            done = f"{_count_done(plan, folder)} of {len(plan.cells)}"
            console.say(f"cell {cell} {state}{reason and ': '}{reason}; {done}")
        waiting = [cell for cell in waiting if not folder.done(plan.cells[cell])]
    return failed


def show_plan(source: Path, console: Console, trust: bool = False) -> None:
    """Prints the cells of a sweep file or of a sweep's folder. trust: see `run_sweep`."""
    plan = _check_plan(open_folder(source)[1] if source.is_dir() else read_sweep(source), trust)
    for cell in plan.cells:
        needed = bytes_of_run(plan, cell)
        memory = f", about {needed / 2**20:.3g} MB each" if needed is not None else ""
        runs = f"{len(cell.points)} points x {len(plan.file.seeds)} seeds{memory}"
        console.say(f"cell {cell.number}: {plan.describe_cell(cell) or 'all'}; {runs}")


def _check_plan(file: SweepFile, trust: bool) -> SweepPlan:
    plan = make_plan(file, trust)
    check_memory(plan)
    return plan


def _count_done(plan: SweepPlan, folder: SweepFolder) -> int:
    return sum(folder.done(cell) for cell in plan.cells)


def _describe_start(plan: SweepPlan, folder: SweepFolder, waiting: int) -> str:
    points, seeds, cells = len(plan.changes), len(plan.file.seeds), len(plan.cells)
    text = f"{plan.file.name}: {points} points x {seeds} seed{'s' * (seeds > 1)} in {cells} cell{'s' * (cells > 1)}"
    if plan.traced:
        text += f" ({', '.join(plan.traced)} within a cell)"
    if waiting < cells:
        text += f", {cells - waiting} already done"
    return f"{text}. Output folder: {folder.path}"


def _report(plan: SweepPlan, folder: SweepFolder, failed: dict[int, str], console: Console) -> report.Ranking | None:
    """Writes table, CSV, JSON and figure of the finished points."""
    for cell, reason in failed.items():
        console.say(f"cell {cell} failed {plan.file.run.retries + 1} times: {reason}")
    try:
        ranking = report.rank_points(plan, folder)
    except RunError as error:
        console.say(f"no summary: {error}")
        return None
    write_csv(folder.path / "summary.csv", report.ranking_records(ranking))
    record = {
        "metric": ranking.metric,
        "highest": ranking.highest,
        "points": report.ranking_records(ranking),
        "seeds": {f"{point.number:04d}": point.seeds for point in ranking.points},
        "failed": {str(cell): reason for cell, reason in failed.items()},
        **machine.describe_circumstances(),
    }
    write_json(folder.path / "summary.json", resolve(record))
    title = f"{plan.file.name}: {plan.file.method} on {plan.file.game}, {len(plan.file.seeds)} seeds"
    figure = report.draw_parallel_coordinates(
        ranking, plan.axes, folder.path / "figures" / "parallel_coordinates.png", title
    )
    console.table(report.ranking_table(ranking, plan.axes).rich(title))
    seconds = sum(_cell_seconds(ranking, cell.points) for cell in plan.cells)
    console.say(
        f"computed in {format_clock(seconds)}, excluding compilation; table in {folder.path}/summary.csv, {figure}"
    )
    return ranking


def _cell_seconds(ranking: report.Ranking, points: tuple[int, ...]) -> float:
    """Returns the seconds of a cell, which all its points report."""
    return max((point.seconds for point in ranking.points if point.number in points), default=0.0)
