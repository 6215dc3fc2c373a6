"""Draws the curves and prints the final table of several runs: `gems compare RUN...`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, parse


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare runs at equal iterations, environment steps and seconds, with bootstrap intervals."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run directories, or folders that contain run directories."""
    metric: str = ""
    """Column of metrics.csv to compare (default: exploitability, nash_conv, or what ranks sampled runs)."""
    at: tuple[str, ...] = ("iterations", "env_steps", "seconds")
    """Quantities to compare at, separated by spaces: iterations, env_steps, seconds, episodes, gradient_steps."""
    output: Path | None = None
    """Folder for the figures and tables (default: runs/compare/TIME)."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    """Runs `gems compare` and returns its exit code."""
    arguments = parse(Compare, argv, prog="gems compare")
    if not arguments.runs:
        raise UsageError("no runs given: name run directories, or folders that contain some")
    from gems_jax.runner.console import Console
    from gems_jax.viz.comparison import compare_runs, comparison_table, write_comparison

    comparison = compare_runs(arguments.runs, metric=arguments.metric, axes=arguments.at, trust=arguments.trust)
    console = Console()
    for note in comparison.notes:
        console.say(note)
    console.table(comparison_table(comparison))
    for path in write_comparison(comparison, arguments.output):
        print(f"written: {path}")
    return 0
