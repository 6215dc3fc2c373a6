"""The folder of a run that `gems train` makes before it imports JAX, so that a kill at any time leaves a trace.

What the words of the line show suffices: the game, the method, the seeds and the folder. A line that turns out to be
wrong leaves nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gems_jax.cli.words import asks_for_help, looks_like_a_flag, values_of
from gems_jax.runner.errors import RunError

if TYPE_CHECKING:
    from gems_jax.runner.directory import RunDirectory

_MOST_SEEDS = 10_000
_SEEDS = (("--seed", "0"), ("--seeds", "1"))


@dataclasses.dataclass
class Start:
    """Folders of a run that has not begun, their new parents, and the lock."""

    run: RunDirectory
    parents: list[Path]
    was_empty: bool  # the folder was there before
    lock: contextlib.ExitStack
    taken: bool = False


_starts: list[Start] = []  # at most one: that of the command that runs


def begin(argv: Sequence[str]) -> None:
    """Creates the folders of the run of a line, if its words determine them.

    Args:
      argv: the words after `gems train`.

    Raises:
      RunError: if the folder that the line names is not free.
    """
    seeds = _seeds_of(argv)
    if asks_for_help(argv) or "--distributed" in argv or not argv or looks_like_a_flag(argv[0]) or not seeds:
        return
    from gems_jax.runner.directory import begin_run, slug
    from gems_jax.runner.files import lock_run

    method, given = values_of(argv, "--method") or ["gems"], values_of(argv, "--run-dir") or []
    path = Path(given[0]) if given else None
    if path is not None and "--resume-latest" in argv and _exists(path / "config.json"):
        return  # a run that may be continued
    where = path or Path("runs") / slug(argv[0]) / slug(method[0]) / "run"
    parents, empty = [each for each in where.parents if not _exists(each)], path is not None and _exists(path)
    try:
        run = begin_run(["train", *argv], game=argv[0], method=method[0], seeds=seeds, path=path)
    except RunError:
        _remove_empty(parents)
        if given:
            raise
        return  # reported later, after more severe mistakes
    lock = contextlib.ExitStack()
    lock.enter_context(lock_run(run.shared))
    _starts.append(Start(run, parents, empty, lock))


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes folders that are empty, children first."""
    for folder in folders:
        with contextlib.suppress(OSError):  # another run is in it
            folder.rmdir()


def _exists(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.exists()
    return False


def _seeds_of(argv: Sequence[str]) -> range | None:
    """Finds the seeds of a line; None if they are not numbers in range, which is reported later."""
    try:
        first, count = (int((values_of(argv, flag) or [default])[0]) for flag, default in _SEEDS)
    except ValueError:
        return None
    return range(first, first + count) if first >= 0 and 1 <= count <= _MOST_SEEDS else None


def take() -> RunDirectory | None:
    """Hands the folders of this command to the run, which then locks them; None if there are none."""
    for start in _starts:
        start.taken = True
        start.lock.close()
        return start.run
    return None


def begun_folder() -> Path | None:
    """Returns the folder that this command has made; None if there is none."""
    return _starts[0].run.shared if _starts else None


def end() -> None:
    """Ends the command: removes the folders that were not taken."""
    for start in _starts:
        start.lock.close()
        if not start.taken:
            for folder in start.run.folders:
                shutil.rmtree(folder, ignore_errors=True)
            if start.was_empty:
                start.run.shared.mkdir()
            _remove_empty(start.parents)
    _starts.clear()
