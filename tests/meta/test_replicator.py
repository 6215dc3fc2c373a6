"""Projected replicator dynamics: the projection first, then where the dynamics spend their time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from gems_jax.meta import META_SOLVERS, projected_replicator
from gems_jax.meta.replicator import project_with_floor

BIASED_RPS = jnp.array([[0.0, -1, 3], [1, 0, -2], [-3, 2, 0]])
EVERYONE = jnp.ones((2, 3), bool)


@pytest.mark.parametrize(
    ("weights", "floor", "expected"),
    [
        ([0.2, 0.3, 0.5], 0.0, [0.2, 0.3, 0.5]),
        ([0.4, 0.6, 1.0], 0.0, [1 / 15, 4 / 15, 2 / 3]),  # everybody gives a third of what is too much
        ([2.0, 0.0, 0.0], 0.0, [1.0, 0.0, 0.0]),
        ([2.0, 0.0, 0.0], 0.1, [0.8, 0.1, 0.1]),
        ([0.0, 0.0, 0.0], 0.1, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_projection_by_hand(weights, floor, expected):
    np.testing.assert_allclose(project_with_floor(jnp.array(weights), jnp.ones(3, bool), floor), expected, atol=1e-6)
    padded = project_with_floor(jnp.array([jnp.nan, *weights, 7.0]), jnp.array([False, True, True, True, False]), floor)
    np.testing.assert_allclose(padded, [0, *expected, 0], atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point(seed):
    weights = np.random.default_rng(seed).normal(0.2, 0.5, 6)
    found = minimize(
        lambda x: np.sum((x - weights) ** 2),
        np.full(6, 1 / 6),
        bounds=[(0.05, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-12},
    )
    projected = project_with_floor(jnp.asarray(weights, jnp.float32), jnp.ones(6, bool), 0.05)
    np.testing.assert_allclose(projected, found.x, atol=1e-4)


def test_known_averages():
    """(0.335, 0.500, 0.165) against the equilibrium (1/3, 1/2, 1/6): the dynamics circle it."""
    sigma = jax.jit(META_SOLVERS["prd"])(jnp.stack([BIASED_RPS, -BIASED_RPS]), EVERYONE)
    np.testing.assert_allclose(sigma, [[0.335, 0.500, 0.165]] * 2, atol=1e-3)
    rps = jnp.sign(BIASED_RPS)
    np.testing.assert_allclose(META_SOLVERS["prd"](jnp.stack([rps, -rps]), EVERYONE), [[1 / 3] * 3] * 2, atol=1e-5)


def test_the_floor_is_the_least_mass():
    dominance = jnp.array([[0.0, -1, -1], [1, 0, -1], [1, 1, 0]])
    for floor in (1e-3, 0.1):
        sigma = projected_replicator(jnp.stack([dominance, -dominance]), EVERYONE, num_steps=5_000, floor=floor)
        assert float(sigma.min()) >= floor - 1e-6
        # the last one dominates: it ends up with all but the floors, and averages a little less
        np.testing.assert_allclose(sigma[:, 2], 1 - 2 * floor, atol=0.1)
    with pytest.raises(ValueError, match="num_steps=0"):
        projected_replicator(jnp.stack([dominance, -dominance]), EVERYONE, num_steps=0)
