"""Meta-solvers that run on the host, in float64, behind the signature of the others."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.meta.matrix import assert_game
from gems_jax.types import Array

HostSolver = Callable[[np.ndarray], list[np.ndarray]]


def solve_on_host(function: HostSolver) -> Callable[[Array, Array], Array]:
    """Makes a masked meta-solver from a NumPy function of full payoff tensors; use it as a decorator.

    The solver may be called on concrete arrays, or inside jit and vmap, where it becomes a callback to the host. XLA
    may repeat or drop such a call, because the function is pure.

    Args:
      function: maps payoffs [players, k_0, ..., k_{n-1}] float64 of the active slots to one mixture [k_p] per player.

    Returns:
      A function of (payoffs [players, K, ..., K], active [players, K]) that returns sigma [players, K].
    """

    def solve_active(payoffs: np.ndarray, active: np.ndarray) -> np.ndarray:
        active = np.asarray(active, bool)
        slots = [np.nonzero(row)[0] for row in active]
        sigma = np.zeros(active.shape, np.float32)
        tensor = np.asarray(payoffs, np.float64)[np.ix_(np.arange(len(active)), *slots)]
        for row, chosen, masses in zip(sigma, slots, function(tensor), strict=True):
            row[chosen] = masses
        return sigma

    @functools.wraps(function)
    def solve(payoffs: Array, active: Array) -> Array:
        assert_game(payoffs, active)
        if isinstance(payoffs, jax.core.Tracer) or isinstance(active, jax.core.Tracer):
            shape = jax.ShapeDtypeStruct(active.shape, jnp.float32)
            return jax.pure_callback(solve_active, shape, payoffs, active, vmap_method="sequential")
        return jnp.asarray(solve_active(np.asarray(payoffs), np.asarray(active)))

    return solve
