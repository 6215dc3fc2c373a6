"""Certificates in words, and bounds by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.certificates import Bounds, certify_exact, certify_interval, certify_lower_bound, mean_bounds
from gems_jax.evaluate.sampled_budget import distance


def test_a_number_says_of_what_kind_it_is():
    assert str(certify_exact(0.25)) == "0.250000 (exact)"
    assert str(certify_lower_bound(0.125, 0.95, "exploiter of 3 rounds")) == (
        "at least 0.1250 (lower bound at 95 %; exploiter of 3 rounds)"
    )
    assert str(certify_interval(0.1, 0.3, 0.999, "20 episodes")) == "0.1000 to 0.3000 (99.9 % interval; 20 episodes)"
    assert certify_exact(1.0).low == certify_exact(1.0).high and certify_lower_bound(0.5, 0.9, "").high == np.inf


def test_the_width_by_hand():
    """n = 5, mean 0.6, delta 0.1: sqrt(2 * 0.3 L / 5) + 3 L / 4 with L = ln 40, far beyond [0, 1]."""
    found = mean_bounds(jnp.array([[1.0, 1.0, 1.0, 0.0, 0.0]]), 0.1)
    np.testing.assert_allclose([found.low, found.estimate, found.high], [[0.0], [0.6], [1.0]], rtol=1e-6)
    returns = jnp.tile(jnp.array([1.0, 1.0, 1.0, 0.0, 0.0]), 400)[None]
    found, log_term = mean_bounds(returns, 0.1), np.log(40.0)
    width = np.sqrt(2 * (0.24 * 2000 / 1999) * log_term / 2000) + 3 * log_term / 1999
    np.testing.assert_allclose(found.high - found.low, 2 * width, rtol=1e-4)
    # Maurer and Pontil's own, which is proven, is narrower
    assert width > np.sqrt(2 * (0.24 * 2000 / 1999) * log_term / 2000) + 7 * log_term / (3 * 1999)


def test_arithmetic_of_bounds():
    left, right = Bounds(*jnp.array([[0.1, 0.4], [0.2, 0.5], [0.3, 0.6]])), Bounds(*jnp.array([[0.2], [0.25], [0.3]]))
    found = left.max_over(jnp.array([True, True]))
    np.testing.assert_allclose(jax.tree.leaves(found), [0.4, 0.5, 0.6], rtol=1e-6)
    np.testing.assert_allclose(jax.tree.leaves(left.max_over(jnp.array([True, False]))), [0.1, 0.2, 0.3], rtol=1e-6)
    beyond = found.excess_over(right.max_over(jnp.array([True])))
    np.testing.assert_allclose(jax.tree.leaves(beyond), [0.1, 0.25, 0.4], rtol=1e-5)
    # what may be negative is cut off: 0.1..0.3 beyond 0.2..0.3
    low = left.max_over(jnp.array([True, False])).excess_over(right.max_over(jnp.array([True])))
    np.testing.assert_allclose(jax.tree.leaves(low), [0.0, 0.0, 0.1], atol=1e-6)
    np.testing.assert_allclose(jax.tree.leaves(low.scale(4.0)), [0.0, 0.0, 0.4], atol=1e-6)
    away = distance(jnp.array([0.0, 0.55]), left)
    np.testing.assert_allclose(away.low, [0.1, 0.0], atol=1e-6)
    np.testing.assert_allclose(away.high, [0.3, 0.15], atol=1e-6)
