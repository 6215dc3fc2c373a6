"""Nash equilibria of known payoffs: regret matching+ in JAX with a certified gap, and a linear program on the host."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.meta.host import on_host
from gems_jax.meta.matrix import assert_game, duality_gap, largest_payoff, mask_payoffs, values_of_player
from gems_jax.simplex import masked_normalise
from gems_jax.types import Array

_ZERO_SUM = 1e-5  # payoffs that add up to less than this share of the largest one are zero-sum: they come in float32


def regret_matching_plus(payoffs: Array, active: Array, num_steps: int = 20_000) -> tuple[Array, Array]:
    """Average of regret matching+ with alternating updates and linear weights: sigma [players, K], and its gap [].

        R <- max(R + u - sigma.u, 0),  sigma = R / sum R,  average with weight t

    In a two-player zero-sum game the gap (`duality_gap`, computed from sigma itself: a certificate) falls about like
    1 / num_steps; elsewhere the gap says whether sigma happens to be an equilibrium. Payoffs are divided by the
    largest one first, so the gap scales with it.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"regret_matching_plus got num_steps={num_steps}, expected at least 1.")
    scaled = mask_payoffs(payoffs, active) / largest_payoff(payoffs, active)
    players = active.shape[0]

    def step(carry: tuple[Array, Array, Array], t: Array) -> tuple[tuple[Array, Array, Array], None]:
        regrets, sigma, average = carry
        for player in range(players):
            if player == players - 1:  # the last one answers the others' new mixtures: average before it moves on
                average = average + (sigma - average) * (2.0 / (t + 1.0))
            values = values_of_player(scaled[player], sigma, player)
            regret = regrets[player] + values - jnp.sum(sigma[player] * values)
            regrets = regrets.at[player].set(jnp.where(active[player], jnp.maximum(regret, 0.0), 0.0))
            sigma = sigma.at[player].set(masked_normalise(regrets[player], active[player]))
        return (regrets, sigma, average), None

    zeros = jnp.zeros(active.shape)
    start = (zeros, jax.vmap(masked_normalise)(zeros, active), zeros)
    (_, _, average), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    sigma = jax.vmap(masked_normalise)(average, active)
    return sigma, duality_gap(payoffs, sigma, active)


def solve_nash(payoffs: Array, active: Array) -> Array:
    """Nash equilibrium of a two-player zero-sum game by regret matching+, to about 1e-4 of the largest payoff."""
    return regret_matching_plus(payoffs, active)[0]


def zero_sum_equilibrium(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Row mixture, column mixture and value of the zero-sum game in which the row player earns `matrix`; float64.

        max v  subject to  x matrix >= v,  x in the simplex

    The column player's mixture is the dual. Equilibria need not be unique: this is a vertex, whichever the solver
    finds first. Raises RuntimeError when the linear program fails.
    """
    from scipy.optimize import linprog  # takes a moment to import

    chex.assert_rank(matrix, 2)
    rows, columns = matrix.shape
    solved = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-matrix.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
    )
    if not solved.success:
        raise RuntimeError(f"the linear program of a {rows} x {columns} game failed: {solved.message}")
    return _simplex(solved.x[:rows]), _simplex(-solved.ineqlin.marginals), float(-solved.fun)


def _simplex(masses: np.ndarray) -> np.ndarray:
    masses = np.maximum(masses, 0.0)
    return masses / masses.sum()


@on_host
def solve_nash_lp(payoffs: np.ndarray) -> list[np.ndarray]:
    """Nash equilibrium of a two-player zero-sum game, exact up to rounding: a linear program on the host."""
    if payoffs.shape[0] != 2 or np.abs(payoffs.sum(axis=0)).max() > _ZERO_SUM * max(np.abs(payoffs).max(), 1e-30):
        raise ValueError(
            f"nash_lp solves two-player zero-sum games: got {payoffs.shape[0]} players whose payoffs add up to as much "
            f"as {np.abs(payoffs.sum(axis=0)).max():.3g}; use nash, omwu or cce."
        )
    row, column, _ = zero_sum_equilibrium((payoffs[0] - payoffs[1]) / 2)
    return [row, column]
