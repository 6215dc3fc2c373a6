"""Continues a run from its newest checkpoint: `gems resume RUN`."""

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

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory: the folder of a seed or of a batch."""
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
    from gems_jax.runner import distributed

    if arguments.distributed:
        distributed.join_cluster()
    from gems_jax.cli.training import train_and_report
    from gems_jax.runner.console import share_console
    from gems_jax.runner.directory import open_run, read_config
    from gems_jax.runner.load import find_run, run_folder
    from gems_jax.runner.options import RunOptions
    from gems_jax.runner.rebuild import rebuild

    directory = open_run(run_folder(find_run(arguments.run)))
    record = read_config(directory.shared)
    share_console(arguments.quiet).wait("making the game, enumerating it")
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
