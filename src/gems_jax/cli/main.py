"""The command `gems`, also `python -m gems_jax`.

A command's module is imported when it is called, so that help is quick. Every expected failure is printed as one line
on stderr and sets the exit code: 2 for the command line, 1 for files and disks, 3 for NaN, 130 and 143 for Ctrl-C and
SIGTERM. Exit code 70 marks a defect of the program, whose traceback is written to a file.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gems_jax.cli import COMMANDS, starting
from gems_jax.cli.config_file import add_config_words
from gems_jax.cli.words import asks_for_help, check_one_game, check_run_folder
from gems_jax.host.base import EnvironmentFailure
from gems_jax.runner.errors import RunError

DEFECT = 70
_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS)
WAITING = ("train", "resume", "warm")  # commands that show what they wait for from the start
QUICK_CHECKS = {"train": check_run_folder, "arena": check_one_game}  # before anything heavy is imported


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line, by default that of the process, and exits with its exit code."""
    sys.exit(invoke(sys.argv[1:] if argv is None else argv))


def invoke(argv: Sequence[str]) -> int:
    """Runs a command line and returns its exit code; every failure is reported in one line on stderr."""
    argv = list(argv)
    # Silences XLA's log, such as an alarm at every compilation of two minutes; errors are raised as exceptions anyway.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if argv[0] in ("-V", "--version", "version"):
        from gems_jax import __version__

        print(f"gems_jax {__version__}")
        return 0
    prog = f"gems {argv[0]}" if argv[0] in COMMANDS else "gems"
    try:
        return _run_command(argv)
    except SystemExit as leave:  # help was printed
        return leave.code if isinstance(leave.code, int) else 0
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except (Exception, KeyboardInterrupt) as error:
        _end_waiting()
        return _report(prog, error, argv)
    finally:
        _end_waiting()
        starting.end()


def _run_command(argv: list[str]) -> int:
    if argv[0] == "train":
        argv = ["train", *add_config_words(argv[1:])]
    if _command(argv[0]) in WAITING and "--quiet" not in argv and not asks_for_help(argv):
        from gems_jax.runner.console import open_console

        open_console().wait("importing")
    if argv[0] in QUICK_CHECKS and not asks_for_help(argv):
        QUICK_CHECKS[argv[0]](argv[1:])
    if argv[0] == "train":
        starting.begin(argv[1:])
    module = importlib.import_module(f"gems_jax.cli.commands.{COMMANDS[_command(argv[0])].module}")
    # A user's own game may be in the current folder. Otherwise nothing is imported from there, whatever a file names.
    if _allows_imports(argv) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return module.main(argv[1:])


def _end_waiting() -> None:
    """Closes the console of the command, if it has one."""
    module = sys.modules.get("gems_jax.runner.console")
    if module is not None:
        module.close_console()


def _report(prog: str, error: BaseException, argv: Sequence[str]) -> int:
    if isinstance(error, RunError):
        return _fail(prog, str(error), error.exit_code)
    if isinstance(error, EnvironmentFailure):
        return _fail(prog, str(error), 1)
    if isinstance(error, KeyboardInterrupt):
        return _fail(prog, "stopped", 130)
    if isinstance(error, OSError) and error.errno in _PATHS and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
        return _fail(prog, f"cannot use the path {name[:80]!r}: {error.strerror}. Choose another path", 2)
    return _report_defect(prog, error, argv)


def overview() -> str:
    """Formats the list of commands that `gems --help` prints."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  gems {command.usage:<{width}}   {command.summary}" for command in COMMANDS.values()]
    return "\n".join(
        [
            "gems: population-based game solving in JAX",
            "",
            *lines,
            "",
            "gems COMMAND --help lists the flags of a command. A RUN is a run directory, an exported file, or the name",
            "of a policy that ships with the package.",
            "First steps:  gems train kuhn_poker --quick;  gems games;  gems methods",
        ]
    )


def _command(word: str) -> str:
    if word in COMMANDS:
        return word
    from gems_jax.types import did_you_mean

    hint = did_you_mean(word, COMMANDS, cutoff=0.5)
    kind = "flag" if word.startswith("-") else "command"
    error = RunError(f"unknown {kind} {word!r}; {hint}known commands: {', '.join(COMMANDS)}")
    error.exit_code = 2
    raise error


def _allows_imports(argv: Sequence[str]) -> bool:
    """Checks whether the line names a module, `module:MyGame`, or trusts a file that may name one."""
    return any(word == "--trust" or ":" in word for word in argv)


def _fail(prog: str, message: str, code: int) -> int:
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        print(f"{prog}: {line}", file=sys.stderr, flush=True)
    return code


def _report_defect(prog: str, error: BaseException, argv: Sequence[str]) -> int:
    """Reports a defect in one line and writes its traceback to a file."""
    text = f"{type(error).__name__}: {str(error) or 'no message'}"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return _fail(prog, f"out of memory ({text[:200]}); try fewer --seeds, a --seed-batch, or smaller sizes", 1)
    if "--debug" in argv:
        traceback.print_exception(error)
        return DEFECT
    return _fail(prog, f"unexpected {text[:300]}{_write_traceback(error, argv)}", DEFECT)


def _write_traceback(error: BaseException, argv: Sequence[str]) -> str:
    """Writes the traceback to a new file and names it for the end of a message; "" if it cannot be written.

    The file is in the run folder, or else in a new folder of mode 0700.
    """
    name = f"error-{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    for find_folder in (lambda: _folder_of(argv), lambda: Path(tempfile.mkdtemp(prefix="gems_jax-"))):
        with contextlib.suppress(OSError):
            folder = find_folder()
            if folder is not None:
                with open(folder / name, "x", encoding="utf-8", errors="replace") as file:
                    traceback.print_exception(error, file=file)
                return f"; the traceback is in {folder / name}"
    return ""


def _folder_of(argv: Sequence[str]) -> Path | None:
    """Finds the run folder that a line is about: the one that it has made, or its first word."""
    if starting.begun_folder() is not None:
        starting.take()  # the folder with the traceback stays
        return starting.begun_folder()
    named = Path(argv[1]) if len(argv) > 1 else None
    return named if named is not None and (named / "config.json").is_file() else None


def _forget_stdout() -> None:
    """Redirects stdout to the null device, because its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
