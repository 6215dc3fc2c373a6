"""Writes a page of one run: `gems view RUN -o run.html`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import PolicyArguments, check_minima, parse


@dataclasses.dataclass(frozen=True)
class ViewArguments(PolicyArguments):
    """Write one HTML file about a run: curves, error budget, mixture over time, map of anchors, replays, settings."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("run.html")
    """File to write."""
    games: int = 2
    """Number of replayed games (0: none)."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems view` and returns its exit code."""
    arguments = parse(ViewArguments, argv, prog="gems view")
    check_minima(arguments, games=0)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.web import write_run_page

    enable_compilation_cache()
    chosen = {"seed": arguments.seed, "at": arguments.at, "games": arguments.games, "trust": arguments.trust}
    path = write_run_page(arguments.run, arguments.output, **chosen)
    print(f"written: {path} ({path.stat().st_size / 1e6:.2f} MB)")
    return 0
