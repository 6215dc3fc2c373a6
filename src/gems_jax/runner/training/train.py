"""Training in one call, for programs and notebooks.

    run = gems_jax.train("kuhn_poker", iterations=40, seeds=5)
    run.exploitability()              # [5], one for each seed
    run.metrics["exploitability"]     # [5, 40]
    run.save("runs/mine")             # a run folder, which `gems_jax.load` and the command line read

The command line trains by the same functions.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import checkify

from gems_jax import solvers
from gems_jax.games import describe_game, make_game
from gems_jax.gems.paper_presets import paper_game_options
from gems_jax.host.stages import on_host
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.driver import RunResult, run, show_compilation
from gems_jax.runner.engine import Family, Parts, make_engine
from gems_jax.runner.errors import NonFiniteError
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem, starting_settings
from gems_jax.runner.training.program_names import choose_monitor, describe_monitor, program_name
from gems_jax.runner.training.run import Run, RunPlan, create_run_folder
from gems_jax.types import Array, Game, PyTree, Solver, did_you_mean

Callback = Callable[[dict[str, np.ndarray]], object]  # callback(row of all seeds) -> True to stop


def train(
    game: Game | str,
    method: str = "gems",
    *,
    preset: str | None = None,
    config: Any = None,
    iterations: int | None = None,
    seeds: int | Sequence[int] = 1,
    budget: int = 0,
    callback: Callback | None = None,
    run_dir: Path | str | None = None,
    progress: bool = False,
    **options: Any,
) -> Run:
    """Trains a method on a game, for several seeds at once.

    Settings are those of `gems train` with the same arguments, and so are the results. Nothing is printed unless
    `progress` is set. Ctrl-C stops after the current chunk of iterations and returns what is there.

    >>> import gems_jax
    >>> run = gems_jax.train("matching_pennies", "cfr_plus", iterations=20, seeds=2)
    >>> run.metrics["exploitability"].shape, bool(run.exploitability().max() < 0.05)
    ((2, 20), True)

    Args:
      game: the game to solve, or its name as in `make_game`.
      method: a method of `METHODS`.
      preset: name of the settings of GEMS, as in `preset`; by default the best that the game has.
      config: settings of the method instead of a preset.
      iterations: number of iterations; by default that of the settings.
      seeds: number of seeds, counted from 0, or the seeds.
      budget: environment steps per iteration, as in `make_solver`; 0 leaves the settings unchanged.
      callback: called with `{column: [seeds]}` for each iteration, as soon as its chunk is computed. If it returns
        True, the run stops after that chunk at the latest.
      run_dir: new or empty folder for metrics and checkpoints, which are written as the run proceeds. `gems resume`
        continues it. By default nothing is written; see `Run.save`.
      progress: print progress and messages.
      **options: fields of `gems_jax.runner.options.RunOptions`, such as `chunk` (iterations per chunk) and
        `evaluation_episodes`.

    Returns:
      A `Run` with the metrics and mixtures of all seeds.

    Raises:
      ValueError: if an argument is out of range, does not exist, or does not fit the game.
      RunError: if `run_dir` is not empty or cannot be written.
      NonFiniteError: if NaN or infinity appears.
    """
    game, named = _name_game(game, preset)
    config, chosen = _choose_settings(method, named[0] if named else game.name, game, preset, config)
    if iterations is not None:
        config = dataclasses.replace(config, iterations=iterations)
    problem = build_problem(game, method, config.validate(), budget)
    fitted = fit_options(_make_options(options), game)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    plan = plan_run(problem, numbers, fitted, named, chosen)
    directory = None if run_dir is None else create_run_folder(plan, run_dir)
    console = TrainingConsole(callback, quiet=not progress)
    return Run(plan, advance(plan, directory, console), directory)


def _name_game(game: Game | str, preset: str | None) -> tuple[Game, tuple[str, dict[str, Any]] | None]:
    """The game, and its name and options, None if there are none. A preset of a name may have options of the game."""
    if not isinstance(game, str):
        return game, describe_game(game)
    options = paper_game_options(game, preset)
    return make_game(game, **options), (game, options)


def _choose_settings(method: str, name: str, game: Game, preset: str | None, config: Any) -> tuple[Any, str]:
    """The settings, and the name of their preset ("" for none)."""
    if config is None:
        return starting_settings(method, name, game, preset or "")
    if preset:
        raise ValueError(f"train: expected a preset or a config, got both, preset={preset!r}. Leave one out.")
    return config, ""


def _make_options(options: Mapping[str, Any]) -> RunOptions:
    known = [field.name for field in dataclasses.fields(RunOptions)]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, [*known, "preset", "config", "iterations", "seeds", "budget"])
            raise ValueError(f"train: unknown option {name!r}; {hint}known options of a run: {', '.join(known)}.")
    return RunOptions(**options).validate()


def build_problem(game: Game, method: str, config: Any, budget: int = 0) -> Problem:
    """Makes the problem of a game and settings, within a budget.

    Args:
      game: the game.
      method: name of the method.
      config: settings of the method.
      budget: environment steps per iteration; 0 leaves the settings unchanged.

    Returns:
      The problem.

    Raises:
      ValueError: if the method is unknown, or the settings do not fit it, the game or the budget.
    """
    if budget:
        config = solvers.apply_budget(method, game, config, budget)
    return Problem(game, method, config, solvers.make_solver(method, game, config))


def fit_options(options: RunOptions, game: Game) -> RunOptions:
    """Adapts the options to a game: an iteration of a Python game takes seconds, so each is a chunk."""
    return dataclasses.replace(options, chunk=1) if on_host(game) else options


def plan_run(
    problem: Problem,
    seeds: tuple[int, ...],
    options: RunOptions,
    named: tuple[str, dict[str, Any]] | None = None,
    preset: str = "",
) -> RunPlan:
    """Plans a run: chooses how it is measured, and names its stored programs.

    Args:
      problem: game, method, settings and solver.
      seeds: seeds of the batch.
      options: options of the run, fitted to the game.
      named: name and options of the game, for files.
      preset: name of the settings.

    Returns:
      The plan.
    """
    program = program_name(problem, len(seeds), options)
    return RunPlan(problem, seeds, options, choose_monitor(problem, options, program), named, preset, program)


def advance(
    plan: RunPlan, directory: RunDirectory | None, console: Console, iterations: int | None = None
) -> RunResult:
    """Advances a run to a number of iterations, with messages.

    Args:
      plan: the run. If its options say `debug`, every operation is checked.
      directory: the run's folder; None writes nothing.
      console: prints progress and messages.
      iterations: total to reach; by default that of the settings.

    Returns:
      The states and rows.
    """
    solver = plan.problem.solver
    if plan.monitor.note:
        console.say(plan.monitor.note)
    if plan.options.debug and solver.jittable:
        solver = check_operations(solver)
        console.say("debug mode: every operation is checked for NaN, one iteration at a time")
    parts = Parts(solver, plan.monitor)
    return run(
        solver,
        iterations=iterations or plan.problem.config.iterations,
        seeds=plan.seeds,
        options=plan.options,
        monitor=plan.monitor,
        directory=directory,
        console=console,
        title=f"{plan.problem.game.name} {plan.problem.method}",
        family=_stored_family(parts, plan.program),
    )


def prepare(plan: RunPlan, console: Console) -> None:
    """Compiles the programs of a run ahead, and stores them.

    Args:
      plan: the run, of a jittable solver.
      console: shows what is waited for.
    """
    parts, seeds = Parts(plan.problem.solver, plan.monitor), plan.seeds
    family = _stored_family(parts, plan.program)
    engine = make_engine(parts.solver, seeds, plan.options, parts.monitor, family, plan.problem.config.iterations)
    with show_compilation(console, "first state"):
        carry, _ = engine.start()
    with show_compilation(console, "iteration"):
        engine.compile(carry)


def _stored_family(parts: Parts, program: str) -> Family | None:
    """Names the programs of runs that differ in nothing but their seeds; None without a name."""
    if not program:
        return None
    return Family(lambda own: parts, (), stored=program, notes=describe_monitor(parts.monitor))


class TrainingConsole(Console):
    """Passes the rows of a run to a callback, which may stop it."""

    def __init__(self, callback: Callback | None = None, quiet: bool = True) -> None:
        super().__init__(quiet=quiet)
        self._callback = callback

    def record(self, rows: Mapping[str, np.ndarray]) -> None:
        """Calls the callback once for each iteration of a chunk."""
        if self._callback is None:
            return
        for number in range(rows["iteration"].shape[1]):
            asked = self._callback({name: column[:, number] for name, column in rows.items()})
            self.stop_requested = self.stop_requested or bool(asked)


def check_operations(solver: Solver) -> Solver:
    """Wraps a solver so that every operation of its step is checked for NaN. The step is called from Python."""
    step = jax.jit(checkify.checkify(solver.step, errors=checkify.nan_checks | checkify.user_checks))

    def checked_step(state: PyTree, key: Array) -> tuple[PyTree, PyTree]:
        error, result = step(state, key)
        try:
            error.throw()
        except checkify.JaxRuntimeError as found:
            number = getattr(state, "step", None)
            when = "" if number is None else f" in iteration {int(number) + 1}"
            raise NonFiniteError(f"NaN{when}: {str(found).rstrip('.')}{_locate(found.__cause__ or found)}") from found
        return result

    return solver._replace(init=jax.jit(solver.init), step=checked_step)


def _locate(error: BaseException) -> str:
    """Names the line of this package, or of the user's own game, that contains the operation."""
    frames = [(Path(frame.filename), frame) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [frame for path, frame in frames if "gems_jax" in path.parts or "site-packages" not in path.parts]
    if not ours or ours[-1].filename == __file__:
        return ""
    return f", at {Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}: {ours[-1].line}"
