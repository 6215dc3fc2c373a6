"""Trains a method on a game: `gems train GAME`. All settings are checked before any folder is created.

What the words of a line already show is checked first: the folder of the run before JAX is imported (`cli/words.py`),
the name of the method and whether it fits the game before the networks are imported.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro

from gems_jax.cli import starting
from gems_jax.cli.config_file import check_keys, config_path
from gems_jax.cli.parsing import UsageError, check_minima, flags_of, parse, print_help
from gems_jax.cli.words import HELP, HELP_ALL, asks_for_help, check_folder, values_of
from gems_jax.runner.console import share_console
from gems_jax.runner.errors import RunError
from gems_jax.runner.options import RunOptions

if TYPE_CHECKING:
    from gems_jax.runner.rebuild import Problem

C = TypeVar("C")
PROG = "gems train"
# Upper limits of settings under --quick, which tests the pipeline and gives no result.
QUICK = {
    "iterations": 5,
    "meta_steps": 10,
    "mixture_samples": 64,
    "abr_steps": 5,
    "rounds": 10,
    "entry_episodes": 50,
}


# Groups of flags that `gems train --help` shows, and those of the settings that the method has.
_SHORT_HELP = {
    "what to run": ("method", "preset", "game_option", "quick", "config", "resume_latest"),
    "how long": ("iterations", "budget", "seeds", "seed"),
    "what to learn": ("policy", "oracle", "meta_solver", "learning_rate"),
    "what to measure": ("exact", "evaluation_every", "evaluation_episodes"),
    "what to write": ("run_dir", "figures", "quiet"),
}


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a method on a game. The flags of the method follow below."""

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """Game to solve (`gems games` lists them); your own is package.module:MyGame."""
    preset: str = ""
    """Named settings, which flags override: of the game, NAME@GAME of another game, or auto, derived from the game
    (default: replay, joint, tuned or auto, the first it has)."""
    method: str = "gems"
    """Method to solve the game with (`gems methods` lists them); each has flags of its own."""
    budget: int = 0
    """Environment steps per iteration, for methods that learn from episodes (0: given by the method's settings)."""
    quick: bool = False
    """Shorten the run, to test that everything works."""
    seed: int = 0
    """Seed of the run, or the first of several."""
    seeds: int = 1
    """Number of seeds to run as one batch."""
    distributed: bool = False
    """Run as one of several processes, each started with the same command (SLURM, TPU pods, or the variables
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID); implies --mesh, and only process 0 writes."""
    config: Path | None = None
    """File of settings, .toml or .yaml; flags of the line win over it."""
    resume_latest: bool = False
    """Continue the newest unfinished run of this game and method in its folder, if there is one with these settings."""
    run_dir: Path | None = None
    """New or empty folder of the run (default: runs/GAME/METHOD/TIME-sSEED)."""
    game_option: tuple[str, ...] = ()
    """Options of the game as name=value, separated by spaces."""
    options: tyro.conf.OmitArgPrefixes[RunOptions] = RunOptions()
    figures: bool = True
    """Draw the run's figures at its end."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclasses.dataclass(frozen=True)
class Arguments(Generic[C]):
    """The flags of the run, and those of its method."""

    run: tyro.conf.OmitArgPrefixes[Train]
    settings: tyro.conf.OmitArgPrefixes[C]


def main(argv: Sequence[str]) -> int:
    """Runs `gems train` and returns its exit code."""
    from gems_jax.runner.rebuild import default_settings

    if asks_for_help(argv):
        method = _method_of(argv)
        _check_words(argv, method)
        return _print_help(argv, default_settings(method))
    return _train(*choose_run(argv))


def choose_run(argv: Sequence[str]) -> tuple[Train, Any, Any, str]:
    """Parses and checks a line.

    Args:
      argv: the words after `gems train`.

    Returns:
      The flags of the run, the game, the settings of the method, and the name of their preset ("" for none).

    Raises:
      UsageError: if the line is invalid.
    """
    from gems_jax.runner.rebuild import default_settings

    method = _method_of(argv)
    _check_words(argv, method)
    default = default_settings(method)
    if (path := config_path(argv)) is not None:
        check_keys(path, flags_of(Train) | flags_of(type(default)), partial(_name_methods_with, method))
    run = _add_preset_options(_parse(argv, default).run)
    base, name = _base_settings(run, None)
    config = _parse(argv, base).settings
    config = _validate_fields(config) if name == "auto" else _validate(config)  # auto: the rest depends on the game
    if run.distributed:
        from gems_jax.runner.distributed import join_cluster

        join_cluster()
    _check(run)
    console = share_console(run.quiet)
    console.wait("making the game")
    game = make_named_game(run.game, run.game_option)
    console.wait("enumerating the game")
    known, name = _base_settings(run, game)
    if known != base or name == "auto":
        config = _validate(_parse(argv, known).settings)
    return run, game, config, name


def _add_preset_options(run: Train) -> Train:
    """Puts the game options of the preset `paper` before those of the user, which override them."""
    from gems_jax.gems.paper_presets import paper_game_options

    pairs = tuple(f"{name}={value!r}" for name, value in paper_game_options(run.game, run.preset).items())
    return dataclasses.replace(run, game_option=(*pairs, *run.game_option))


def _parse(argv: Sequence[str], base: Any) -> Any:
    """Parses the line into run options and settings, with defaults from `base`."""
    kind = type(base)
    flags = flags_of(Train) | flags_of(kind)
    # MISSING makes tyro require the name of the game, although `default` is given.
    default = Arguments(run=Train(game=tyro.MISSING), settings=base)
    return parse(
        Arguments[kind],  # type: ignore[valid-type]
        argv,
        prog=PROG,
        default=default,
        flags=flags,
        elsewhere=partial(_name_methods_with, _method_of(argv)),
    )


def _name_methods_with(method: str, flag: str) -> str:
    """Names the methods that have a flag which `method` lacks, for a message; "" if there are none."""
    from gems_jax.solvers import DEFAULTS

    names = [name for name, settings in DEFAULTS.items() if flag in flags_of(type(settings))]
    others = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"it is a flag of --method {', '.join(names[:3])}{others}, not of {method}" if names else ""


def _method_of(argv: Sequence[str]) -> str:
    """Finds the value of --method, which determines the flags."""
    given = values_of(argv, "--method")
    return "gems" if given is None else "".join(given[:1])


def _check_words(argv: Sequence[str], method: str) -> None:
    """Checks by the words of a line that the method exists and fits the game.

    The game is known if it is the first word, as in `gems train GAME ...`. If not, it is checked later.
    """
    from gems_jax.games.requirements import CATALOG, Needs, check_fit, check_name, check_size

    with _usage_errors():
        check_name(method)
    if asks_for_help(argv) or not argv or argv[0].startswith("-") or CATALOG[method].needs == Needs():
        return
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.extensive.tree import build_tree
    from gems_jax.games.adapters.pgx import approximate_positions

    enable_compilation_cache()
    options = values_of(argv, "--game-option") or []
    with _usage_errors():
        if not options:
            check_size(method, argv[0], approximate_positions(argv[0]))
        game = make_named_game(argv[0], options)
        share_console("--quiet" in argv).wait("enumerating the game")
        check_fit(method, game)
        if CATALOG[method].needs.tree:
            build_tree(game)  # cached: the method does not enumerate it again


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Converts ValueError into UsageError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def _print_help(argv: Sequence[str], base: Any) -> int:
    """Prints help with the defaults of the preset that the line selects, if the rest of the line is valid."""
    try:
        run = _parse([word for word in argv if word not in (*HELP, HELP_ALL)], base).run
        base, _ = _base_settings(run, None)
    except UsageError:
        run = Train(game="")
    if HELP_ALL in argv:
        _parse(["--help"], base)  # prints, and exits
    print_help(f"{PROG} GAME", _SHORT_HELP, (run, run.options, base))
    print(f"\n{PROG} --help-all lists all {len(flags_of(Train) | flags_of(type(base)))} flags: every setting is one.")
    print("gems games and gems methods list what to train on what; docs/command_line.md has examples.")
    return 0


def _validate_fields(config: Any) -> Any:
    """Validates every field of a config by itself; errors name the flag instead of the field."""
    from gems_jax.config import validate_fields

    return _validate(config, validate_fields)


def _validate(config: Any, check: Callable[[Any], Any] = operator.methodcaller("validate")) -> Any:
    """Validates a config or options; errors name the flag instead of the field."""
    try:
        check(config)
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        known = {field.name for field in dataclasses.fields(config)}
        raise UsageError(f"--{name.replace('_', '-')} {rest}" if name in known else str(error)) from None
    return config


def _check(run: Train) -> None:
    """Checks the flags that do not depend on the game."""
    check_minima(run, seeds=1, budget=0)
    if not 0 <= run.seed < 2**31 - run.seeds:
        raise UsageError(f"--seed must be an integer from 0 to {2**31 - 1 - run.seeds}, got {run.seed}")
    _validate(run.options)
    if run.distributed and _is_primary():  # others are checked by their words
        check_folder(run.run_dir)


def _is_primary() -> bool:
    from gems_jax.runner.distributed import is_primary

    return is_primary()


def parse_game_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parses `a=1 shared=True name=x` into keyword arguments; a value that is not a Python literal is a string."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError(f"--game-option must be name=value, got {pair!r}")
        try:
            options[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[name] = text
    return options


def make_named_game(name: str, pairs: Sequence[str]) -> Any:
    """Makes a game by name.

    Args:
      name: name of the game, or package.module:MyGame.
      pairs: its options as name=value.

    Raises:
      UsageError: if the game raises any exception: its code may be the user's own.
    """
    from gems_jax.games import make_game

    try:
        return make_game(name, **parse_game_options(pairs))
    except (ValueError, TypeError, ImportError) as error:
        raise UsageError(str(error)) from error
    except RunError:
        raise
    except Exception as error:
        raise UsageError(f"cannot make the game {name!r}: {type(error).__name__}: {error}") from error


def _base_settings(run: Train, game: Any) -> tuple[Any, str]:
    """Returns the settings that the flags override, and the name of their preset ("" for none)."""
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

    problem, options = fit_run(run, game, config)
    iterations, seeds = problem.config.iterations, range(run.seed, run.seed + run.seeds)
    if run.resume_latest and (stored := _find_stored(run, problem)) is not None:
        return _resume(run, stored, iterations)
    directory = None
    if not run.distributed or _is_primary():
        own = {"game": parse_game_options(run.game_option), "preset": preset, "quick": run.quick}
        directory = create_run(
            game=run.game,
            method=run.method,
            config=problem.config,
            seeds=seeds,
            iterations=iterations,
            path=run.run_dir,
            begun=starting.take(),
            options={**own, **dataclasses.asdict(options)},
        )
    return train_and_report(problem, directory, options, iterations, seeds, quiet=run.quiet, figures=run.figures)


def _find_stored(run: Train, problem: Problem) -> Path | None:
    """Finds the newest unfinished run of the line's game and method. Raises RunError if its settings differ."""
    from gems_jax.cli.latest import check_same_run, find_unfinished
    from gems_jax.runner.directory import slug
    from gems_jax.runner.files import resolve

    folder = run.run_dir or Path("runs") / slug(run.game) / slug(run.method)
    found = find_unfinished(folder, run.game, run.method, problem.config.iterations if run.run_dir else 0)
    if found is not None:
        config = {name: value for name, value in resolve(problem.config).items() if name != "iterations"}
        seeds = list(range(run.seed, run.seed + run.seeds))
        expected = {"game": run.game, "method": run.method, "seeds": seeds, "config": config}
        check_same_run(found, {**expected, "game_option": resolve(parse_game_options(run.game_option))})
    return found


def _resume(run: Train, stored: Path, iterations: int) -> int:
    """Continues a stored run as `gems resume` does. The line names the game, so it may be the user's own."""
    from gems_jax.cli.commands.resume import Resume, resume_run

    starting.end()  # no new folder is needed
    plan = Resume(
        latest=True,
        iterations=iterations,
        distributed=run.distributed,
        figures=run.figures,
        quiet=run.quiet,
        debug=run.options.debug,
        trust=True,
    )
    return resume_run(stored, plan)


def fit_run(run: Train, game: Any, config: Any) -> tuple[Problem, RunOptions]:
    """Makes the problem of a checked line and fits the options to it. Raises UsageError."""
    problem = _make_problem(run, game, config)
    options = _fit_options(run, problem)
    _check_settings(run, problem, options)
    return problem, options


def _make_problem(run: Train, game: Any, config: Any) -> Problem:
    """Makes the problem within its budget. Raises UsageError for settings that do not fit the game."""
    console = share_console(run.quiet)
    console.wait("importing the method")
    from gems_jax.runner.training.train import build_problem

    with _usage_errors():
        return build_problem(game, run.method, config, run.budget)


def _check_settings(run: Train, problem: Problem, options: RunOptions) -> None:
    """Checks the settings by tracing the first state, unless they were traced before. Raises UsageError."""
    import jax

    from gems_jax.host.stages import on_host
    from gems_jax.runner.training.program_names import is_stored, program_name

    compiled = problem.solver.jittable or (on_host(problem.game) and run.method == "gems")
    if not compiled or is_stored(program_name(problem, run.seeds, options)):
        return
    share_console(run.quiet).wait("checking the settings, enumerating the game")
    with _usage_errors():
        jax.eval_shape(problem.solver.init, jax.random.key(0))


def _fit_options(run: Train, problem: Problem) -> RunOptions:
    """Adapts the options to the game and the method."""
    from gems_jax.host.stages import on_host
    from gems_jax.runner.training.train import fit_options

    if run.distributed and not problem.solver.jittable:
        raise UsageError(
            f"--distributed needs a jittable solver, and {run.method} on {run.game} is not: leave --distributed out"
        )
    options = dataclasses.replace(run.options, mesh=run.options.mesh or run.distributed)
    options = fit_options(options, problem.game)
    every = run.quick and on_host(problem.game)  # a short run of a slow game
    return dataclasses.replace(options, evaluation_every=1) if every else options
