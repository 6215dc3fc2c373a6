"""Runs a grid, a list or random draws over any settings, from a TOML file: `gems sweep SWEEP`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, parse


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Run or resume a sweep: finished cells are skipped, failed cells are retried."""

    sweep: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP")]
    """Sweep file (TOML), or the folder of a sweep to resume."""
    run_dir: Path | None = None
    """Folder of the sweep (default: runs/sweep/NAME/TIME); an existing folder of the same sweep is resumed."""
    plan: bool = False
    """Check the file and print its cells, without running them."""
    quiet: bool = False
    """Print nothing but errors."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    """Runs `gems sweep` and returns its exit code."""
    arguments = parse(Sweep, argv, prog="gems sweep")
    import jax

    # This process only plans and waits: the accelerator is left to the cells.
    jax.config.update("jax_platforms", "cpu")
    from gems_jax.runner.console import Console
    from gems_jax.sweep.execution import run_sweep, show_plan

    console = Console(quiet=arguments.quiet)
    if arguments.plan:
        show_plan(arguments.sweep, console, arguments.trust)
        return 0
    done = run_sweep(arguments.sweep, run_dir=arguments.run_dir, console=console, trust=arguments.trust)
    return done.exit_code
