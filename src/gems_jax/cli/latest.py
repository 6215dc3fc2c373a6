"""The newest unfinished run of a folder, for `gems resume --latest` and `gems train --resume-latest`."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gems_jax.runner.directory import read_config, read_status
from gems_jax.runner.errors import RunError

_DEPTH = 4  # levels of folders below the root: runs/GAME/METHOD/RUN, or arms of experiments
_UNFINISHED = ("interrupted", "failed")


def find_unfinished(root: Path, game: str = "", method: str = "", iterations: int = 0) -> Path | None:
    """Finds the newest run that can be continued.

    Runs that a process is writing, and folders that cannot be read, are skipped.

    Args:
      root: folder to search, or a run.
      game: name of the game; "" for any.
      method: name of the method; "" for any.
      iterations: runs that are done count if they have fewer iterations than this.

    Returns:
      The folder of the run; None if there is none.
    """
    found: list[tuple[datetime.datetime, str]] = []
    for folder in _run_folders(root):
        with contextlib.suppress(RunError, OSError, ValueError):
            record = read_config(folder)
            fits = game in ("", record["game"]) and method in ("", record["method"])
            if fits and record["shared"] == "." and _can_continue(folder, iterations):
                found.append((datetime.datetime.fromisoformat(record["created"]).astimezone(), str(folder)))
    return Path(max(found)[1]) if found else None


def _run_folders(root: Path) -> Iterator[Path]:
    for depth in range(_DEPTH + 1):
        yield from (path.parent for path in root.glob("*/" * depth + "config.json"))


def _can_continue(folder: Path, iterations: int) -> bool:
    status = read_status(folder)
    if status["state"] in _UNFINISHED:
        return True
    return status["state"] == "done" and status["iteration"] < iterations


def check_same_run(folder: Path, expected: dict[str, Any]) -> None:
    """Checks that a run has the settings of a command line.

    Args:
      folder: the run.
      expected: game, method, seeds, config and game options of the line, as plain data.

    Raises:
      RunError: with the first setting that differs.
    """
    from gems_jax.runner.files import differing_field

    record = read_config(folder)
    stored = {name: record[name] for name in ("game", "method", "seeds")}
    config = {name: value for name, value in record["config"].items() if name != "iterations"}
    stored |= {"config": config, "game_option": (record.get("options") or {}).get("game", {})}
    differs = differing_field(stored, expected)
    if differs:
        name = differs[0].removeprefix("config.")
        error = RunError(
            f"{folder} is the newest unfinished run, with {name} = {differs[1]!r}, and this line has {differs[2]!r}. "
            f"Give the same settings, or leave --resume-latest out to start a new run"
        )
        error.exit_code = 2
        raise error
