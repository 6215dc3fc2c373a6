"""Every method as a `Solver`: (init, step, profile, jittable)."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from typing import Any

from gems_jax.config import GemsConfig
from gems_jax.gems import gems_profile, gems_step, init_gems
from gems_jax.types import Game, Solver


def _gems(game: Game, config: GemsConfig | None) -> Solver:
    if config is not None and not isinstance(config, GemsConfig):
        raise ValueError(f"the method gems takes a GemsConfig: got {type(config).__name__}; see gems_jax.preset")
    settings = (config or GemsConfig()).validate()
    return Solver(
        init=functools.partial(init_gems, game=game, config=settings),
        step=functools.partial(gems_step, game=game, config=settings),
        profile=lambda state, which="iterate": gems_profile(state, game, settings, which),
        jittable=True,
    )


METHODS: dict[str, Callable[[Game, Any], Solver]] = {"gems": _gems}


def make_solver(name: str, game: Game, config: Any = None) -> Solver:
    """The method `name` on `game`. Without a config, its default one. Raises ValueError for bad names and settings."""
    if name not in METHODS:
        close = difflib.get_close_matches(str(name), METHODS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown method {name!r}; {hint}known: {', '.join(sorted(METHODS))}")
    return METHODS[name](game, config)
