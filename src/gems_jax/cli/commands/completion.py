"""Prints a script that completes commands and flags in a shell: `gems completion bash`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import operator
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import tyro

from gems_jax.cli import COMMANDS
from gems_jax.cli.parsing import parse


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print a script that completes commands, flags and their choices, for the shell to read at its start.

    bash: gems completion bash > ~/.local/share/bash-completion/completions/gems; zsh: save it as _gems in a folder of
    fpath. The flags of `gems train` are those of the default method, gems."""

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]
    """bash or zsh."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems completion` and returns its exit code."""
    print(completion_script(parse(Completion, argv, prog="gems completion").shell))
    return 0


def completion_script(shell: str) -> str:
    """Writes the completion script of all commands by tyro.

    Args:
      shell: bash or zsh.

    Returns:
      The script.
    """
    kinds: list[Any] = [Annotated[kind, tyro.conf.subcommand(name=name)] for name, kind in argument_kinds().items()]
    every: Any = functools.reduce(operator.or_, kinds)
    script = io.StringIO()
    with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
        tyro.cli(every, prog="gems", args=["--tyro-print-completion", shell])
    # A line break inside of a description would end it, and the rest would be offered as a word of its own.
    lines = script.getvalue().strip().split("\n")
    return "\n".join(line.replace("\\n", " ") if "'description': " in line else line for line in lines)


def argument_kinds() -> dict[str, Any]:
    """Maps every command to the dataclass of its arguments; for `train`, with the settings of GEMS."""
    return {name: _kind_of(name, command.module) for name, command in COMMANDS.items()}


def _kind_of(name: str, module_name: str) -> Any:
    module = importlib.import_module(f"gems_jax.cli.commands.{module_name}")
    if name == "train":
        from gems_jax.config import GemsConfig

        return module.Arguments[GemsConfig]
    (kind,) = [
        each
        for each in vars(module).values()
        if dataclasses.is_dataclass(each) and getattr(each, "__module__", "") == module.__name__
    ]
    return kind
