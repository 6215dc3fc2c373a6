"""From what `config.json` says back to the objects: the game, the config, the solver."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from gems_jax.config import GemsConfig, is_real
from gems_jax.games import make_game
from gems_jax.run.errors import RunError
from gems_jax.types import Game, Solver


class Problem(NamedTuple):
    """What a run solves, and how."""

    game: Game
    method: str
    config: Any
    solver: Solver


def rebuild(record: Mapping[str, Any], where: str = "the run") -> Problem:
    """The problem of a `config.json` record. RunError when this installation cannot make it."""
    from gems_jax.solvers import make_solver  # loads the networks: not for a command line that is about to be refused

    options = record.get("options") or {}
    try:
        game = make_game(record["game"], **_game_options(options.get("game") or {}))
        method, settings = record["method"], record["config"]
        config = settings if settings is None else config_of(type(default_settings(method)), settings)
        return Problem(game, method, config, make_solver(method, game, config))
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise RunError(f"cannot rebuild {where}: {error}") from error


def default_settings(method: str) -> Any:
    """The settings that a method has by default. ValueError that lists the methods when there is none of that name."""
    if method == "gems":
        return GemsConfig()
    from gems_jax.solvers import DEFAULTS

    if method not in DEFAULTS:
        close = difflib.get_close_matches(method, DEFAULTS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown method {method!r}; {hint}known: {', '.join(DEFAULTS)}")
    return DEFAULTS[method]


def starting_settings(method: str, name: str, game: Game | None, preset: str) -> tuple[Any, str]:
    """The settings that a user changes, and the preset they come from ("" for none).

    Of GEMS the preset asked for, else the `tuned` or `paper` one of the game `name`, else the default ones, with a
    network where the game (None: not known yet) cannot be walked. ValueError for presets that there are not.
    """
    from gems_jax.evaluate.game_tree import walkable
    from gems_jax.presets import PRESETS
    from gems_jax.presets import preset as named

    base = default_settings(method)
    if not isinstance(base, GemsConfig):
        if preset:
            raise ValueError(f"the method {method} has no presets: got {preset!r}")
        return base, ""
    preset = preset or next((each for each in ("tuned", "paper") if each in PRESETS.get(name, {})), "")
    if preset:
        return named(name, preset), preset
    if game is not None and not walkable(game):
        return base.replace(policy="mlp", policy_hidden=(64, 64)), ""
    return base, ""


def config_of(kind: type, record: Mapping[str, Any]) -> Any:
    """An instance of the config class `kind` from plain JSON data; fields that it lacks keep their defaults."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(record.keys() - known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}: it was written by another version of gems_jax")
    return kind(**{name: _value(hints[name], value) for name, value in record.items()})


def _value(hint: Any, value: Any) -> Any:
    """JSON has no infinity, which is written as a string, and no tuples."""
    if is_real(hint):
        return tuple(float(one) for one in value) if isinstance(value, list) else float(value)
    return tuple(value) if isinstance(value, list) else value


def _game_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
