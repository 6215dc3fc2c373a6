"""Experiments as specs: which game, which arms, what to report. A new experiment is one `Experiment(...)`.

`run_experiment(spec)` runs every arm with all its seeds in one vmapped program, prints a table and leaves

    runs/<name>/<time>/experiment.json          what is run, written before anything starts
                       <arm>/s<seed>/metrics.csv one run directory per arm, with its checkpoints
                       figures/*.png
                       summary.csv               every column of every arm at the reported iterations
                       summary.json              the table, intervals, commit, versions, hardware, command

summary.json comes last: a folder that has one is finished and is never written again. An interrupted experiment goes
on in its folder (`run_dir`), arm by arm, from the checkpoints.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.games import make_game
from gems_jax.presets import preset
from gems_jax.run import figures, machine, summary
from gems_jax.run.console import Console
from gems_jax.run.directory import RunDirectory, create_run, open_run, slug
from gems_jax.run.driver import RunResult, run
from gems_jax.run.errors import ConfigMismatchError, RunError, RunExistsError, writing
from gems_jax.run.files import differing_field, locked, resolve, write_json
from gems_jax.run.summary import ArmResult
from gems_jax.solvers import make_solver
from gems_jax.types import Game, Solver

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Arm:
    """One line of the comparison: a method with a preset's settings, or a config, and changes to it."""

    label: str
    method: str = "gems"
    preset: str | None = None
    config: Any = None  # instead of a preset; None and no preset: the method's default
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # further changes for the quick version


@dataclasses.dataclass(frozen=True)
class Check:
    """A column that must stay at or below a number in every iteration of every seed of every arm that logs it."""

    column: str
    at_most: float


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A spec. The first of `metrics` is the headline: progress line, figures."""

    name: str
    title: str
    game: str
    arms: tuple[Arm, ...]
    iterations: int
    seeds: tuple[int, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the game
    metrics: tuple[str, ...] = ("exploitability", "nash_conv")
    report: tuple[int, ...] = (1, 10, 20, 40)
    convention: str = ""  # what the headline is, with its unit: on the figures
    unit: str = "return"  # of the game's returns
    references: tuple[tuple[str, float], ...] = ()  # (label, headline value), lines in the figure
    checks: tuple[Check, ...] = ()
    exact: bool = True  # measure exactly: enumerable games
    chunk: int = 5  # iterations per compiled call: how often the progress line moves
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # fields to change for the quick version


@dataclasses.dataclass(frozen=True)
class ExperimentResult:
    folder: Path
    arms: tuple[ArmResult, ...]
    failures: tuple[str, ...]  # checks that do not hold, one line each
    finished: bool
    exit_code: int


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A spec with everything looked up and checked."""

    spec: Experiment
    game: Game
    arms: tuple[tuple[Arm, Any, Solver], ...]  # with config and solver

    def identity(self) -> dict[str, Any]:
        """What must be the same for an experiment to go on in its folder."""
        arms = {arm.label: {"method": arm.method, "config": resolve(config)} for arm, config, _ in self.arms}
        names = ("name", "game", "options", "seeds", "iterations")
        return {name: resolve(getattr(self.spec, name)) for name in names} | {"arms": arms}


def run_experiment(
    spec: Experiment,
    *,
    quick: bool = False,
    run_dir: Path | str | None = None,
    root: Path | str = "runs",
    console: Console | None = None,
    command: str = "",
) -> ExperimentResult:
    """Run all arms, print and write everything. Bad specs raise ValueError before anything compiles.

    `run_dir` names the folder; one that holds the same experiment, interrupted, is taken up.
    """
    plan = _plan(spec, quick)
    spec, console = plan.spec, console or Console()
    folder = _open_folder(plan, run_dir, Path(root), command)
    console.say(f"{spec.title}: {', '.join(arm.label for arm in spec.arms)}. Everything goes to {folder}")
    with locked(folder):
        results: list[ArmResult] = []
        for position, (arm, config, solver) in enumerate(plan.arms, 1):
            console.say(f"{arm.label} ({position} of {len(plan.arms)}): {arm.method} on {spec.game}")
            done = _run_arm(plan, arm, config, solver, folder, console)
            if done.stopped_by:
                console.say(f"The experiment goes on from here with the same command and --run-dir {folder}")
                return ExperimentResult(folder, tuple(results), (), False, done.exit_code)
            results.append(ArmResult(arm.label, done.rows, done.compile_seconds))
        failures = _finish(plan, folder, results, console)
    return ExperimentResult(folder, tuple(results), failures, True, 1 if failures else 0)


def _plan(spec: Experiment, quick: bool) -> _Plan:
    """Look everything up: unknown games, presets, methods and settings are told now."""
    spec = _replace(spec, spec.quick) if quick else spec
    labels = [arm.label for arm in spec.arms]
    if not labels or len({slug(label) for label in labels}) != len(labels):
        raise ValueError(f"an experiment needs arms with different labels, got {labels}")
    game = make_game(spec.game, **spec.options)
    arms = []
    for arm in spec.arms:
        if arm.preset is not None and arm.config is not None:
            raise ValueError(f"the arm {arm.label!r} has both a preset and a config: give one of them")
        config = preset(spec.game, arm.preset) if arm.preset is not None else arm.config
        changes = {**arm.overrides, **(arm.quick if quick else {})}
        if changes:
            if config is None:
                raise ValueError(f"the arm {arm.label!r} changes {', '.join(changes)} of no config: name a preset")
            config = config.replace(**changes)
        arms.append((arm, config, make_solver(arm.method, game, config)))
    return _Plan(spec, game, tuple(arms))


def _replace(spec: Experiment, changes: Mapping[str, Any]) -> Experiment:
    known = [field.name for field in dataclasses.fields(Experiment)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"an experiment has no field {', '.join(unknown)}; known: {', '.join(known)}")
    return dataclasses.replace(spec, **changes)


def _open_folder(plan: _Plan, run_dir: Path | str | None, root: Path, command: str) -> Path:
    """A new folder with its experiment.json, or that of the same experiment when it was interrupted."""
    folder = Path(run_dir) if run_dir is not None else _new_folder(root / slug(plan.spec.name))
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
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(record, {"schema": SCHEMA, **plan.identity(), "command": command, **_circumstances()})
    return folder


def _new_folder(where: Path) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    with writing(where):
        where.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            folder = where / (stamp if attempt == 1 else f"{stamp}.{attempt}")
            try:
                folder.mkdir()  # the claim: of two processes one succeeds
            except FileExistsError:
                continue
            return folder
    raise RunExistsError(f"no free name for an experiment in {where} at {stamp}")


def _circumstances() -> dict[str, Any]:
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"created": now, **machine.describe(), "processor": summary.processor()}


def _run_arm(plan: _Plan, arm: Arm, config: Any, solver: Solver, folder: Path, console: Console) -> RunResult:
    spec = plan.spec
    init_monitor, measure = (exact_monitor if spec.exact else plain_monitor)(plan.game, solver)
    return run(
        solver,
        iterations=spec.iterations,
        seeds=spec.seeds,
        chunk=spec.chunk,
        measure=measure,
        init_monitor=init_monitor,
        directory=_arm_directory(plan, arm, config, folder / slug(arm.label)),
        console=console,
        title=arm.label,
        best=spec.metrics[0],
    )


def _arm_directory(plan: _Plan, arm: Arm, config: Any, path: Path) -> RunDirectory:
    if (path / "config.json").exists():
        return open_run(path)
    spec = plan.spec
    return create_run(
        game=spec.game,
        method=arm.method,
        config=config,
        seeds=spec.seeds,
        iterations=spec.iterations,
        path=path,
        # what `gems resume` and `gems eval` on the arm's folder need to do the same
        options={"game": spec.options, "chunk": spec.chunk, "exact": spec.exact, "preset": arm.preset},
    )


def _finish(plan: _Plan, folder: Path, results: Sequence[ArmResult], console: Console) -> tuple[str, ...]:
    """Figures, files, table. Returns the checks that failed."""
    spec = plan.spec
    drawn = figures.draw(
        {result.label: result.rows for result in results},
        folder / "figures",
        headline=spec.metrics[0],
        convention=spec.convention,
        unit=spec.unit,
        references=spec.references,
    )
    table = summary.comparison(results, spec.metrics, spec.report)
    told = [_check(check, results) for check in spec.checks]
    numbers = summary.records(results, spec.report)
    summary.write_csv(folder / "summary.csv", numbers)
    start = json.loads((folder / "experiment.json").read_text())
    finished = {
        **start,
        "title": spec.title,
        "convention": spec.convention,
        "finished": _circumstances()["created"],
        "table": dataclasses.asdict(table),
        "checks": [text for text, _ in told],
        "figures": [str(path.relative_to(folder)) for path in drawn],
        "numbers": numbers,
    }
    console.table(table.rich(spec.title))
    for text, _ in told:
        console.say(text)
    for path in (*drawn, folder / "summary.csv", folder / "summary.json"):
        console.say(f"written: {path}")
    member = "" if len(spec.seeds) == 1 else "/s<seed>"
    console.say(f"metrics of every arm{' and seed' * bool(member)}: {folder}/<arm>{member}/metrics.csv")
    write_json(folder / "summary.json", resolve(finished))
    return tuple(text for text, holds in told if not holds)


def _check(check: Check, results: Sequence[ArmResult]) -> tuple[str, bool]:
    """(line to print, whether it holds). A check that nothing could be held against does not hold."""
    worst = {result.label: float(result.rows[check.column].max()) for result in results if check.column in result.rows}
    if not worst:
        return f"check failed: no arm logs {check.column}", False
    label = max(worst, key=lambda name: worst[name])
    holds = worst[label] <= check.at_most
    return (
        f"check {'holds' if holds else 'FAILED'}: {summary.readable(check.column)} is at most {worst[label]:.3g} in "
        f"every iteration and seed (arm {label}), allowed {check.at_most:.3g}",
        holds,
    )


def load_summary(folder: Path | str) -> dict[str, Any]:
    """summary.json of a finished experiment."""
    path = Path(folder) / "summary.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{folder} holds no finished experiment: it has no summary.json") from None
