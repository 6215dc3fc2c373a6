"""Meta-strategies: arrays in, arrays out, never a game or a solver.

`omwu_update` is the rule GEMS applies to noisy values, one step per call. `META_SOLVERS` maps names to solvers of a
known payoff tensor, which the PSRO family needs: `META_SOLVERS[name](payoffs, active) -> sigma`, with payoffs
[players, K, ..., K], active [players, K] and sigma [players, K] as `meta/matrix.py` defines them. All of them can be
jitted and vmapped; nash_lp and the alpha-ranks then call back to the host.

    uniform            equal masses: fictitious play at the level of the population
    last_k, self_play  equal masses on the three newest slots, or on the newest alone
    nash, nash_lp      equilibria of two-player zero-sum games: regret matching+ (gap 1e-5), or a linear program
    prd                projected replicator dynamics
    alpha_rank         marginals of the multi-population chain, eps-sweep; alpha_rank_single for symmetric games
    cce                marginals of a coarse correlated equilibrium, any number of players
    omwu, mwu          average of (optimistic) multiplicative weights, any number of players
"""

from __future__ import annotations

from collections.abc import Callable

from gems_jax.meta.alpha_rank import alpha_rank, alpha_rank_single, solve_alpha_rank, solve_alpha_rank_single
from gems_jax.meta.cce import cce_gap, regret_matching_joint, solve_cce
from gems_jax.meta.matrix import (
    duality_gap,
    slot_values,
    solve_last_k,
    solve_mwu,
    solve_omwu,
    solve_self_play,
    solve_uniform,
)
from gems_jax.meta.nash import (
    NASH_TOLERANCE,
    Equilibrium,
    regret_matching_plus,
    solve_nash,
    solve_nash_lp,
    zero_sum_equilibrium,
)
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.replicator import projected_replicator, solve_prd
from gems_jax.meta.schedules import Schedule, step_size
from gems_jax.types import Array

# solve(payoffs [players, K, ..., K], active [players, K] bool) -> sigma [players, K]
MetaSolver = Callable[[Array, Array], Array]

# name -> solver of a known payoff tensor
META_SOLVERS: dict[str, MetaSolver] = {
    "uniform": solve_uniform,
    "last_k": solve_last_k,
    "self_play": solve_self_play,
    "nash": solve_nash,
    "nash_lp": solve_nash_lp,
    "prd": solve_prd,
    "alpha_rank": solve_alpha_rank,
    "alpha_rank_single": solve_alpha_rank_single,
    "cce": solve_cce,
    "omwu": solve_omwu,
    "mwu": solve_mwu,
}

__all__ = [
    "META_SOLVERS",
    "NASH_TOLERANCE",
    "Equilibrium",
    "MetaSolver",
    "Schedule",
    "alpha_rank",
    "alpha_rank_single",
    "cce_gap",
    "duality_gap",
    "omwu_update",
    "projected_replicator",
    "regret_matching_joint",
    "regret_matching_plus",
    "slot_values",
    "step_size",
    "zero_sum_equilibrium",
]
