"""Settings of `gems train --config FILE`: keys of a TOML or YAML file as words of the command line.

    game = "kuhn_poker"
    method = "gems"
    iterations = 100
    policy_hidden = [64, 64]
    figures = false

    [game_option]
    a = 2.0

Flags of the line win over the file. The words are added before anything heavy is imported; which keys exist is known
once the method is.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gems_jax.cli.words import looks_like_a_flag, values_of
from gems_jax.runner.errors import RunError

FLAG = "--config"
_NOT_IN_FILES = ("config", "help", "help_all")
_LARGEST = 10**6  # bytes


class ConfigFileError(RunError):
    """Raised for a file of settings that cannot be read or has an invalid key."""

    exit_code = 2


def add_config_words(argv: Sequence[str]) -> list[str]:
    """Adds the keys of the file that --config names to a line; flags of the line replace those of the file.

    Args:
      argv: the words after `gems train`.

    Returns:
      The game, the words of the file, and the words of the line; the line itself if it has no --config.

    Raises:
      ConfigFileError: if the file cannot be read.
    """
    path = config_path(argv)
    if path is None:
        return list(argv)
    settings = read_settings(path)
    game = settings.pop("game", None)
    given = {_name_of(word) for word in argv if looks_like_a_flag(word)}
    words = [word for key, value in settings.items() if key not in given for word in _words_of(path, key, value)]
    first, rest = ([argv[0]], argv[1:]) if not looks_like_a_flag(argv[0]) else ([], argv)
    if not first and game is not None:
        if not isinstance(game, str):
            raise ConfigFileError(f"{path}: game must be a name, got {game!r}")
        first = [game]
    return [*first, *words, *rest]


def config_path(argv: Sequence[str]) -> Path | None:
    """Finds the file that --config names; None if the line has no --config. Raises ConfigFileError."""
    given = values_of(argv, FLAG)
    if given is None:
        return None
    if len(given) != 1 or not given[0]:
        raise ConfigFileError(
            f"{FLAG} needs one file, got {len(given)}. Write the game first: gems train GAME {FLAG} FILE"
        )
    return Path(given[0])


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a file of settings. Dashes in keys become underscores.

    Args:
      path: a file whose name ends in .toml, .yaml or .yml.

    Returns:
      The settings by key.

    Raises:
      ConfigFileError: if the file cannot be read, has another ending, or is not a table.
    """
    reader = {".toml": _read_toml, ".yaml": _read_yaml, ".yml": _read_yaml}.get(path.suffix.lower())
    if reader is None:
        raise ConfigFileError(
            f"cannot read {path}: expected a file that ends in .toml, .yaml or .yml, got {path.suffix!r}"
        )
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise ConfigFileError(f"cannot read {path}: expected a file of at most {_LARGEST // 10**6} MB")
        found = reader(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigFileError(f"cannot read {path}: {error}") from error
    if not isinstance(found, Mapping):
        raise ConfigFileError(f"cannot read {path}: expected settings as key and value, got {type(found).__name__}")
    settings: dict[str, Any] = {}
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name in settings:
            raise ConfigFileError(f"{path}: the key {key!r} is there twice")
        settings[name] = value
    return settings


def check_keys(path: Path, flags: set[str], elsewhere: Callable[[str], str]) -> None:
    """Checks that every key of a file is a setting of the command.

    Args:
      path: the file.
      flags: the flags that exist, such as --eta.
      elsewhere: explains where else an unknown flag exists; "" if nowhere.

    Raises:
      ConfigFileError: for the first unknown key, with the closest known one.
    """
    from gems_jax.types import did_you_mean

    known = {_name_of(flag) for flag in flags} | {"game"}
    for key in read_settings(path):
        if key in _NOT_IN_FILES or key not in known:
            hint = did_you_mean(key, sorted(known - {*_NOT_IN_FILES}), cutoff=0.6)
            hint = hint or elsewhere(f"--{key.replace('_', '-')}") or "gems train --help-all lists the settings"
            raise ConfigFileError(f"{path}: unknown key {key!r}; {hint}")


def _name_of(word: str) -> str:
    """Returns the key of a flag: --no-figures and --figures are both `figures`."""
    name = word.partition("=")[0].removeprefix("--").replace("-", "_")
    return name.removeprefix("no_")


def _words_of(path: Path, key: str, value: Any) -> list[str]:
    """Converts a key and its value to words of the command line."""
    flag = f"--{key.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag[2:]}"]
    if isinstance(value, Mapping):
        if key != "game_option":
            raise ConfigFileError(
                f"{path}: {key!r} is a table; the only table is game_option, with options of the game"
            )
        return [flag, *(f"{name}={option!r}" for name, option in value.items())] if value else []
    if isinstance(value, list):
        return [flag, *(_text(path, key, item) for item in value)] if value else []
    return [f"{flag}={_text(path, key, value)}"]


def _text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, bool | Mapping | list | datetime.date | datetime.time) or value is None:
        raise ConfigFileError(
            f"{path}: {key!r} must be a number, a text, true, false or a list of these, got {value!r}"
        )
    return str(value)


def _read_toml(text: str) -> Any:
    return tomllib.loads(text)


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigFileError("a YAML file needs PyYAML: pip install pyyaml, or write the settings as TOML") from None
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigFileError(f"invalid YAML: {' '.join(str(error).split())}") from error
    return {} if found is None else found
