"""`gems sweep SWEEP`: a grid, a list or random draws over any settings, from a TOML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, parse


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Run a sweep, or go on with one: cells that are finished are skipped, failed ones are tried again."""

    sweep: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP")]
    """A sweep file (TOML), or the folder of a sweep to go on with."""
    run_dir: Path | None = None
    """Folder of the sweep (default: runs/sweep/NAME/TIME); one that holds the same sweep is gone on with."""
    plan: bool = False
    """Only check the file and show its cells."""
    quiet: bool = False
    """Show nothing but errors."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    arguments = parse(Sweep, argv, prog="gems sweep")
    import jax

    # This process plans and waits: an accelerator belongs to the cells.
    jax.config.update("jax_platforms", "cpu")
    from gems_jax.runner.console import Console
    from gems_jax.sweep.execution import run_sweep, show_plan

    console = Console(quiet=arguments.quiet)
    if arguments.plan:
        show_plan(arguments.sweep, console, arguments.trust)
        return 0
    done = run_sweep(arguments.sweep, run_dir=arguments.run_dir, console=console, trust=arguments.trust)
    return done.exit_code
