"""The command `gems`, also `python -m gems_jax`.

A command's module is imported when it is called, so that help is quick. What a user did wrong, and what can go wrong
with a run, is one line on stderr and an exit code: 2 for the command line, 1 for files and disks, 3 for NaN, 130 and
143 for Ctrl-C and SIGTERM, 70 for a defect of the program (whose traceback goes to a file).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gems_jax.cli import COMMANDS
from gems_jax.host.base import EnvironmentFailure
from gems_jax.runner.errors import RunError

DEFECT = 70


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default that of the process, and leave with its exit code."""
    sys.exit(invoke(sys.argv[1:] if argv is None else argv))


def invoke(argv: Sequence[str]) -> int:
    """Runs a command line and returns its exit code; every failure is reported in one line on stderr."""
    argv = list(argv)
    # XLA's own log lines, such as an alarm at every compilation that takes two minutes: its errors are raised as well
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
    except SystemExit as leave:  # help was shown
        return leave.code if isinstance(leave.code, int) else 0
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except (Exception, KeyboardInterrupt) as error:
        return _report(prog, error, show="--debug" in argv)


def _run_command(argv: list[str]) -> int:
    module = importlib.import_module(f"gems_jax.cli.{COMMANDS[_command(argv[0])].module}")
    # A user's own game lies in the current folder. Other lines import nothing from there, whatever a file names.
    if _may_import(argv) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return module.main(argv[1:])


def _report(prog: str, error: BaseException, show: bool) -> int:
    if isinstance(error, RunError):
        return _fail(prog, str(error), error.exit_code)
    if isinstance(error, EnvironmentFailure):
        return _fail(prog, str(error), 1)
    if isinstance(error, KeyboardInterrupt):
        return _fail(prog, "stopped", 130)
    return _unexpected(prog, error, show)


def overview() -> str:
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
            "First steps:  gems train kuhn_poker --quick;  gems games;  gems doctor",
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


def _may_import(argv: Sequence[str]) -> bool:
    """Whether the line names a module, `module:MyGame`, or trusts a file that may."""
    return any(word == "--trust" or ":" in word for word in argv)


def _fail(prog: str, message: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # nobody may be listening
        print(f"{prog}: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _unexpected(prog: str, error: BaseException, show: bool) -> int:
    """A failure that nobody foresaw: one line, and the whole story in a file."""
    told = f"{type(error).__name__}: {str(error) or 'no further words'}"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in told or "out of memory" in told.lower():
        return _fail(prog, f"out of memory ({told[:200]}); try fewer --seeds, a --seed-batch, or smaller sizes", 1)
    if show:
        traceback.print_exception(error)
        return DEFECT
    return _fail(prog, f"unexpected {told[:300]}{_write_traceback(error)}", DEFECT)


def _write_traceback(error: BaseException) -> str:
    """Where the traceback is, for the end of a message; "" where it cannot be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gems_jax-error-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return ""
    return f"; the traceback is in {Path(file.name)}"


def _forget_stdout() -> None:
    """Whoever read our output has left: nothing more may be flushed to it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
