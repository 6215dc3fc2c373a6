"""Rebuilding of game, config and solver from `config.json`.

A file never decides what is imported or called. Every reader of files makes its game by `make_stored_game`, methods and
settings are looked up in tables, and checkpoints contain only arrays.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from gems_jax.config import REMOVED, GemsConfig, is_real
from gems_jax.games import NotAGameError, is_own, make_game
from gems_jax.runner.errors import RunError, UntrustedGameError
from gems_jax.types import Game, Solver, did_you_mean


class Problem(NamedTuple):
    """Game, method, settings and solver of a run."""

    game: Game
    method: str
    config: Any
    solver: Solver


def rebuild(
    record: Mapping[str, Any], where: str = "the run", *, trust: bool = False, game: Game | None = None
) -> Problem:
    """Makes the problem that a `config.json` record describes.

    Args:
      record: `game`, `method`, `config` and `options`.
      where: the file, for messages.
      trust: import the game if it is a user's own class (`package.module:MyGame`).
      game: the game, if the caller has it; the record's name is then ignored.

    Returns:
      The problem.

    Raises:
      UntrustedGameError: if the game is a user's own class without `trust`, or is not a game.
      RunError: if this installation cannot make the problem.
    """
    try:
        return _rebuild(record, where, trust, game)
    except RunError:
        raise
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise RunError(f"cannot rebuild {where}: {error}") from error
    except Exception as error:  # values of a file, or the user's code, may cause any
        raise RunError(f"cannot rebuild {where}: {type(error).__name__}: {error}") from error


def _rebuild(record: Mapping[str, Any], where: str, trust: bool, game: Game | None) -> Problem:
    from gems_jax.solvers import make_solver  # slow: imports the networks, which an invalid command line does not need

    if game is None:
        options = record.get("options") or {}
        game = make_stored_game(record["game"], options.get("game") or {}, where, trust=trust)
    method, settings = record["method"], record["config"]
    config = settings if settings is None else parse_config(type(default_settings(method)), settings)
    return Problem(game, method, config, make_solver(method, game, config))


def make_stored_game(name: Any, options: Mapping[str, Any], where: str, *, trust: bool = False) -> Game:
    """Makes the game that a file names. Every reader of files uses this function.

    Without `trust` only registered games are made: entries of `GAMES`, and ids of pgx, JaxMARL, PettingZoo and
    OpenSpiel, which are looked up in a list of their library. Nothing that the file names is imported or called.

    Args:
      name: name of the game in the file.
      options: options of the game in the file, plain JSON.
      where: the file, for messages.
      trust: import a name of the form `package.module:MyGame`. The object is checked before it is called.

    Returns:
      The game.

    Raises:
      UntrustedGameError: if the name is a user's own class without `trust`, or does not refer to a game.
      ValueError, TypeError, ImportError: if the game is unknown or cannot be made with these options.
    """
    if isinstance(name, str) and is_own(name) and not trust:
        raise UntrustedGameError(_warning(name, options, where))
    try:
        return make_game(name, **{key: _freeze(value) for key, value in options.items()})
    except NotAGameError as error:
        raise UntrustedGameError(f"cannot make the game of {where}: {error}") from error


def _warning(name: str, options: Mapping[str, Any], where: str) -> str:
    module, _, attribute = name.partition(":")
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return (
        f"{where} names the game {name!r}, which is not registered: loading it would import the Python module "
        f"{module!r} and call {attribute}({given[:200]}), which runs the code of its author. If you trust it, "
        "add --trust to the command (in Python: trust=True)"
    )


def default_settings(method: str) -> Any:
    """Returns the default settings of a method. Raises ValueError, which lists the methods, for an unknown one."""
    if method == "gems":
        return GemsConfig()
    from gems_jax.solvers import DEFAULTS

    if method not in DEFAULTS:
        raise ValueError(f"unknown method {method!r}; {did_you_mean(method, DEFAULTS)}known: {', '.join(DEFAULTS)}")
    return DEFAULTS[method]


def starting_settings(method: str, name: str, game: Game | None, preset: str) -> tuple[Any, str]:
    """Returns the settings that flags override, and the name of their preset.

    Args:
      method: name of the method; only GEMS has presets.
      name: name of the game, which selects the presets.
      game: the game, if known; until then, the paper's Kuhn table stands in for the preset "auto".
      preset: name of the preset, "NAME@GAME" for one of another game, "auto" for settings derived from the game; "" for
        the first of `replay`, `joint`, `tuned` and `auto` that the game has.

    Returns:
      The settings, and the preset ("" for none).

    Raises:
      ValueError: if the method or the preset does not exist.
    """
    base = default_settings(method)
    if isinstance(base, GemsConfig):
        return _gems_settings(base, name, game, preset)
    if preset:
        raise ValueError(f"the method {method} has no presets, got {preset!r}")
    from gems_jax.solvers import settings_of

    return settings_of(method, name), ""


def _gems_settings(base: GemsConfig, name: str, game: Game | None, which: str) -> tuple[GemsConfig, str]:
    from gems_jax.presets import AUTO, best_preset, preset

    which = which or best_preset(name)
    if which != AUTO:
        return preset(name, which), which
    return base if game is None else preset(game, AUTO), AUTO


def parse_config(kind: type, record: Mapping[str, Any]) -> Any:
    """Makes an instance of the config class `kind` from plain JSON data.

    Missing fields get their defaults. Fields of earlier versions are ignored if they have their former default.

    Args:
      kind: the config class.
      record: values by field name.

    Raises:
      ValueError: if a field is unknown.
    """
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    record = {name: value for name, value in record.items() if name in known or REMOVED.get(name, record) != value}
    unknown = sorted(record.keys() - known)
    if unknown:
        raise ValueError(
            f"{kind.__name__} has no field {unknown[0]!r}: the file was written by another version of gems_jax"
        )
    return kind(**{name: _parse_value(hints[name], value) for name, value in record.items()})


def _parse_value(hint: Any, value: Any) -> Any:
    """Converts a JSON value to its type: strings to infinity, lists to tuples."""
    if is_real(hint):
        return tuple(float(one) for one in value) if isinstance(value, list) else float(value)
    return _freeze(value)


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
