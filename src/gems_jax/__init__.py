"""Population-based game solving in JAX: the Generative Evolutionary Meta-Solver and the PSRO family.

    GAMES, make_game, matrix_game            games by name, and from payoffs
    METHODS, make_solver                     solvers by name
    PRESETS, preset, GemsConfig              settings of GEMS
    init_gems, gems_step, gems_profile       GEMS as pure functions
    exploitability, nash_conv                exact evaluation
    train, load                              training in one call, and trained policies
    play_episode, head_to_head               play
    omwu_update, eb_ucb, META_SOLVERS        parts of the method

Public names are imported on first use (PEP 562), so that importing the package is fast and loads no environment
library. The first use of a name enables JAX's persistent compilation cache, unless JAX has one already;
`disable_compilation_cache()` opts out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# public name -> module that defines or re-exports it
_HOME = {
    "GAMES": "gems_jax.games",
    "META_SOLVERS": "gems_jax.meta",
    "METHODS": "gems_jax.solvers",
    "PRESETS": "gems_jax.presets",
    "Apply": "gems_jax.types",
    "Episode": "gems_jax.types",
    "Game": "gems_jax.types",
    "GameState": "gems_jax.types",
    "GemsConfig": "gems_jax.config",
    "GemsMetrics": "gems_jax.gems.step",
    "GemsState": "gems_jax.gems.step",
    "LoadedPolicy": "gems_jax.evaluate.loaded_policy",
    "MatrixGame": "gems_jax.games",
    "MetaSolver": "gems_jax.meta",
    "NotAGameError": "gems_jax.games",
    "NotEnumerableError": "gems_jax.types",
    "NotStagedError": "gems_jax.host.stages",
    "PRNGKey": "gems_jax.types",
    "Policy": "gems_jax.types",
    "PolicyOutput": "gems_jax.types",
    "Population": "gems_jax.types",
    "Profile": "gems_jax.types",
    "Run": "gems_jax.runner.training.run",
    "RunError": "gems_jax.runner.errors",
    "Solver": "gems_jax.types",
    "UntrustedGameError": "gems_jax.runner.errors",
    "disable_compilation_cache": "gems_jax.accelerator.cache",
    "eb_ucb": "gems_jax.meta.bandit",
    "enable_compilation_cache": "gems_jax.accelerator.cache",
    "exploitability": "gems_jax.extensive.values",
    "gems_profile": "gems_jax.gems.step",
    "gems_step": "gems_jax.gems.step",
    "head_to_head": "gems_jax.evaluate.head_to_head",
    "init_gems": "gems_jax.gems.step",
    "load": "gems_jax.runner.load",
    "make_game": "gems_jax.games",
    "make_solver": "gems_jax.solvers",
    "matrix_game": "gems_jax.games",
    "nash_conv": "gems_jax.extensive.values",
    "omwu_update": "gems_jax.meta.omwu",
    "play_episode": "gems_jax.rollout.episode",
    "preset": "gems_jax.presets",
    "train": "gems_jax.runner.training.train",
}

__version__ = "0.2.0"
# Written out for type checkers and editors, which do not execute the module. A test compares it with the table.
__all__ = [
    "GAMES",
    "META_SOLVERS",
    "METHODS",
    "PRESETS",
    "Apply",
    "Episode",
    "Game",
    "GameState",
    "GemsConfig",
    "GemsMetrics",
    "GemsState",
    "LoadedPolicy",
    "MatrixGame",
    "MetaSolver",
    "NotAGameError",
    "NotEnumerableError",
    "NotStagedError",
    "PRNGKey",
    "Policy",
    "PolicyOutput",
    "Population",
    "Profile",
    "Run",
    "RunError",
    "Solver",
    "UntrustedGameError",
    "disable_compilation_cache",
    "eb_ucb",
    "enable_compilation_cache",
    "exploitability",
    "gems_profile",
    "gems_step",
    "head_to_head",
    "init_gems",
    "load",
    "make_game",
    "make_solver",
    "matrix_game",
    "nash_conv",
    "omwu_update",
    "play_episode",
    "preset",
    "train",
]

if TYPE_CHECKING:
    from gems_jax.accelerator.cache import disable_compilation_cache, enable_compilation_cache
    from gems_jax.config import GemsConfig
    from gems_jax.evaluate.head_to_head import head_to_head
    from gems_jax.evaluate.loaded_policy import LoadedPolicy
    from gems_jax.extensive.values import exploitability, nash_conv
    from gems_jax.games import GAMES, MatrixGame, NotAGameError, make_game, matrix_game
    from gems_jax.gems.step import GemsMetrics, GemsState, gems_profile, gems_step, init_gems
    from gems_jax.host.stages import NotStagedError
    from gems_jax.meta import META_SOLVERS, MetaSolver
    from gems_jax.meta.bandit import eb_ucb
    from gems_jax.meta.omwu import omwu_update
    from gems_jax.presets import PRESETS, preset
    from gems_jax.rollout.episode import play_episode
    from gems_jax.runner.errors import RunError, UntrustedGameError
    from gems_jax.runner.load import load
    from gems_jax.runner.training.run import Run
    from gems_jax.runner.training.train import train
    from gems_jax.solvers import METHODS, make_solver
    from gems_jax.types import (
        Apply,
        Episode,
        Game,
        GameState,
        NotEnumerableError,
        Policy,
        PolicyOutput,
        Population,
        PRNGKey,
        Profile,
        Solver,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gems_jax' has no attribute {name!r}; public names: {', '.join(__all__)}")
    if _HOME.keys().isdisjoint(globals()):  # the first public name
        import_module("gems_jax.accelerator.cache").use_default_cache()
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # later accesses find the name in the module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
