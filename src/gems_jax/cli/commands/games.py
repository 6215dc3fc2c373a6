"""Lists the games, or checks that one implements the `Game` protocol: `gems games`."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gems_jax.cli.parsing import UsageError, check_minima, parse
from gems_jax.runner.errors import RunError
from gems_jax.runner.machine import package_version

if TYPE_CHECKING:
    from gems_jax.games import GameEntry


@dataclasses.dataclass(frozen=True)
class Games:
    """List the games, or validate one of them."""

    check: str = ""
    """Name of a game to validate; your own is package.module:MyGame."""
    game_option: tuple[str, ...] = ()
    """Options of the game to validate, as name=value, separated by spaces."""
    episodes: int = 32
    """Random episodes to play while validating."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems games` and returns its exit code."""
    arguments = parse(Games, argv, prog="gems games")
    check_minima(arguments, episodes=1)
    if arguments.check:
        return _check(arguments.check, arguments.game_option, arguments.episodes)
    if arguments.game_option:
        raise UsageError("--game-option needs --check NAME")
    return _list()


def _list() -> int:
    from gems_jax.games import GAMES, KINDS, game_options
    from gems_jax.presets import AUTO, PRESETS

    width = max(len(name) for name in GAMES)
    for name, entry in {**GAMES, **KINDS}.items():
        notes = [_describe_library(entry)]
        if PRESETS.get(name):
            notes.append(f"presets: {', '.join([*PRESETS[name], AUTO])}")
        if name in GAMES and game_options(name):
            notes.append(f"options: {', '.join(game_options(name))}")
        print(f"{name:<{width}}  {entry.description}")
        print(textwrap.indent(textwrap.fill("; ".join(notes), 118 - width), " " * (width + 2)))
    print(f"{'module:MyGame':<{width}}  your own, from the current folder or the Python path; gems games --check NAME")
    return 0


def _describe_library(entry: GameEntry) -> str:
    """Describes the library that a game needs, and whether it is installed."""
    if not entry.library:
        return "no extra library"
    found = package_version(entry.library)
    install = f'pip install "gems_jax[{entry.extra}]"' if entry.extra else f"pip install {entry.library}"
    return f"needs {entry.library}: {f'{found} is installed' if found else f'not installed, {install}'}"


def _check(name: str, pairs: Sequence[str], episodes: int) -> int:
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.cli.commands.train import make_named_game
    from gems_jax.testing import GameError, check_game
    from gems_jax.types import Annotated, supports

    enable_compilation_cache()
    game = make_named_game(name, pairs)
    try:
        check_game(game, episodes=episodes)
    except GameError as error:
        raise RunError(f"{name} is not a valid game: {error}") from None
    seats = f"{game.num_seats} seats, {game.num_actions} {'action dimensions' if game.continuous else 'actions'}"
    shape = "x".join(map(str, game.observation_shape))
    print(
        f"{name}: valid. {seats}, observations of {shape}, at most {game.max_steps} steps, {episodes} episodes played"
    )
    if supports(game, Annotated) and game.note:
        print(f"note: {game.note}")
    return 0
