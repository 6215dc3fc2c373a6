"""`gems train GAME`: everything that can be wrong is found before anything compiles or any folder is made."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro

from gems_jax.cli.parsing import HELP, UsageError, check_least, flags_of, parse
from gems_jax.runner.errors import RunError
from gems_jax.runner.options import RunOptions

if TYPE_CHECKING:
    from gems_jax.runner.rebuild import Problem

C = TypeVar("C")
PROG = "gems train"
# What --quick allows of each setting at most: a look at the whole pipeline, not a result.
QUICK = {
    "iterations": 5,
    "meta_steps": 10,
    "mixture_samples": 64,
    "abr_steps": 5,
    "rounds": 10,
    "entry_episodes": 50,
}


@dataclasses.dataclass(frozen=True)
class Train:
    """Where the run goes and how it is watched; flags of the method follow below."""

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """Game to solve: see `gems games`. Your own: package.module:MyGame."""
    preset: str = ""
    """Named settings of the game, which the flags below then change (default: tuned, or paper where there is none)."""
    method: str = "gems"
    """Method to solve it with; its own settings are then the flags below (--method psro --help)."""
    budget: int = 0
    """Env steps per iteration, for every method that learns from episodes (0: as its own settings have it). GEMS
    divides them between estimating, oracle, trust region and training."""
    quick: bool = False
    """A short version that only shows that everything works."""
    seed: int = 0
    """Seed; the first one of several."""
    seeds: int = 1
    """How many seeds to run as one batch."""
    distributed: bool = False
    """One program of several processes, the same line started on every host (SLURM, TPU pods, or by the variables
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID); implies --mesh. Process 0 writes and speaks."""
    run_dir: Path | None = None
    """Folder of the run, which must not hold anything yet (default: runs/GAME/METHOD/TIME-sSEED)."""
    game_option: tuple[str, ...] = ()
    """Options of the game as name=value, several apart by spaces."""
    options: tyro.conf.OmitArgPrefixes[RunOptions] = RunOptions()
    figures: bool = True
    """Draw the run's figures at its end, where it was measured."""
    quiet: bool = False
    """Show nothing but errors."""


@dataclasses.dataclass(frozen=True)
class Arguments(Generic[C]):
    run: tyro.conf.OmitArgPrefixes[Train]
    settings: tyro.conf.OmitArgPrefixes[C]


def main(argv: Sequence[str]) -> int:
    from gems_jax.runner.rebuild import default_settings

    try:
        default = default_settings(_method_of(argv))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if any(word in HELP for word in argv):
        return _help(argv, default)
    first = _parse(argv, default)
    run = _with_preset_options(first.run)
    _validated(first.settings)
    if run.distributed:
        from gems_jax.runner.distributed import join

        join()
    _check(run)
    game = make_named_game(run.game, run.game_option)
    base, name = _base_settings(run, game)
    config = _validated(_parse(argv, base).settings) if base != default else first.settings
    return _train(run, game, config, name)


def _with_preset_options(run: Train) -> Train:
    """The options with those of the game that the preset `paper` is for, before the user's own."""
    from gems_jax.gems.paper_presets import paper_game_options

    pairs = tuple(f"{name}={value!r}" for name, value in paper_game_options(run.game, run.preset).items())
    return dataclasses.replace(run, game_option=(*pairs, *run.game_option))


def _parse(argv: Sequence[str], base: Any) -> Any:
    """The line as run options and settings, whose defaults are `base`."""
    kind = type(base)
    flags = flags_of(Train) | flags_of(kind)
    # A game's name that is missing must stay missing: tyro's own mark for it is the default.
    default = Arguments(run=Train(game=tyro.MISSING), settings=base)
    return parse(Arguments[kind], argv, prog=PROG, default=default, flags=flags)  # type: ignore[valid-type]


def _method_of(argv: Sequence[str]) -> str:
    """The value of --method, which decides what flags there are."""
    for index, word in enumerate(argv):
        if word.startswith("--method="):
            return word.partition("=")[2]
        if word == "--method":
            return argv[index + 1] if index + 1 < len(argv) else ""
    return "gems"


def _help(argv: Sequence[str], base: Any) -> int:
    """Help whose defaults are those of the preset that the rest of the line asks for, where it can be read."""
    try:
        run = _parse([word for word in argv if word not in HELP], base).run
        base, _ = _base_settings(run, None)
    except UsageError:
        pass
    _parse(["--help"], base)  # prints, and leaves
    return 0


def _validated(config: Any) -> Any:
    """The config or options, or their complaint with the field as the flag it is here."""
    try:
        return config.validate()
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        known = {field.name for field in dataclasses.fields(config)}
        raise UsageError(f"--{name.replace('_', '-')} {rest}" if name in known else str(error)) from None


def _check(run: Train) -> None:
    """Everything that can be said without knowing the game."""
    check_least(run, seeds=1, budget=0)
    if not 0 <= run.seed < 2**31 - run.seeds:
        raise UsageError(f"--seed must be a whole number from 0 to 2^31, room for {run.seeds} seeds: got {run.seed}")
    _validated(run.options)
    writes = not run.distributed or _primary()
    if run.run_dir is not None and writes:
        from gems_jax.runner.directory import check_free

        check_free(run.run_dir)


def _primary() -> bool:
    from gems_jax.runner.distributed import primary

    return primary()


def parse_game_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`a=1 shared=True name=x` as keyword arguments; what is not a Python literal is a string."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError(f"--game-option takes name=value: got {pair!r}")
        try:
            options[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[name] = text
    return options


def make_named_game(name: str, pairs: Sequence[str]) -> Any:
    """The game, or a UsageError: it may be the user's own, so that anything can go wrong in it."""
    from gems_jax.games import make_game

    try:
        return make_game(name, **parse_game_options(pairs))
    except (ValueError, TypeError, ImportError) as error:
        raise UsageError(str(error)) from error
    except RunError:
        raise
    except Exception as error:
        raise UsageError(f"the game {name!r} cannot be made: {type(error).__name__}: {error}") from error


def _base_settings(run: Train, game: Any) -> tuple[Any, str]:
    """The settings that the flags change, and the name of the preset they come from ("" for none)."""
    from gems_jax.runner.rebuild import starting_settings

    try:
        base, name = starting_settings(run.method, run.game, game, run.preset)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if run.quick:
        caps = {key: min(getattr(base, key), cap) for key, cap in QUICK.items() if hasattr(base, key)}
        base = dataclasses.replace(base, **caps)
    return base, name


def _train(run: Train, game: Any, config: Any, preset: str) -> int:
    from gems_jax.cli.training import train_and_report
    from gems_jax.runner.directory import create_run

    problem = _make_problem(run, game, config)
    options = _fit_options(run, problem)
    iterations, seeds = problem.config.iterations, range(run.seed, run.seed + run.seeds)
    directory = None
    if not run.distributed or _primary():
        own = {"game": parse_game_options(run.game_option), "preset": preset, "quick": run.quick}
        directory = create_run(
            game=run.game,
            method=run.method,
            config=problem.config,
            seeds=seeds,
            iterations=iterations,
            path=run.run_dir,
            options={**own, **dataclasses.asdict(options)},
        )
    return train_and_report(problem, directory, options, iterations, seeds, quiet=run.quiet, figures=run.figures)


def _make_problem(run: Train, game: Any, config: Any) -> Problem:
    """The problem within its budget. UsageError for settings that do not go with the game."""
    import jax

    from gems_jax.host.stages import on_host
    from gems_jax.runner.rebuild import Problem
    from gems_jax.solvers import make_solver, with_budget

    try:
        if run.budget:
            config = with_budget(run.method, game, config, run.budget)
        problem = Problem(game, run.method, config, make_solver(run.method, game, config))
        if problem.solver.jittable or (on_host(game) and run.method == "gems"):
            jax.eval_shape(problem.solver.init, jax.random.key(0))
    except ValueError as error:
        raise UsageError(str(error)) from error
    return problem


def _fit_options(run: Train, problem: Problem) -> RunOptions:
    """The options as this game is run with them: an iteration of a game in Python takes seconds, so each is shown."""
    from gems_jax.host.stages import on_host

    options = dataclasses.replace(run.options, mesh=run.options.mesh or run.distributed)
    if options.mesh and not problem.solver.jittable:
        raise UsageError(f"--mesh needs a method that is compiled as a whole, {run.method} on {run.game} is not")
    if not on_host(problem.game):
        return options
    return dataclasses.replace(options, chunk=1, evaluation_every=1 if run.quick else options.evaluation_every)
