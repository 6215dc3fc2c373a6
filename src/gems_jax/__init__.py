"""gems_jax: population-based game solving in JAX.

The public names are loaded on first use (PEP 562), so that importing the package is quick and pulls in no environment
library. A name stands in `__all__` when it works.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# public name -> the module that holds it
_HOME = {
    "META_SOLVERS": "gems_jax.meta",
    "Game": "gems_jax.types",
    "GameState": "gems_jax.types",
    "GemsConfig": "gems_jax.config",
    "GemsMetrics": "gems_jax.gems.step",
    "GemsState": "gems_jax.gems.step",
    "Solver": "gems_jax.types",
    "eb_ucb": "gems_jax.meta.bandit",
    "exploitability": "gems_jax.extensive.values",
    "gems_step": "gems_jax.gems.step",
    "init_gems": "gems_jax.gems.step",
    "load": "gems_jax.runner.load",
    "make_game": "gems_jax.games",
    "make_solver": "gems_jax.solvers",
    "nash_conv": "gems_jax.extensive.values",
    "omwu_update": "gems_jax.meta.omwu",
    "play_episode": "gems_jax.rollout.episode",
    "preset": "gems_jax.presets",
}

__version__ = "0.1.0"
# Written out (and held equal to the table by a test): type checkers and editors read it without running anything.
__all__ = [
    "META_SOLVERS",
    "Game",
    "GameState",
    "GemsConfig",
    "GemsMetrics",
    "GemsState",
    "Solver",
    "eb_ucb",
    "exploitability",
    "gems_step",
    "init_gems",
    "load",
    "make_game",
    "make_solver",
    "nash_conv",
    "omwu_update",
    "play_episode",
    "preset",
]

if TYPE_CHECKING:
    from gems_jax.config import GemsConfig
    from gems_jax.extensive.values import exploitability, nash_conv
    from gems_jax.games import make_game
    from gems_jax.gems.step import GemsMetrics, GemsState, gems_step, init_gems
    from gems_jax.meta import META_SOLVERS
    from gems_jax.meta.bandit import eb_ucb
    from gems_jax.meta.omwu import omwu_update
    from gems_jax.presets import preset
    from gems_jax.rollout.episode import play_episode
    from gems_jax.runner.load import load
    from gems_jax.solvers import make_solver
    from gems_jax.types import Game, GameState, Solver


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gems_jax' has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
