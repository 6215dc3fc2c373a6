"""From what `config.json` says back to the objects: the game, the config, the solver.

A file never decides what is imported or called. Every reader of files makes its game by `make_stored_game`, methods and
settings are looked up in tables, and checkpoints hold arrays only.
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
    """What a run solves, and how."""

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
      trust: import the game where it is a user's own class (`package.module:MyGame`).
      game: the game itself, for callers who have it: the record's name is then not looked up.

    Raises:
      UntrustedGameError: if the game is a user's own class without `trust`, or is not a game at all.
      RunError: if this installation cannot make the problem.
    """
    try:
        return _rebuild(record, where, trust, game)
    except RunError:
        raise
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise RunError(f"cannot rebuild {where}: {error}") from error
    except Exception as error:
        if not trust:
            raise
        raise RunError(f"cannot rebuild {where}: {type(error).__name__}: {error}") from error  # in the user's code


def _rebuild(record: Mapping[str, Any], where: str, trust: bool, game: Game | None) -> Problem:
    from gems_jax.solvers import make_solver  # loads the networks: not for a command line that is about to be refused

    if game is None:
        options = record.get("options") or {}
        game = make_stored_game(record["game"], options.get("game") or {}, where, trust=trust)
    method, settings = record["method"], record["config"]
    config = settings if settings is None else config_of(type(default_settings(method)), settings)
    return Problem(game, method, config, make_solver(method, game, config))


def make_stored_game(name: Any, options: Mapping[str, Any], where: str, *, trust: bool = False) -> Game:
    """Makes the game that a file names: the only way from a file to a game.

    Without `trust` only registered games are made: rows of `GAMES`, and ids of pgx, JaxMARL, PettingZoo and OpenSpiel,
    each of which is looked up in a list of its library. Nothing that the file names is imported or called.

    Args:
      name: what the file calls the game.
      options: what the file says that the game is made with, plain JSON.
      where: the file, for messages.
      trust: import `package.module:MyGame` where the name is one. The object is checked before it is called.

    Raises:
      UntrustedGameError: if the name is a user's own without `trust`, or leads to what is not a game.
      ValueError, TypeError, ImportError: if the game is unknown or cannot be made with these options.
    """
    if isinstance(name, str) and is_own(name) and not trust:
        raise UntrustedGameError(_warning(name, options, where))
    try:
        return make_game(name, **{key: _frozen(value) for key, value in options.items()})
    except NotAGameError as error:
        raise UntrustedGameError(f"cannot make the game of {where}: {error}") from error


def _warning(name: str, options: Mapping[str, Any], where: str) -> str:
    module, _, attribute = name.partition(":")
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return (
        f"{where} names the game {name!r}, which is not registered: loading it would import the Python module "
        f"{module!r} and call {attribute}({given[:200]}), that is, run the code of whoever wrote it. If you trust "
        "it, also when the run is your own, add --trust to the command (in Python: trust=True)"
    )


def default_settings(method: str) -> Any:
    """The settings that a method has by default. ValueError that lists the methods when there is none of that name."""
    if method == "gems":
        return GemsConfig()
    from gems_jax.solvers import DEFAULTS

    if method not in DEFAULTS:
        raise ValueError(f"unknown method {method!r}; {did_you_mean(method, DEFAULTS)}known: {', '.join(DEFAULTS)}")
    return DEFAULTS[method]


def starting_settings(method: str, name: str, game: Game | None, preset: str) -> tuple[Any, str]:
    """Returns the settings that a user changes, and the preset they come from ("" for none).

    Of GEMS the preset asked for, else the `replay`, `tuned` or `paper` one of the game `name`, else the default ones,
    with a network where the game (None: not known yet) is not enumerable. ValueError for presets that there are not.
    """
    base = default_settings(method)
    if isinstance(base, GemsConfig):
        return _gems_settings(base, name, game, preset)
    if preset:
        raise ValueError(f"the method {method} has no presets: got {preset!r}")
    return base, ""


def _gems_settings(base: GemsConfig, name: str, game: Game | None, which: str) -> tuple[GemsConfig, str]:
    from gems_jax.extensive.tree import walkable
    from gems_jax.presets import PRESETS, preset

    which = which or next((each for each in ("replay", "tuned", "paper") if each in PRESETS.get(name, {})), "")
    if which:
        return preset(name, which), which
    if game is not None and not walkable(game):
        return base.replace(policy="mlp", policy_hidden=(64, 64)), ""
    return base, ""


def config_of(kind: type, record: Mapping[str, Any]) -> Any:
    """Makes an instance of the config class `kind` from plain JSON data.

    Fields that the record lacks keep their defaults. Removed fields are dropped if they have the value that they had
    by default.
    """
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    record = {name: value for name, value in record.items() if name in known or REMOVED.get(name, record) != value}
    unknown = sorted(record.keys() - known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}: it was written by another version of gems_jax")
    return kind(**{name: _value(hints[name], value) for name, value in record.items()})


def _value(hint: Any, value: Any) -> Any:
    """JSON has no infinity, which is written as a string, and no tuples."""
    if is_real(hint):
        return tuple(float(one) for one in value) if isinstance(value, list) else float(value)
    return _frozen(value)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
