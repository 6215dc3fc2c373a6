"""Parsing of command lines into dataclasses by tyro; every error is one line with a suggestion."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import itertools
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gems_jax.cli.words import looks_like_a_flag
from gems_jax.runner.errors import RunError
from gems_jax.types import did_you_mean

if TYPE_CHECKING:
    from gems_jax.evaluate.loaded_policy import LoadedPolicy

_DECORATION = re.compile(r"\x1b\[[0-9;]*m|[─━╭╮╰╯│┃]|-{5,}|^[+|][-\s]*|[-\s]*[+|]$", re.MULTILINE)


# A field of every command that reads a game's name from a file.
Trust = Annotated[
    bool,
    tyro.conf.arg(
        help="Import the game if the file names a class outside gems_jax, package.module:MyGame. Importing runs "
        "code, so trust the author of the file first."
    ),
]


@dataclasses.dataclass(frozen=True)
class PolicyArguments:
    """Options shared by the commands that play a trained policy."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory (of a seed or of a batch), exported file, or name of a shipped policy."""
    seed: int | None = None
    """Seed of a batch (default: the first)."""
    at: str = "last"
    """Checkpoint to use: last, best (lowest exploitability or highest score), or a saved iteration."""
    trust: Trust = False


class UsageError(RunError):
    """Raised for an invalid command line."""

    exit_code = 2


def parse(
    kind: Any,
    argv: Sequence[str],
    *,
    prog: str,
    default: Any = None,
    flags: Iterable[str] = (),
    elsewhere: Callable[[str], str] | None = None,
) -> Any:
    """Parses a command line into an instance of a dataclass. Prints help and exits on --help.

    Args:
      kind: the dataclass.
      argv: the words after the command.
      prog: the command, for help and messages.
      default: instance that holds the defaults; None for those of `kind`.
      flags: the flags of `kind` where `flags_of` cannot list them (a generic alias).
      elsewhere: explains where else an unknown flag exists; "" if nowhere.

    Returns:
      The instance of `kind`.

    Raises:
      UsageError: if the line is invalid.
    """
    check_flags(argv, set(flags) or flags_of(kind), prog, elsewhere)
    errors = io.StringIO()
    extra = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(kind, args=list(argv), prog=prog, **extra)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(_join_lines(errors.getvalue())) from None


def flags_of(kind: type) -> set[str]:
    """Lists the flags that tyro gives a dataclass; flags of nested dataclasses have no prefix."""
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
    aliases = {alias for one in getattr(hint, "__metadata__", ()) for alias in getattr(one, "aliases", None) or ()}
    return aliases | ({f"--{flag}", f"--no-{flag}"} if bare is bool else {f"--{flag}"})


def print_help(usage: str, groups: Mapping[str, Sequence[str]], holders: Sequence[Any]) -> None:
    """Prints the flags of some fields in groups, each with its help and its default.

    Args:
      usage: command and arguments.
      groups: names of fields by heading; those that no holder has are left out.
      holders: dataclass instances that hold the defaults.
    """
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    documented = [(holder, field_docs(type(holder))) for holder in holders]
    lines = [f"usage: {usage} [FLAG ...]"]
    for heading, names in groups.items():
        held = [(name, holder, docs[name]) for name in names for holder, docs in documented if name in docs]
        lines += ["", heading] if held else []
        for name, holder, text in held:
            flag, text = _describe_flag(name, text, getattr(holder, name))
            first, *rest = textwrap.wrap(text, max(width - 30, 30))
            lines += [f"  {flag:<27} {first}", *(" " * 30 + line for line in rest)]
    print("\n".join(lines))


def _describe_flag(name: str, text: str, default: Any) -> tuple[str, str]:
    """Returns a flag with a placeholder of its value (`--no-` if it is on), and its help with the default."""
    flag = name.replace("_", "-")
    if isinstance(default, bool):
        return (f"--no-{flag}", f"Do not {text[:1].lower()}{text[1:]}") if default else (f"--{flag}", text)
    placeholder = {int: "N", float: "X", tuple: "..."}.get(type(default), "NAME" if default is not None else "PATH")
    shown = "" if default in (None, "", ()) else f" [{default:g}]" if isinstance(default, float) else f" [{default}]"
    return f"--{flag} {placeholder}", text + shown


def field_docs(kind: type) -> dict[str, str]:
    """Collects the docstrings of a dataclass's fields, inherited ones included, each as one line."""
    docs = {}
    for base in reversed([base for base in kind.__mro__ if dataclasses.is_dataclass(base)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for node, after in itertools.pairwise(body):
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if documented and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                docs[node.target.id] = " ".join(str(after.value.value).split()).rstrip(".")  # type: ignore[attr-defined]
    return docs


def check_flags(argv: Sequence[str], known: set[str], prog: str, elsewhere: Callable[[str], str] | None = None) -> None:
    """Checks that every flag of a line is known.

    Args:
      argv: the words after the command.
      known: the flags that exist.
      prog: the command, for messages.
      elsewhere: explains where else an unknown flag exists; "" if nowhere.

    Raises:
      UsageError: for the first unknown flag, with the closest known one.
    """
    for word in filter(looks_like_a_flag, argv):
        given = word.split("=", 1)[0]
        flag = given.replace("_", "-")
        if flag not in known:
            hint = _near_flag(flag, known, 0.8) or (elsewhere(flag) if elsewhere else "")
            hint = hint or _near_flag(flag, known, 0.6) or f"{prog} --help lists the flags"
            raise UsageError(f"unknown flag {given}; {hint}")


def _near_flag(flag: str, known: set[str], cutoff: float) -> str:
    return did_you_mean(flag, sorted(known), cutoff=cutoff).replace("'", "").rstrip()


def check_minima(arguments: Any, **least: float) -> None:
    """Checks flags against their minima, given as `name=minimum`. Raises UsageError for the first one below."""
    for name, bound in least.items():
        if not getattr(arguments, name) >= bound:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} must be at least {bound}, got {getattr(arguments, name)}")


def check_games_seed(seed: int | None, flag: str = "--games-seed") -> None:
    """Checks the range of a seed of games, which a flag gives. Raises UsageError."""
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"{flag} must be an integer from 0 to 2^31 - 1, got {seed}")


def load_policy(arguments: PolicyArguments, **options: Any) -> LoadedPolicy:
    """Loads the policy that RUN, --seed, --at and --trust select; damaged checkpoints are reported on stderr.

    Args:
      arguments: the parsed command line.
      **options: further arguments of `gems_jax.load`, which override those of the line.
    """
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.runner.load import load

    enable_compilation_cache()
    chosen = {"seed": arguments.seed, "at": arguments.at, "trust": arguments.trust, "say": report_error}
    return load(arguments.run, **{**chosen, **options})


def report_error(text: str) -> None:
    """Prints a line on stderr."""
    print(text, file=sys.stderr)


def _join_lines(box: str) -> str:
    """Joins the error that tyro prints in a box into one line, without its title, the flag's help and its footer."""
    lines = [_DECORATION.sub("", line).strip() for line in box.splitlines()]
    text = re.split("Argument helptext|For full helptext", " ".join(filter(None, lines[1:])))[0].strip()
    text = re.sub("^Missing from .*?: ", "missing: ", text).replace(" (required)", "")
    wrong = re.search(r"invalid choice '(.*?)'.*\((.*)\)", text)
    if wrong:
        hint = did_you_mean(wrong[1], re.findall("'(.*?)'", wrong[2]), cutoff=0.4).rstrip()
        text += hint and f" D{hint[1:]}"
    return text or "the command line could not be read"
