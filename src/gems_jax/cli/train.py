"""`gems train GAME`: everything that can be wrong is found before anything compiles or any folder is made."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from gems_jax.cli.parsing import HELP, UsageError, flags_of, parse, suggest
from gems_jax.runner.errors import RunError

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
WRITER_MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


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
    """Env steps per iteration that every method is held to, as far as it learns from episodes (0: its own settings)."""
    quick: bool = False
    """A short version that only shows that everything works."""
    seed: int = 0
    """Seed; the first one of several."""
    seeds: int = 1
    """How many seeds to run as one batch."""
    seed_batch: int = 0
    """How many seeds are run together (0: as many as are fastest)."""
    mesh: bool = False
    """Share seeds, candidates and episodes out over all devices; results stay those of one device, up to rounding."""
    distributed: bool = False
    """One program of several processes, the same line started on every host (SLURM, TPU pods, or by the variables
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID); implies --mesh. Process 0 writes and speaks."""
    run_dir: Path | None = None
    """Folder of the run, which must not hold anything yet (default: runs/GAME/METHOD/TIME-sSEED)."""
    game_option: tuple[str, ...] = ()
    """Options of the game as name=value, several apart by spaces."""
    writers: tuple[str, ...] = ()
    """Where metrics go besides metrics.csv: tensorboard, wandb."""
    exact: bool = True
    """Measure every iteration exactly where the game can be walked."""
    evaluation_episodes: int = 256
    """Episodes that a mixture is measured by where it cannot be measured exactly (0: not at all)."""
    evaluation_every: int = 10
    """Iterations between two such measurements."""
    chunk: int = 10
    """Iterations between two looks at the run: progress, rows, checkpoints."""
    checkpoint_seconds: float = 10.0
    """Least time between two checkpoints; 0 saves after every chunk."""
    keep: int = 3
    """How many of the last checkpoints are kept, besides the best."""
    figures: bool = True
    """Draw the run's figures at its end, where it was measured."""
    quiet: bool = False
    """Show nothing but errors."""
    debug: bool = False
    """Check every operation for NaN (checkify), one iteration at a time, and show tracebacks. Slow."""


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
    game = make(run.game, run.game_option)
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
    """The config, or its complaint with the field as the flag it is here."""
    try:
        return config.validate()
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        known = {field.name for field in dataclasses.fields(config)}
        raise UsageError(f"--{name.replace('_', '-')} {rest}" if name in known else str(error)) from None


def _check(run: Train) -> None:
    """Everything that can be said without knowing the game."""
    for flag, value, least in (
        ("--seeds", run.seeds, 1),
        ("--seed-batch", run.seed_batch, 0),
        ("--chunk", run.chunk, 1),
        ("--keep", run.keep, 1),
        ("--budget", run.budget, 0),
        ("--evaluation-episodes", run.evaluation_episodes, 0),
        ("--evaluation-every", run.evaluation_every, 1),
    ):
        if value < least:
            raise UsageError(f"{flag} must be at least {least}: got {value}")
    if not 0 <= run.seed < 2**31 - run.seeds:
        raise UsageError(f"--seed must be a whole number from 0 to 2^31, room for {run.seeds} seeds: got {run.seed}")
    if not run.checkpoint_seconds >= 0:
        raise UsageError(f"--checkpoint-seconds must be at least 0: got {run.checkpoint_seconds}")
    for writer in run.writers:
        if writer not in WRITER_MODULES:
            raise UsageError(f"unknown writer {writer!r}{suggest(writer, WRITER_MODULES)}")
        if importlib.util.find_spec(WRITER_MODULES[writer]) is None:
            module = WRITER_MODULES[writer]
            raise UsageError(f'--writers {writer} needs {module}: pip install "gems_jax[{writer}]"')
    if run.mesh and run.debug:
        raise UsageError("--debug looks at every operation on one device: leave --mesh out")
    helps = run.distributed and not _primary()
    if run.run_dir is not None and not helps and run.run_dir.exists() and not _empty(run.run_dir):
        raise UsageError(
            f"{run.run_dir} exists and is not empty; runs are never written over. Choose another folder, or resume it: "
            f"gems resume {run.run_dir}"
        )


def _primary() -> bool:
    from gems_jax.runner.distributed import primary

    return primary()


def _empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def game_options(pairs: Sequence[str]) -> dict[str, Any]:
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


def make(name: str, pairs: Sequence[str]) -> Any:
    """The game, or a UsageError: it may be the user's own, so that anything can go wrong in it."""
    from gems_jax.games import make_game

    try:
        return make_game(name, **game_options(pairs))
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
    import jax

    from gems_jax.cli.training import train
    from gems_jax.host.stages import on_host
    from gems_jax.runner.directory import create_run
    from gems_jax.runner.measuring import Settings, monitor_of
    from gems_jax.runner.rebuild import Problem
    from gems_jax.solvers import make_solver, with_budget

    hosted = on_host(game)
    try:
        if run.budget:
            config = with_budget(run.method, game, config, run.budget)
        problem = Problem(game, run.method, config, make_solver(run.method, game, config))
        if problem.solver.jittable or (hosted and run.method == "gems"):  # settings that do not go with the game
            jax.eval_shape(problem.solver.init, jax.random.key(0))
    except ValueError as error:
        raise UsageError(str(error)) from error
    settings = Settings(
        chunk=1 if hosted else run.chunk,  # an iteration takes seconds: look at each
        exact=run.exact,
        evaluation_episodes=run.evaluation_episodes,
        evaluation_every=1 if hosted and run.quick else run.evaluation_every,
        debug=run.debug,
        checkpoint_seconds=run.checkpoint_seconds,
        keep=run.keep,
        seed_batch=run.seed_batch,
        mesh=run.mesh or run.distributed,
        writers=run.writers,
    )
    if settings.mesh and not problem.solver.jittable:
        raise UsageError(f"--mesh needs a method that is compiled as a whole, {run.method} on {run.game} is not")
    monitor = monitor_of(problem, settings)
    seeds = range(run.seed, run.seed + run.seeds)
    shown = {"quiet": run.quiet, "figures": run.figures}
    if run.distributed and not _primary():
        return train(problem, None, settings, monitor, config.iterations, seeds=seeds, **shown)
    directory = create_run(
        game=run.game,
        method=run.method,
        config=config,
        seeds=seeds,
        iterations=config.iterations,
        path=run.run_dir,
        options={
            "game": game_options(run.game_option),
            "preset": preset,
            "quick": run.quick,
            **dataclasses.asdict(settings),
        },
    )
    return train(problem, directory, settings, monitor, config.iterations, seeds=seeds, **shown)
