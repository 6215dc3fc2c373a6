"""Plays against the trained policy: `gems play RUN`."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence

from gems_jax.cli.parsing import PolicyArguments, UsageError, check_games_seed, check_minima, load_policy, parse


@dataclasses.dataclass(frozen=True)
class PlayArguments(PolicyArguments):
    """Play against a trained mixture, in any game with discrete actions whose positions can be read."""

    seat: int | None = None
    """Your seat; seat 0 moves first (default: alternates between games)."""
    games: int = 0
    """Number of games (0: until you leave)."""
    games_seed: int | None = None
    """Seed of the deals (default: a random one)."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems play` and returns its exit code."""
    arguments = parse(PlayArguments, argv, prog="gems play")
    check_minima(arguments, games=0)
    check_games_seed(arguments.games_seed)
    from gems_jax.viz.human_play import check_playable, play

    policy = load_policy(arguments)
    check_playable(policy.game)
    seats = policy.game.num_seats
    if arguments.seat is not None and not 0 <= arguments.seat < seats:
        raise UsageError(f"--seat must be 0 to {seats - 1}, got {arguments.seat}")
    seed = secrets.randbits(31) if arguments.games_seed is None else arguments.games_seed
    play(policy, input, lambda text: print(text, flush=True), seat=arguments.seat, seed=seed, games=arguments.games)
    return 0
