"""`check_game`: does a game keep the promises of the `Game` protocol? For games of this package and for your own.

from gems_jax.testing import check_game
check_game(MyGame())        # silent, or a GameError that says what is wrong and where
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
    """Plays `episodes` random episodes and raises `GameError`, in plain words, at the first broken promise.

    Checked: declared sizes, shapes and dtypes; equal games compare and hash equal and do not retrace; jit = eager;
    vmap = loop; `step` is pure, changes nothing that it is given, and ignores the actions of seats not to move;
    somebody can always act and only seats to move may; a finished game is absorbing; episodes end within `max_steps`,
    with returns inside `return_bounds`, adding up to zero where `zero_sum` says so, and not for the wrong seat as far
    as that can be seen; `deals`, if any, agrees with `init`. Of games that Python plays, instead of what concerns JAX:
    an episode is a function of its seed and actions, in whatever order and company it is played.

    A game whose `return_bounds` are a typical interval and no limit says so by an attribute `typical_bounds = True`.
    key: seed of the check, jax.random.key(0) by default.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}.")
    check = check_python_game if on_host(game) else check_jax_game
    check(game, jax.random.key(0) if key is None else key, episodes)
