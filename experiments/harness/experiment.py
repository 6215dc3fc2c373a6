"""Runs an experiment from its spec (`experiments/harness/spec.py`) and writes all results to one folder.

`run_experiment(spec)` runs every arm with all its seeds in one vmapped program, prints a table and writes

    runs/<name>/<time>/experiment.json          the plan, written before anything starts
                       <arm>/s<seed>/metrics.csv one run directory per arm, with its checkpoints
                       figures/*.png
                       replays/*.gif, *.svg      animations, if the spec requests any
                       summary.csv               every column of every arm at the reported iterations
                       summary.json              the table, intervals, commit, versions, hardware, command

summary.json is written last: a folder that has one is finished and is never overwritten. An interrupted experiment is
resumed in its folder (`run_dir`), arm by arm, from the checkpoints.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.figures import Layout, draw_experiment
from experiments.harness import summary
from experiments.harness.spec import Arm, Check, Experiment, Plan, make_plan
from experiments.harness.summary import ArmResult
from experiments.pictures import draw_pictures
from gems_jax.runner import machine
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, claim_folder, create_run, open_run, slug
from gems_jax.runner.driver import RunResult, run
from gems_jax.runner.engine import Family, Parts
from gems_jax.runner.errors import ConfigMismatchError, RunError, RunExistsError, report_write_errors
from gems_jax.runner.files import differing_field, lock_run, resolve, write_csv, write_json
from gems_jax.runner.labels import column_label
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver, reported_profile
from gems_jax.sweep.points import make_family, traced_fields
from gems_jax.types import Solver

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class ExperimentResult:
    folder: Path
    arms: tuple[ArmResult, ...]
    failures: tuple[str, ...]  # checks that do not hold, one line each
    finished: bool
    exit_code: int


def run_experiment(
    spec: Experiment,
    *,
    quick: bool = False,
    run_dir: Path | str | None = None,
    root: Path | str = "runs",
    console: Console | None = None,
    command: str = "",
) -> ExperimentResult:
    """Runs all arms, prints and writes the results.

    Args:
      spec: the experiment.
      quick: run its quick version.
      run_dir: folder to write to; the folder of the same experiment, interrupted, is resumed.
      root: folder for new experiments, if `run_dir` is None.
      console: where to print.
      command: command line to record.

    Returns:
      The results, and the checks that failed.

    Raises:
      ValueError: if the spec is invalid; nothing has been compiled then.
    """
    plan = make_plan(spec, quick)
    spec, console = plan.spec, console or Console()
    folder = _open_folder(plan, run_dir, Path(root), command)
    console.say(f"{spec.title}: {', '.join(arm.label for arm in spec.arms)}. Everything goes to {folder}")
    with lock_run(folder):
        results: list[ArmResult] = []
        for position, (arm, config, solver) in enumerate(plan.arms, 1):
            console.say(
                f"{arm.label} ({position} of {len(plan.arms)}): {arm.method} on {arm.game or spec.game}, compiled first"
            )
            done = _run_arm(plan, arm, config, solver, folder, console)
            if done.stopped_by:
                return ExperimentResult(folder, tuple(results), (), False, done.exit_code)
            results.append(ArmResult(arm.label, done.rows, done.compile_seconds, reported_profile(arm.method)))
        failures = _finish(plan, folder, results, console)
    return ExperimentResult(folder, tuple(results), failures, True, 1 if failures else 0)


def _open_folder(plan: Plan, run_dir: Path | str | None, root: Path, command: str) -> Path:
    """Creates a folder with its experiment.json, or opens that of the same experiment if it was interrupted."""
    folder = Path(run_dir) if run_dir is not None else claim_folder(root / slug(plan.spec.name))
    record = folder / "experiment.json"
    if (folder / "summary.json").exists():
        raise RunExistsError(f"{folder} holds a finished experiment; experiments are never written over")
    if record.exists():
        there, here = json.loads(record.read_text()), plan.identity()
        differs = differing_field({name: there.get(name) for name in here}, here)
        if differs:
            raise ConfigMismatchError(
                f"{folder} was started with {differs[0]} = {differs[1]!r}, and this is {differs[2]!r}: "
                "give the same settings, or another --run-dir"
            )
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise RunExistsError(f"{folder} is not empty and holds no experiment: choose another folder")
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(record, {"schema": SCHEMA, **plan.identity(), "command": command, **machine.describe_circumstances()})
    return folder


def _run_arm(plan: Plan, arm: Arm, config: Any, solver: Solver, folder: Path, console: Console) -> RunResult:
    spec, options = plan.spec, run_options(plan.spec)
    monitor = make_monitor(plan.games[arm.label], solver, options)
    return run(
        solver,
        family=_family(plan, arm, config, solver),
        iterations=plan.iterations(arm),
        seeds=spec.seeds,
        options=options,
        monitor=monitor._replace(headlines=spec.metrics[:1]),
        directory=_arm_directory(plan, arm, config, folder / slug(arm.label)),
        console=console,
        title=arm.label,
        how_to_resume=f"the same command and --run-dir {folder}",
    )


def run_options(spec: Experiment) -> RunOptions:
    """Returns the options with which the driver runs the arms."""
    return RunOptions(
        chunk=spec.chunk,
        exact=spec.exact,
        evaluation_episodes=spec.evaluation_episodes,
        evaluation_every=spec.evaluation_every,
    )


def _family(plan: Plan, arm: Arm, config: Any, solver: Solver) -> Family | None:
    """Groups the arm with those that share its program; None if it is the only one."""
    program = plan.program(arm.label)
    if program is None or [plan.program(other.label) for other, _, _ in plan.arms].count(program) < 2:
        return None

    def parts(own: dict[str, Any]) -> Parts:
        game = plan.games[arm.label]
        one = make_solver(arm.method, game, config.replace(**own))
        return Parts(one, make_monitor(game, one, run_options(plan.spec)))

    numbers = {name: [getattr(config, name)] * len(plan.spec.seeds) for name in traced_fields(config, solver)}
    return make_family(parts, numbers, program)


def _arm_directory(plan: Plan, arm: Arm, config: Any, path: Path) -> RunDirectory:
    if (path / "config.json").exists():
        return open_run(path)
    spec = plan.spec
    return create_run(
        game=arm.game or spec.game,
        method=arm.method,
        config=config,
        seeds=spec.seeds,
        iterations=plan.iterations(arm),
        path=path,
        # what `gems resume` and `gems eval` on the arm's folder need to do the same
        options={
            "game": plan.game_options(arm),
            "chunk": spec.chunk,
            "exact": spec.exact,
            "evaluation_episodes": spec.evaluation_episodes,
            "evaluation_every": spec.evaluation_every,
            "preset": arm.preset,
        },
    )


def _finish(plan: Plan, folder: Path, results: Sequence[ArmResult], console: Console) -> tuple[str, ...]:
    """Writes figures, files and the table. Returns the checks that failed."""
    spec = plan.spec
    mixed = any(result.judged_by(spec.metrics[0]) != spec.metrics[0] for result in results)
    layout = Layout(
        headline=spec.metrics[0] if spec.exact else "",
        convention=f"{spec.convention}{', of the profile put forward' * mixed}",
        unit=spec.unit,
        references=spec.references,
        panels=spec.panels,
        over_time=spec.over_time,
        groups=spec.groups,
        against=spec.against,
        ablation=spec.metrics if spec.ablation else (),
        bounds={column: [b for c in spec.checks if c.column == column for b in c.bounds] for column in spec.panels},
    )
    curves = {result.label: result.rows_put_forward(spec.metrics[0]) for result in results}
    drawn = draw_experiment(curves, folder / "figures", layout)
    pictures = draw_pictures(plan, folder, console.say)
    drawn += pictures.figures
    if spec.groups:
        table = summary.ranking(results, spec.metrics, spec.report, spec.groups, each=spec.ablation)
    else:
        table = summary.comparison(results, spec.metrics, spec.report)
    told = [_check(check, results) for check in spec.checks]
    numbers = summary.records(results, spec.report)
    write_csv(folder / "summary.csv", numbers)
    start = json.loads((folder / "experiment.json").read_text())
    finished = {
        **start,
        "title": spec.title,
        "convention": spec.convention,
        "finished": machine.describe_circumstances()["created"],
        "table": dataclasses.asdict(table),
        "checks": [text for text, _ in told],
        "figures": [str(path.relative_to(folder)) for path in drawn],
        "replays": [str(path.relative_to(folder)) for path in pictures.replays],
        "pictures": pictures.record,
        "numbers": numbers,
    }
    console.table(table.rich(spec.title))
    for text, _ in told:
        console.say(text)
    for path in (*drawn, *pictures.replays, folder / "summary.csv", folder / "summary.json"):
        console.say(f"written: {path}")
    member = "" if len(spec.seeds) == 1 else "/s<seed>"
    console.say(f"metrics of every arm{' and seed' * bool(member)}: {folder}/<arm>{member}/metrics.csv")
    write_json(folder / "summary.json", resolve(finished))
    return tuple(text for text, holds in told if not holds)


def _check(check: Check, results: Sequence[ArmResult]) -> tuple[str, bool]:
    """Returns the line to print and whether the check holds. A check without numbers does not hold."""
    held = [result for result in results if not check.arms or result.label in check.arms]
    logged = {result.label: result.rows[check.column] for result in held if check.column in result.rows}
    if not logged:
        return f"check failed: no arm logs {check.column}", False
    measured = {label: rows[:, ~np.isnan(rows).all(axis=0)] for label, rows in logged.items()}
    found = {label: rows[:, -1:] if check.at_the_end else rows for label, rows in measured.items() if rows.size}
    if not found:
        return f"check failed: no arm measured {check.column}", False
    when = "in the last iteration of every seed" if check.at_the_end else "in every iteration and seed"
    said, holds = [], True
    for word, bound in check.bounds:
        side = 1.0 if word == "at most" else -1.0
        worst = {label: float((side * rows).max()) for label, rows in found.items()}
        label = max(worst, key=worst.__getitem__)
        holds &= all(value <= side * bound for value in worst.values())  # not a number does not hold
        said.append(f"is {word} {_short(side * worst[label])} {when} (arm {label}), allowed {_short(bound)}")
    return f"check {'holds' if holds else 'FAILED'}: {column_label(check.column)} {' and '.join(said)}", holds


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < math.inf else f"{value:.3g}"


def load_summary(folder: Path | str) -> dict[str, Any]:
    """Reads summary.json of a finished experiment. Raises RunError if there is none."""
    path = Path(folder) / "summary.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{folder} holds no finished experiment: it has no summary.json") from None
