"""Checks that a game fulfills the `Game` protocol (`check_game`), for games of this package and for your own.

from gems_jax.testing import check_game
check_game(MyGame())        # silent, or a GameError that names the problem and its location
"""

from __future__ import annotations

import jax

from gems_jax.host.stages import on_host
from gems_jax.testing.jax_games import check_jax_game
from gems_jax.testing.promises import GameError
from gems_jax.testing.python_games import check_python_game
from gems_jax.types import Array, Game

__all__ = ["GameError", "check_game"]


def check_game(game: Game, *, key: Array | None = None, episodes: int = 32) -> None:
    """Plays random episodes and raises `GameError` at the first violation of the `Game` protocol.

    Checks declared sizes, shapes and dtypes. Equal games must compare and hash equal and not retrace. jit must agree
    with eager evaluation and vmap with a loop. `step` must be pure, must not modify its inputs, and must ignore actions
    of seats that are not to move. Until the end some seat must have a legal action, and only seats to move may have
    one. A finished game must be absorbing. Episodes must end within `max_steps` with returns inside `return_bounds`
    that sum to zero if `zero_sum` is declared. Rewards must not go to the wrong seat, as far as that is visible.
    `deals`, if any, must agree with `init`. In games that run in Python, instead of the checks that concern JAX, an
    episode must depend only on its seed and actions, not on the order or the other episodes of the batch.

    A game whose `return_bounds` are typical but not strict declares `typical_bounds = True`.

    Args:
      game: the game.
      key: seed of the check; None for jax.random.key(0).
      episodes: number of random episodes.

    Raises:
      GameError: at the first violation.
      ValueError: if `episodes` is less than 1.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}.")
    check = check_python_game if on_host(game) else check_jax_game
    check(game, jax.random.key(0) if key is None else key, episodes)
