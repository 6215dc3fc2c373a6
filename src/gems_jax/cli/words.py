"""The words of a command line, read before JAX is imported: flags, their values, and the folder of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

HELP, HELP_ALL = ("-h", "--help"), "--help-all"
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def looks_like_a_flag(word: str) -> bool:
    """Checks whether a word is a flag, other than help, and not a negative number."""
    return word.startswith("-") and word != "-" and word not in HELP and not _NUMBER.match(word)


def asks_for_help(argv: Sequence[str]) -> bool:
    """Checks whether a line asks for help, short or complete."""
    return any(word in (*HELP, HELP_ALL) for word in argv)


def values_of(argv: Sequence[str], flag: str) -> list[str] | None:
    """Finds the values of a flag, as in `--seeds=3` or `--game-option a=1 b=2`; None if the line lacks the flag."""
    found = None
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            end = next((n for n in range(index + 1, len(argv)) if looks_like_a_flag(argv[n])), len(argv))
            found = [value] if equals else list(argv[index + 1 : end])
    return found


def check_run_folder(argv: Sequence[str]) -> None:
    """Checks that the run of a line can be written to its folder. Raises RunError.

    In a distributed run only process 0 writes, which is known later.
    """
    if asks_for_help(argv) or "--distributed" in argv:
        return
    given = values_of(argv, "--run-dir") or []
    check_folder(Path(given[0]) if given else None)


def check_folder(path: Path | None) -> None:
    """Checks that a new run can be written to `path`, or below the default folder if it is None. Raises RunError."""
    from gems_jax.runner.directory import check_free, check_writable

    if path is not None:
        check_free(path)
    check_writable(path or Path("runs"))
