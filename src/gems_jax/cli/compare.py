"""`gems compare RUN...`: curves and final table of several runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, parse


@dataclasses.dataclass(frozen=True)
class Compare:
    """Runs side by side at the same iterations, environment steps, seconds and so on, with bootstrap intervals."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run directories, or folders that hold some."""
    metric: str = ""
    """Column of metrics.csv to compare (default: exploitability, else nash_conv)."""
    at: tuple[str, ...] = ("iterations", "env_steps", "seconds")
    """At equal what: iterations, env_steps, seconds, episodes, gradient_steps; several apart by spaces."""
    output: Path | None = None
    """Folder for the figure and the tables (default: runs/compare/TIME)."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    arguments = parse(Compare, argv, prog="gems compare")
    if not arguments.runs:
        raise UsageError("which runs? name run directories, or folders that hold some")
    from gems_jax.runner.console import Console
    from gems_jax.viz.comparison import compare_runs, comparison_table, write_comparison

    comparison = compare_runs(arguments.runs, metric=arguments.metric, axes=arguments.at, trust=arguments.trust)
    Console().table(comparison_table(comparison))
    for path in write_comparison(comparison, arguments.output):
        print(f"written: {path}")
    return 0
