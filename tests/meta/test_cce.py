"""Coarse correlated equilibria: unique ones first, then the gap of random games."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta import META_SOLVERS, cce_gap, duality_gap, regret_matching_joint
from gems_jax.meta.cce import joint_marginals, product_distribution

DILEMMA = jnp.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
RPS = jnp.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def everyone(payoffs):
    return jnp.ones(payoffs.shape[:2], dtype=bool)


def public_goods(players, share):
    """Contributing (1) costs 1 and pays `share` to everybody."""
    gives = jnp.indices((2,) * players)
    return share * gives.sum(axis=0, keepdims=True) - gives


def test_games_with_one_equilibrium():
    joint = jax.jit(regret_matching_joint)(DILEMMA, everyone(DILEMMA))
    np.testing.assert_allclose(joint, [[0, 0], [0, 1]], atol=1e-3)
    goods = public_goods(3, 0.6)
    joint = jax.jit(regret_matching_joint)(goods, everyone(goods))
    np.testing.assert_allclose(joint[0, 0, 0], 1, atol=1e-3)
    np.testing.assert_allclose(META_SOLVERS["cce"](goods, everyone(goods)), [[1, 0]] * 3, atol=1e-3)
    rps = jnp.stack([RPS, -RPS])
    np.testing.assert_allclose(regret_matching_joint(rps, everyone(rps), 100), np.full((3, 3), 1 / 9), atol=1e-6)


def test_gap_by_hand():
    """Both cooperate: each would gain 2 by defecting. Chicken's traffic light needs no deviation."""
    both = jnp.zeros((2, 2)).at[0, 0].set(1.0)
    np.testing.assert_allclose(cce_gap(DILEMMA, both, everyone(DILEMMA)), 4)
    chicken = jnp.array([[[0.0, -1.0], [1.0, -9.0]], [[0.0, 1.0], [-1.0, -9.0]]])
    light = jnp.array([[0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_allclose(cce_gap(chicken, light, everyone(chicken)), 0)
    apart = product_distribution(joint_marginals(light))
    # independent play crashes one time in four: 1/4 (0 - 1 + 1 - 9) = -9/4, and yielding alone gives -1/2
    np.testing.assert_allclose(cce_gap(chicken, apart, everyone(chicken)), 2 * (9 / 4 - 1 / 2))


def test_gap_of_random_games_of_three():
    payoffs = jax.random.uniform(jax.random.key(0), (3, 4, 4, 4), minval=-1.0)
    active = everyone(payoffs).at[1, 3].set(False)
    joint = jax.jit(regret_matching_joint)(payoffs.at[:, :, 3].set(jnp.nan), active)
    gap = cce_gap(payoffs.at[:, :, 3].set(jnp.nan), joint, active)
    assert 0 <= float(gap) < 1e-2
    assert float(cce_gap(payoffs, product_distribution(jnp.full((3, 4), 0.25)), everyone(payoffs))) > 0.1
    np.testing.assert_allclose(joint.sum(), 1, atol=1e-5)
    np.testing.assert_array_equal(joint[:, 3], 0)
    gains = []  # the definition, one deviation at a time
    u = np.where(np.isnan(payoffs), 0, payoffs)
    mu = np.asarray(joint)
    for player in range(3):
        best = -np.inf
        for deviation in np.nonzero(np.asarray(active[player]))[0]:
            total = 0.0
            for a in itertools.product(range(4), repeat=3):
                other = list(a)
                other[player] = deviation
                total += mu[a] * (u[(player, *other)] - u[(player, *a)])
            best = max(best, total)
        gains.append(max(best, 0.0))
    np.testing.assert_allclose(gap, sum(gains), atol=1e-5)


def test_in_zero_sum_games_the_marginals_are_an_equilibrium():
    draws = jax.random.normal(jax.random.key(1), (6, 6))
    payoffs = jnp.stack([draws, -draws])
    sigma = jax.jit(META_SOLVERS["cce"])(payoffs, everyone(payoffs))
    assert float(duality_gap(payoffs, sigma, everyone(payoffs))) < 5e-3 * float(jnp.abs(draws).max())
    with pytest.raises(ValueError, match="num_steps=0"):
        regret_matching_joint(payoffs, everyone(payoffs), 0)
