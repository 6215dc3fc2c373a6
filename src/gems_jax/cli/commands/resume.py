"""Continues a run from its newest checkpoint: `gems resume RUN`, or `gems resume --latest`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, check_minima, parse
from gems_jax.runner.integrity.records import LARGEST_COUNT


@dataclasses.dataclass(frozen=True)
class Resume:
    """Continue a run from its newest intact checkpoint, with the settings that it was started with."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Run directory: the folder of a seed or of a batch."""
    latest: bool = False
    """Continue the newest unfinished run below the folder runs, instead of RUN; finished ones, too, if --iterations
    extends them."""
    game: str = ""
    """With --latest: only runs of this game."""
    method: str = ""
    """With --latest: only runs of this method."""
    iterations: int | None = None
    """Total iterations to reach (default: as planned); a larger number extends the run."""
    distributed: bool = False
    """Continue in several processes, one started on every host (see `gems train --help`)."""
    figures: bool = True
    """Draw the run's figures at its end."""
    quiet: bool = False
    """Print nothing but errors."""
    debug: bool = False
    """Check every operation for NaN (checkify) and print tracebacks; slow."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    """Runs `gems resume` and returns its exit code."""
    arguments = parse(Resume, argv, prog="gems resume")
    if arguments.iterations is not None:
        check_minima(arguments, iterations=1)
        if arguments.iterations > LARGEST_COUNT:
            raise UsageError(f"--iterations must be at most {LARGEST_COUNT}, got {arguments.iterations}")
    return resume_run(_choose_run(arguments), arguments)


def _choose_run(arguments: Resume) -> Path:
    """Returns RUN, or the newest unfinished run with --latest. Raises UsageError."""
    if arguments.latest == (arguments.run is not None):
        raise UsageError("give either RUN or --latest: gems resume RUN, gems resume --latest")
    if arguments.run is not None:
        if arguments.game or arguments.method:
            raise UsageError("--game and --method select a run with --latest, not with RUN")
        return arguments.run
    from gems_jax.cli.latest import find_unfinished

    found = find_unfinished(Path("runs"), arguments.game, arguments.method, arguments.iterations or 0)
    if found is None:
        wanted = " ".join(filter(None, [arguments.game, arguments.method])) or "any game"
        raise UsageError(f"no unfinished run of {wanted} below {Path('runs').absolute()}. Name one: gems resume RUN")
    return found


def resume_run(run: Path, arguments: Resume) -> int:
    """Continues a run to the end.

    Args:
      run: its folder.
      arguments: how to continue it; its own RUN and --latest are not read.

    Returns:
      The exit code.
    """
    from gems_jax.runner import distributed

    if arguments.distributed:
        distributed.join_cluster()
    from gems_jax.cli.training import train_and_report
    from gems_jax.runner.console import share_console
    from gems_jax.runner.directory import open_run, read_config
    from gems_jax.runner.load import find_run, run_folder
    from gems_jax.runner.options import RunOptions
    from gems_jax.runner.rebuild import rebuild

    directory = open_run(run_folder(find_run(run)))
    record = read_config(directory.shared)
    console = share_console(arguments.quiet)
    if arguments.latest:
        console.say(f"the newest unfinished run: {directory.shared}")
    console.wait("making the game, enumerating it")
    problem = rebuild(record, str(directory.shared), trust=arguments.trust)
    options = RunOptions.from_record(record.get("options") or {})
    options = dataclasses.replace(options, debug=arguments.debug, mesh=options.mesh or arguments.distributed)
    try:
        options.validate()
    except ValueError as error:
        raise UsageError(str(error)) from error
    iterations = arguments.iterations or record["iterations"]
    written = directory if distributed.is_primary() else None
    shown = {"quiet": arguments.quiet, "figures": arguments.figures}
    return train_and_report(problem, written, options, iterations, directory.seeds, **shown)
