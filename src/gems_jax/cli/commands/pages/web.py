"""Writes a page in which a person plays against a trained policy: `gems web RUN -o play.html`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from gems_jax.cli.parsing import PolicyArguments, UsageError, load_policy, parse


@dataclasses.dataclass(frozen=True)
class WebArguments(PolicyArguments):
    """Write one HTML file in which a person plays against a trained mixture; it needs neither server nor network."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("play.html")
    """File to write."""
    second: str | None = None
    """A second policy of the same game: a run directory, an exported file, or a shipped policy."""
    names: tuple[str, ...] = ()
    """How the page calls the policies (default: the names of their folders or files)."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems web` and returns its exit code."""
    arguments = parse(WebArguments, argv, prog="gems web")
    from gems_jax.web import write_play_page

    policy = load_policy(arguments)
    second = None
    if arguments.second is not None:  # its own first seed and last checkpoint
        second = load_policy(dataclasses.replace(arguments, run=arguments.second, seed=None, at="last"))
    if len(arguments.names) > 1 + (second is not None):
        raise UsageError(f"--names: expected at most one for each policy, got {len(arguments.names)}")
    path = write_play_page(policy, arguments.output, second, names=arguments.names)
    print(f"written: {path} ({path.stat().st_size / 1e6:.2f} MB)")
    return 0
