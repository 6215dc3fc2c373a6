"""Meta-strategies: arrays in, arrays out, never a game or a solver.

`omwu_update` is the rule GEMS applies to noisy values, one step per call. `META_SOLVERS` maps names to solvers of a
known payoff tensor, which the PSRO family needs: `META_SOLVERS[name](payoffs, active) -> sigma`, with payoffs
[players, K, ..., K], active [players, K] and sigma [players, K] as `meta/matrix.py` lays down. All of them can be
jitted and vmapped.
"""

from __future__ import annotations

from collections.abc import Callable

from gems_jax.meta.matrix import duality_gap, slot_values, solve_mwu, solve_omwu, solve_uniform
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import Schedule, step_size
from gems_jax.types import Array

MetaSolver = Callable[[Array, Array], Array]

META_SOLVERS: dict[str, MetaSolver] = {"uniform": solve_uniform, "omwu": solve_omwu, "mwu": solve_mwu}

__all__ = [
    "META_SOLVERS",
    "MetaSolver",
    "Schedule",
    "duality_gap",
    "omwu_update",
    "slot_values",
    "step_size",
]
