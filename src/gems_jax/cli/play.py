"""`gems play RUN`: you against the trained policy."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, parse


@dataclasses.dataclass(frozen=True)
class PlayArguments:
    """Play against a trained mixture: poker, tic-tac-toe, Connect Four, Go, chess, a matrix game or a dilemma."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory (a seed's folder or a batch's), exported file, or the name of a shipped policy."""
    seat: int | None = None
    """Your seat, 0 moves first (default: changing from game to game)."""
    games: int = 0
    """How many games (0: until you leave)."""
    games_seed: int | None = None
    """Seed of the deals (default: another one every time)."""
    seed: int | None = None
    """Which seed of a batch (default: the first)."""
    at: str = "last"
    """Which checkpoint: last, best (of lowest exploitability or highest score), or an iteration that was kept."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    arguments = parse(PlayArguments, argv, prog="gems play")
    if arguments.games < 0:
        raise UsageError(f"--games must be at least 0: got {arguments.games}")
    if arguments.games_seed is not None and not 0 <= arguments.games_seed < 2**31:
        raise UsageError(f"--games-seed must be a whole number from 0 to 2^31: got {arguments.games_seed}")
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.runner.load import load
    from gems_jax.viz.human_play import check_playable, play

    enable_compilation_cache()
    say = lambda text: print(text, file=sys.stderr)  # noqa: E731
    policy = load(arguments.run, seed=arguments.seed, at=arguments.at, trust=arguments.trust, say=say)
    check_playable(policy.game)
    if arguments.seat is not None and not 0 <= arguments.seat < policy.game.num_seats:
        raise UsageError(f"--seat must be 0 to {policy.game.num_seats - 1}: got {arguments.seat}")
    seed = arguments.games_seed
    if seed is None:
        import secrets

        seed = secrets.randbits(31)
    play(policy, input, lambda text: print(text, flush=True), seat=arguments.seat, seed=seed, games=arguments.games)
    return 0
