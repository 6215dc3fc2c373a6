"""The words of a command line, read before JAX is imported: flags, their values, and the folder of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

HELP, HELP_ALL = ("-h", "--help"), "--help-all"
_LONGEST_HEADER = 10**7  # bytes
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
    if given and "--resume-latest" in argv and (Path(given[0]) / "config.json").exists():
        return  # a run that may be continued
    check_folder(Path(given[0]) if given else None)


def check_one_game(argv: Sequence[str]) -> None:
    """Checks that the runs and policy files of a line were trained on games of one name.

    Files that cannot be read are left to the command, and so are the games' options.

    Args:
      argv: the words after the command.

    Raises:
      RunError: if two of them name different games.
    """
    named = [(word, game) for word in argv if not looks_like_a_flag(word) and (game := stored_game(word))]
    for word, game in named[1:]:
        if game != named[0][1]:
            from gems_jax.runner.errors import RunError

            error = RunError(
                f"expected policies of one game, got {named[0][1]} ({named[0][0]}) and {game} ({word}). "
                "Name runs of the same game"
            )
            error.exit_code = 2
            raise error


def stored_game(word: str) -> str:
    """Reads the name of the game of a run, an exported file or a shipped policy; "" if the word is none of them."""
    path = Path(word)
    shipped = Path(__file__).parents[1] / "checkpoints" / f"{word}.safetensors"
    try:
        if not path.exists() and shipped.is_file():
            path = shipped
        where = path / "config.json" if path.is_dir() else path
        if not where.is_file():  # a reader of a pipe would wait forever
            return ""
        with where.open("rb") as file:
            if path.is_dir():
                return str(json.loads(file.read(_LONGEST_HEADER))["game"])
            # a safetensors file: the size of its header, then the header as JSON
            header = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), _LONGEST_HEADER)))
        return str(json.loads(header["__metadata__"]["gems_jax"])["game"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def check_folder(path: Path | None) -> None:
    """Checks that a new run can be written to `path`, or below the default folder if it is None. Raises RunError."""
    from gems_jax.runner.directory import check_free, check_writable

    if path is not None:
        check_free(path)
    check_writable(path or Path("runs"))
