"""A user's own game: `package.module:MyGame` is imported and checked before any of it is called.

Accepts classes and instances with the attributes of `Game`, and environment classes of PettingZoo (AEC or parallel).
Refuses functions, builtins and all other classes, so that a name never calls anything but a game.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from gems_jax.host.own import NotAGameError, import_own
from gems_jax.host.pettingzoo import is_environment
from gems_jax.types import Game

MEMBERS = tuple(name for name in vars(Game) if not name.startswith("_"))
_TYPES: dict[str, tuple[Any, str]] = {
    "name": (str, "a string"),
    **dict.fromkeys(("num_seats", "num_actions", "max_steps"), (Integral, "an integer")),
    **dict.fromkeys(("simultaneous", "continuous", "zero_sum"), ((bool, np.bool_), "a bool")),
    **dict.fromkeys(("observation_shape", "player_of_seat", "population_of_player"), (Sequence, "a tuple")),
    "return_bounds": (Sequence, "a tuple"),
}
_ADVICE = "Give the class the attributes of gems_jax.Game"
_EXPECTED = (
    "expected a class with the attributes of gems_jax.Game, an instance of one, or an environment class of PettingZoo"
)


def find_own(name: str) -> Any:
    """Imports a user's own game and checks its type, without calling it.

    Args:
      name: `package.module:MyGame`.

    Returns:
      A class of games, an instance of one, or an environment class of PettingZoo.

    Raises:
      NotAGameError: if there is no such object, or if it is not a game.
      ImportError: if the module exists but one of its own imports fails.
    """
    found = import_own(name)
    if not isinstance(found, type):
        if not isinstance(found, Game):
            raise NotAGameError(f"the game {name!r} is a {type(found).__name__}: {_EXPECTED}")
        return found
    if is_environment(found):
        return found
    missing = missing_members(found)
    if missing:
        others = f" and {len(missing) - 4} others" if len(missing) > 4 else ""
        raise NotAGameError(f"the game {name!r} is a class without {', '.join(missing[:4])}{others}: {_EXPECTED}")
    return found


def check_made(name: str, made: Any) -> Any:
    """Checks that what a user's own class or instance gives is a game, by its attributes and their types.

    Args:
      name: `package.module:MyGame`.
      made: the instance.

    Returns:
      The instance.

    Raises:
      NotAGameError: for the first attribute that is missing or of another type.
    """
    for member, (kind, words) in _TYPES.items():
        found = getattr(made, member, None)
        if not isinstance(found, kind) or (kind is Integral and isinstance(found, bool)):
            got = type(found).__name__ if hasattr(made, member) else "no such attribute"
            raise NotAGameError(f"the game {name!r} has no valid {member}: expected {words}, got {got}. {_ADVICE}")
    return made


def missing_members(kind: type) -> list[str]:
    """Lists the members of `Game` that a class lacks: `init` and `step` as methods, the others in any form.

    Class attributes, properties, annotated fields, and names that the constructor assigns or uses count as declared.
    """
    methods = [name for name in ("init", "step") if not callable(getattr(kind, name, None))]
    if hasattr(kind, "__getattr__"):  # looks up attributes elsewhere
        return methods
    declared = {"init", "step"}.union(*map(_declared, kind.__mro__))
    return methods + sorted(set(MEMBERS) - declared, key=MEMBERS.index)


def _declared(base: type) -> set[str]:
    constructors = (vars(base).get(name) for name in ("__init__", "__new__", "__post_init__"))
    codes = [getattr(getattr(made, "__func__", made), "__code__", None) for made in constructors]
    assigned = {name for code in codes if code is not None for name in code.co_names}
    return {*vars(base), *vars(base).get("__annotations__", {}), *assigned}
