"""Imports of a user's own class by its name, and the import path of worker processes.

Only names that a user typed, or that stand in a file that the user trusts, may come to `import_own`: importing runs
code.
"""

from __future__ import annotations

import importlib
import operator
import os
import sys
from typing import Any


class NotAGameError(ValueError):
    """A name of a user's own does not lead to a game. What it leads to, if anything, was not called."""


class UnknownNameError(NotAGameError):
    """There is no module or attribute of that name."""


def import_own(name: str) -> Any:
    """Imports the object that `package.module:Attribute` names. Nothing is called.

    Args:
      name: an absolute module and an attribute of it, which may be nested (`module:Outer.Inner`).

    Returns:
      The object, whatever it is: callers check it before they call it.

    Raises:
      UnknownNameError: if the name is malformed, or if there is no such module or attribute.
      ImportError: if the module exists and cannot import something itself.
    """
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")]):
        raise UnknownNameError(f"{name!r} is not of the form package.module:MyGame")
    found = _import(module)
    try:
        return operator.attrgetter(attribute)(found)
    except AttributeError as error:
        raise UnknownNameError(f"the module {module!r} has no {attribute!r}") from error


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise  # the module exists and lacks a dependency of its own: that message says more
        raise UnknownNameError(
            f"there is no module {module!r} to import (is its folder on the Python path?)"
        ) from error
    except SystemExit as error:
        raise UnknownNameError(f"the module {module!r} is a program: importing it exits with {error.code}") from error


def python_module(module: str) -> tuple[list[str], dict[str, str]]:
    """The command that runs a module in another process, and the environment variables that it needs.

    The process imports from where this one does. `python -m` alone would search the current folder first, and a file
    there that is called like a library would run.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return [sys.executable, "-P", "-m", module], {"PYTHONPATH": path}
