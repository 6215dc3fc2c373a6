"""`gems play RUN`: you against the trained policy."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence

from gems_jax.cli.parsing import PolicyArguments, UsageError, check_games_seed, check_least, load_policy, parse


@dataclasses.dataclass(frozen=True)
class PlayArguments(PolicyArguments):
    """Play against a trained mixture: poker, tic-tac-toe, Connect Four, Go, chess, a matrix game or a dilemma."""

    seat: int | None = None
    """Your seat, 0 moves first (default: changing from game to game)."""
    games: int = 0
    """How many games (0: until you leave)."""
    games_seed: int | None = None
    """Seed of the deals (default: another one every time)."""


def main(argv: Sequence[str]) -> int:
    arguments = parse(PlayArguments, argv, prog="gems play")
    check_least(arguments, games=0)
    check_games_seed(arguments.games_seed)
    from gems_jax.viz.human_play import check_playable, play

    policy = load_policy(arguments)
    check_playable(policy.game)
    seats = policy.game.num_seats
    if arguments.seat is not None and not 0 <= arguments.seat < seats:
        raise UsageError(f"--seat must be 0 to {seats - 1}: got {arguments.seat}")
    seed = secrets.randbits(31) if arguments.games_seed is None else arguments.games_seed
    play(policy, input, lambda text: print(text, flush=True), seat=arguments.seat, seed=seed, games=arguments.games)
    return 0
