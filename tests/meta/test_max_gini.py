"""The coarse correlated equilibrium of maximum Gini impurity: known answers, and the flattest among the others."""

import jax
import numpy as np
import pytest

from gems_jax.meta.cce import cce_gap, regret_matching_joint
from gems_jax.meta.max_gini import max_gini_cce, project_onto_simplex

RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
DILEMMA = np.array([[3.0, 0], [5, 1]])


def test_known_answers():
    np.testing.assert_allclose(max_gini_cce(np.stack([RPS, -RPS])), np.full((3, 3), 1 / 9), atol=1e-7)
    np.testing.assert_allclose(max_gini_cce(np.stack([DILEMMA, DILEMMA.T])), [[0, 0], [0, 1]], atol=1e-7)
    np.testing.assert_allclose(max_gini_cce(np.zeros((2, 2, 3))), np.full((2, 3), 1 / 6), atol=1e-7)


def test_chicken():
    """Dare or swerve, both 0 when both dare: mu = (a, b; b, c) is a CCE where b >= 2 a and c <= 2 b.

    The uniform distribution breaks the first; on its edge, 9 a^2 + (1 - 5 a)^2 is least at a = 5 / 34.
    """
    row = np.array([[0.0, 7], [2, 6]])
    np.testing.assert_allclose(max_gini_cce(np.stack([row, row.T])), np.array([[5, 10], [10, 9]]) / 34, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4, 2)])
def test_random_games(shape):
    """No gap, and sums of squares no larger than those of what regret matching finds."""
    payoffs = np.random.default_rng(len(shape)).normal(size=(len(shape), *shape))
    found = max_gini_cce(payoffs)
    slots = max(shape)
    padded = np.zeros((len(shape),) + (slots,) * len(shape), np.float32)
    padded[(slice(None), *(slice(k) for k in shape))] = payoffs
    joint = np.zeros((slots,) * len(shape), np.float32)
    joint[tuple(slice(k) for k in shape)] = found
    active = np.arange(slots)[None] < np.array(shape)[:, None]
    assert float(cce_gap(padded, joint, active)) < 1e-5
    other = np.asarray(jax.jit(regret_matching_joint)(padded, active))
    assert (found**2).sum() <= (other**2).sum() + 1e-4
    np.testing.assert_allclose(found.sum(), 1.0, atol=1e-9)


def test_onto_the_simplex():
    np.testing.assert_allclose(project_onto_simplex(np.array([0.5, 0.5, 3.0])), [0, 0, 1])
    np.testing.assert_allclose(project_onto_simplex(np.array([0.2, 0.3])), [0.45, 0.55])
