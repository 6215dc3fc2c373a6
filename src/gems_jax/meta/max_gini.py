"""The coarse correlated equilibrium of maximum Gini impurity, the least concentrated one (Marris et al. 2021)."""

from __future__ import annotations

import numpy as np


def max_gini_cce(payoffs: np.ndarray) -> np.ndarray:
    """Computes the coarse correlated equilibrium of maximum Gini impurity, which is unique. Runs on the host.

        min 1/2 sum_a mu_a^2   subject to   sum_a mu_a [u_p(i, a_-p) - u_p(a)] <= 0  for all p and i,  mu in the simplex

    The dual has one variable per player and slot: with A the matrix of the constraints, mu(lambda) is the projection of
    -A' lambda onto the simplex, and lambda >= 0 maximizes a concave function.

    Args:
      payoffs: u, [players, k_0, ..., k_{n-1}] float64.

    Returns:
      mu, [k_0, ..., k_{n-1}] float64.
    """
    from scipy.optimize import minimize  # takes a moment to import

    players, shape = payoffs.shape[0], payoffs.shape[1:]
    gains = [
        np.moveaxis(payoffs[player], player, 0)[:, None] - np.moveaxis(payoffs[player], player, 0)[None]
        for player in range(players)
    ]  # [k_p, k_p, others], gain of playing i instead of the profile's own slot
    rows = [np.moveaxis(gain, 1, 1 + player).reshape(len(gain), -1) for player, gain in enumerate(gains)]
    constraints = np.concatenate(rows)
    constraints = constraints / max(np.abs(constraints).max(), 1e-30)

    def primal(multipliers: np.ndarray) -> np.ndarray:
        return project_onto_simplex(-multipliers @ constraints)

    def dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative of the dual function, and its gradient."""
        mu = primal(multipliers)
        regrets = constraints @ mu
        return -(mu @ mu / 2 + multipliers @ regrets), -regrets

    solved = minimize(
        dual, np.zeros(len(constraints)), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(constraints),
        options={"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
    )  # fmt: skip
    return primal(solved.x).reshape(shape)


def project_onto_simplex(point: np.ndarray) -> np.ndarray:
    """Projects a point [n] onto the simplex {x >= 0, sum x = 1} in the Euclidean distance."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    return np.maximum(point - excess[np.nonzero(ordered > excess)[0][-1]], 0.0)
