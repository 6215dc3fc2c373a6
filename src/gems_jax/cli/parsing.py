"""Command lines to dataclasses, by tyro; every mistake becomes one line with a suggestion."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gems_jax.runner.errors import RunError
from gems_jax.types import did_you_mean

if TYPE_CHECKING:
    from gems_jax.runner.load import LoadedPolicy

HELP = ("-h", "--help")
_NUMBER = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|[─━╭╮╰╯│┃]|-{5,}|^[+|][-\s]*|[-\s]*[+|]$", re.MULTILINE)


# A field of every command that reads a game's name from a file.
Trust = Annotated[
    bool,
    tyro.conf.arg(
        help="Import the game where the file names a class of somebody's own, package.module:MyGame. Importing runs "
        "code: only for files whose author you trust."
    ),
]


@dataclasses.dataclass(frozen=True)
class PolicyArguments:
    """Options shared by the commands that play a trained policy."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory (a seed's folder or a batch's), exported file, or the name of a shipped policy."""
    seed: int | None = None
    """Which seed of a batch (default: the first)."""
    at: str = "last"
    """Which checkpoint: last, best (of lowest exploitability or highest score), or an iteration that was kept."""
    trust: Trust = False


class UsageError(RunError):
    """A mistake on the command line."""

    exit_code = 2


def parse(kind: Any, argv: Sequence[str], *, prog: str, default: Any = None, flags: Iterable[str] = ()) -> Any:
    """`argv` as an instance of the dataclass `kind`. Prints help and leaves on --help; UsageError for mistakes.

    `flags` are those of `kind` when they cannot be read off it (a generic alias).
    """
    check_flags(argv, set(flags) or flags_of(kind), prog)
    words = io.StringIO()
    extra = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(words):
            return tyro.cli(kind, args=list(argv), prog=prog, **extra)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(_one_line(words.getvalue())) from None


def flags_of(kind: type) -> set[str]:
    """Lists the flags that tyro gives a dataclass; those of nested ones are taken in without a prefix."""
    fields = {field.name for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind, include_extras=True)
    return set().union(*(_flags(name, hint) for name, hint in hints.items() if name in fields))


def _flags(name: str, hint: Any) -> set[str]:
    if tyro.conf.Positional in getattr(hint, "__metadata__", ()):
        return set()
    bare = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    if dataclasses.is_dataclass(bare) and isinstance(bare, type):
        return flags_of(bare)
    flag = name.replace("_", "-")
    return {f"--{flag}", f"--no-{flag}"} if bare is bool else {f"--{flag}"}


def check_flags(argv: Sequence[str], known: set[str], prog: str) -> None:
    """UsageError for the first thing that looks like a flag and is none."""
    for word in filter(_looks_like_a_flag, argv):
        given = word.split("=", 1)[0]
        flag = given.replace("_", "-")
        if flag not in known:
            hint = did_you_mean(flag, sorted(known), cutoff=0.5).replace("'", "") or f"{prog} --help lists the flags"
            raise UsageError(f"unknown flag {given}; {hint.rstrip()}")


def _looks_like_a_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and word not in HELP and not _NUMBER.match(word)


def check_least(arguments: Any, **least: float) -> None:
    """UsageError for the first flag below its least value."""
    for name, bound in least.items():
        if not getattr(arguments, name) >= bound:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be at least {bound}: got {getattr(arguments, name)}")


def check_games_seed(seed: int | None) -> None:
    """UsageError for a --games-seed that is no seed."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--games-seed must be a whole number from 0 to 2^31: got {seed}")


def load_policy(arguments: PolicyArguments, **options: Any) -> LoadedPolicy:
    """Loads the policy that RUN, --seed, --at and --trust name; damaged checkpoints are reported on stderr."""
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.runner.load import load

    enable_compilation_cache()
    chosen = {"seed": arguments.seed, "at": arguments.at, "trust": arguments.trust, "say": report_error}
    return load(arguments.run, **{**chosen, **options})


def report_error(text: str) -> None:
    """Prints a line on stderr."""
    print(text, file=sys.stderr)


def _one_line(box: str) -> str:
    """What tyro says in a box, as one line: without its title, the flag's help and its last words."""
    lines = [_DECORATION.sub("", line).strip() for line in box.splitlines()]
    text = re.split("Argument helptext|For full helptext", " ".join(filter(None, lines[1:])))[0].strip()
    text = re.sub("^Missing from .*?: ", "missing: ", text).replace(" (required)", "")
    wrong = re.search(r"invalid choice '(.*?)'.*\((.*)\)", text)
    if wrong:
        hint = did_you_mean(wrong[1], re.findall("'(.*?)'", wrong[2]), cutoff=0.4).rstrip()
        text += hint and f" D{hint[1:]}"
    return text or "the command line could not be read"
