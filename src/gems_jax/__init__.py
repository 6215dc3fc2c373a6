"""gems_jax: population-based game solving in JAX.

The public names are loaded on first use (PEP 562), so that importing the package is quick and pulls in no environment
library. A name stands in `__all__` when it works.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# public name -> the module that holds it
_HOME = {
    "Game": "gems_jax.types",
    "GameState": "gems_jax.types",
    "Solver": "gems_jax.types",
}

__version__ = "0.1.0"
# Written out (and held equal to the table by a test): type checkers and editors read it without running anything.
__all__ = [
    "Game",
    "GameState",
    "Solver",
]

if TYPE_CHECKING:
    from gems_jax.types import Game, GameState, Solver


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gems_jax' has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
