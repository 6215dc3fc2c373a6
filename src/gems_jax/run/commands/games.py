"""`gems games`: what there is to play, and whether a game keeps its promises."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence

from gems_jax.run.commands.parsing import UsageError, parse
from gems_jax.run.errors import RunError


@dataclasses.dataclass(frozen=True)
class Games:
    """List the games, or examine one of them."""

    check: str = ""
    """A game to examine, also your own as package.module:MyGame: does it keep the promises of a game?"""
    game_option: tuple[str, ...] = ()
    """Options of the game to examine, as name=value."""
    episodes: int = 32
    """Random episodes that the examination plays."""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Games, argv, prog="gems games")
    if arguments.episodes < 1:
        raise UsageError(f"--episodes must be at least 1: got {arguments.episodes}")
    if arguments.check:
        return _check(arguments.check, arguments.game_option, arguments.episodes)
    if arguments.game_option:
        raise UsageError("--game-option goes with --check NAME")
    return _list()


def _list() -> int:
    from gems_jax.games import GAMES, game_options
    from gems_jax.presets import PRESETS

    width = max(len(name) for name in GAMES)
    for name, entry in GAMES.items():
        print(f"{name:<{width}}  {entry.description}")
        notes = []
        if PRESETS.get(name):
            notes.append(f"presets: {', '.join(PRESETS[name])}")
        if game_options(name):
            notes.append(f"options: {', '.join(game_options(name))}")
        if entry.extra and importlib.util.find_spec(entry.extra) is None:
            notes.append(f'not installed: pip install "gems_jax[{entry.extra}]"')
        if notes:
            print(f"{'':<{width}}  {'; '.join(notes)}")
    print(f"{'pgx:<id>':<{width}}  any two-player game of pgx, for example pgx:hex, pgx:othello, pgx:go_19x19")
    print(f"{'module:MyGame':<{width}}  your own, from the current folder or the Python path; gems games --check")
    return 0


def _check(name: str, pairs: Sequence[str], episodes: int) -> int:
    from gems_jax.run.cache import enable_compilation_cache
    from gems_jax.run.commands.train import make
    from gems_jax.testing import GameError, check_game

    enable_compilation_cache()
    game = make(name, pairs)
    try:
        check_game(game, episodes=episodes)
    except GameError as error:
        raise RunError(f"not a sound game yet. {error}") from None
    seats = f"{game.num_seats} seats, {game.num_actions} {'action dimensions' if game.continuous else 'actions'}"
    shape = "x".join(map(str, game.observation_shape))
    print(
        f"{name}: sound. {seats}, observations of {shape}, at most {game.max_steps} steps, {episodes} episodes played"
    )
    return 0
