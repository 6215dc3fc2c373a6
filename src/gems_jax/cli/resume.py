"""`gems resume RUN`: go on where a run stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, check_least, parse


@dataclasses.dataclass(frozen=True)
class Resume:
    """Go on with a run from its newest good checkpoint, with the settings it was started with."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory: a seed's folder, or that of a whole batch."""
    iterations: int | None = None
    """Iterations to reach (default: what was planned). More than planned makes the run longer."""
    distributed: bool = False
    """Go on in several processes, one started on every host: see `gems train --help`."""
    figures: bool = True
    """Draw the run's figures at its end, where it was measured."""
    quiet: bool = False
    """Show nothing but errors."""
    debug: bool = False
    """Check every operation for NaN (checkify), one iteration at a time, and show tracebacks. Slow."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    arguments = parse(Resume, argv, prog="gems resume")
    if arguments.iterations is not None:
        check_least(arguments, iterations=1)
    from gems_jax.runner import distributed

    if arguments.distributed:
        distributed.join()
    from gems_jax.cli.training import train_and_report
    from gems_jax.runner.directory import open_run, read_config
    from gems_jax.runner.load import find_run, run_folder
    from gems_jax.runner.options import RunOptions
    from gems_jax.runner.rebuild import rebuild

    directory = open_run(run_folder(find_run(arguments.run)))
    record = read_config(directory.shared)
    problem = rebuild(record, str(directory.shared), trust=arguments.trust)
    options = RunOptions.from_record(record.get("options") or {})
    options = dataclasses.replace(options, debug=arguments.debug, mesh=options.mesh or arguments.distributed)
    iterations = arguments.iterations or record["iterations"]
    written = directory if distributed.primary() else None
    shown = {"quiet": arguments.quiet, "figures": arguments.figures}
    return train_and_report(problem, written, options, iterations, directory.seeds, **shown)
