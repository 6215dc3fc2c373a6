"""Writes games of the trained policy as text and pictures: `gems replay RUN`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from gems_jax.cli.parsing import PolicyArguments, UsageError, check_games_seed, check_minima, load_policy, parse


@dataclasses.dataclass(frozen=True)
class Replay(PolicyArguments):
    """Let the trained mixture play itself; write its games as text, and as SVG (boards) or GIF (particle worlds)."""

    episodes: int = 3
    """Games to play."""
    games_seed: int = 0
    """Seed of the games; equal seeds give equal games."""
    output: Path | None = None
    """Folder to write to (default: replays/ in the run's folder, or in the current folder for a file)."""
    show: bool = True
    """Print the text of the games as well."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems replay` and returns its exit code."""
    arguments = parse(Replay, argv, prog="gems replay")
    check_minima(arguments, episodes=1)
    check_games_seed(arguments.games_seed)
    from gems_jax.viz.transcripts import check_discrete, write_replays

    policy = load_policy(arguments)
    try:
        check_discrete(policy.game)
    except ValueError as error:
        raise UsageError(str(error)) from None
    home = Path(policy.source) if Path(policy.source).is_dir() else Path()
    folder = arguments.output or home / "replays"
    paths = write_replays(policy, folder, episodes=arguments.episodes, seed=arguments.games_seed)
    if arguments.show:
        print(paths[0].read_text())
    for path in paths:
        print(f"written: {path}")
    return 0
