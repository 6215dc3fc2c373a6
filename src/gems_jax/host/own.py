"""Imports of a user's own class by name, and the import path of worker processes.

Importing runs code: pass to `import_own` only names that a user typed or that come from a trusted file.
"""

from __future__ import annotations

import importlib
import operator
import os
import sys
from typing import Any


class NotAGameError(ValueError):
    """A user-defined name does not refer to a game. The object that it refers to, if any, was not called."""


class UnknownNameError(NotAGameError):
    """Raised if there is no module or attribute of that name."""


def import_own(name: str) -> Any:
    """Imports the object that `package.module:Attribute` names, without calling it.

    Args:
      name: an absolute module and an attribute of it, which may be nested (`module:Outer.Inner`).

    Returns:
      The object of any type: callers check it before they call it.

    Raises:
      UnknownNameError: if the name is malformed, or if there is no such module or attribute.
      ImportError: if the module exists but one of its own imports fails.
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
            raise  # a dependency of the module is missing: the original message names it
        raise UnknownNameError(
            f"there is no module {module!r} to import (is its folder on the Python path?)"
        ) from error
    except SystemExit as error:
        raise UnknownNameError(f"the module {module!r} is a program: importing it exits with {error.code}") from error


def python_module(module: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs a module in another process, and the environment variables it needs.

    The process uses the import path of this one. `python -m` alone would search the current folder first and could run
    a file there that has the name of a library.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return [sys.executable, "-P", "-m", module], {"PYTHONPATH": path}
