"""The update rule by hand, on the mask, and as a solver of zero-sum matrix games."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta.matrix import duality_gap, slot_values
from gems_jax.meta.omwu import omwu_update

SIGMA = jnp.array([0.2, 0.3, 0.5])
VALUES = jnp.array([0.9, 0.4, 0.1])
PREVIOUS = jnp.array([0.5, 0.5, 0.5])
ALL = jnp.ones(3, dtype=bool)


def by_hand(sigma, bracket, eta):
    weights = np.asarray(sigma) * np.exp(eta * np.asarray(bracket))
    return weights / weights.sum()


def test_optimistic_update_by_hand():
    got = omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, 0.35, 0.7, ALL)
    np.testing.assert_allclose(jnp.exp(got), by_hand(SIGMA, [0.95, -0.05, -0.65], 0.7), rtol=1e-6)
    # the same to six digits, worked out apart from the code: weights .388898, .289682, .317224
    np.testing.assert_allclose(jnp.exp(got), [0.390537, 0.290902, 0.318561], atol=1e-6)


def test_plain_update_ignores_the_previous_values():
    got = omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, 0.35, 0.7, ALL, optimistic=False)
    np.testing.assert_allclose(jnp.exp(got), by_hand(SIGMA, [0.55, 0.05, -0.25], 0.7), rtol=1e-6)
    other = omwu_update(jnp.log(SIGMA), VALUES, 9.0 * PREVIOUS, 0.35, 0.7, ALL, optimistic=False)
    np.testing.assert_array_equal(got, other)


def test_gradient_cap_clips_the_bracket_elementwise():
    got = omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, 0.35, 0.7, ALL, gradient_cap=0.5)
    np.testing.assert_allclose(jnp.exp(got), by_hand(SIGMA, [0.5, -0.05, -0.5], 0.7), rtol=1e-6)


def test_mixture_value_matters_only_under_the_gradient_cap():
    free = [omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, r, 0.7, ALL) for r in (0.0, 0.9)]
    np.testing.assert_allclose(free[0], free[1], rtol=1e-5)
    capped = [omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, r, 0.7, ALL, gradient_cap=0.5) for r in (0.0, 0.9)]
    assert float(jnp.abs(capped[0] - capped[1]).max()) > 0.01


def test_logit_cap_floors_logits_relative_to_the_largest():
    log_sigma = jnp.log(jnp.array([0.999, 1e-3, 1e-30]))
    zeros = jnp.zeros(3)
    got = omwu_update(log_sigma, zeros, zeros, 0.0, 1.0, ALL, logit_cap=10.0)
    np.testing.assert_allclose(got - got[0], [0.0, np.log(1e-3 / 0.999), -10.0], rtol=1e-5)
    np.testing.assert_allclose(jnp.exp(got).sum(), 1.0, rtol=1e-6)
    # a slot of mass zero is lifted to the floor by a finite cap, and stays at zero without one
    log_sigma = jnp.array([0.0, -jnp.inf, -3.0])
    lifted = omwu_update(log_sigma, VALUES, PREVIOUS, 0.0, 0.0, ALL, logit_cap=10.0)
    np.testing.assert_allclose(lifted[1] - lifted[0], -10.0, rtol=1e-6)
    assert omwu_update(log_sigma, VALUES, PREVIOUS, 0.0, 5.0, ALL)[1] == -jnp.inf


def test_zero_step_size_changes_nothing():
    got = omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, 0.35, 0.0, ALL)
    np.testing.assert_allclose(jnp.exp(got), SIGMA, rtol=1e-6)


@pytest.mark.parametrize("garbage", [0.0, 1e30, jnp.inf, -jnp.inf, jnp.nan])
@pytest.mark.parametrize("caps", [{}, {"gradient_cap": 0.5, "logit_cap": 4.0}])
def test_inactive_slots_change_nothing_whatever_they_hold(garbage, caps):
    active = jnp.array([True, False, True, True, False])

    def pad(x, filler):
        return jnp.full(5, filler).at[jnp.array([0, 2, 3])].set(x)

    small = omwu_update(jnp.log(SIGMA), VALUES, PREVIOUS, 0.35, 0.7, ALL, **caps)
    padded = omwu_update(
        pad(jnp.log(SIGMA), garbage), pad(VALUES, garbage), pad(PREVIOUS, garbage), 0.35, 0.7, active, **caps
    )
    np.testing.assert_array_equal(padded == -jnp.inf, ~active)
    np.testing.assert_allclose(padded[active], small, rtol=1e-6)

    def heaviest(values, step_size):
        log_sigma = pad(jnp.log(SIGMA), garbage)
        return jnp.exp(omwu_update(log_sigma, values, pad(PREVIOUS, garbage), 0.35, step_size, active, **caps))[0]

    by_value, by_step = jax.grad(heaviest, argnums=(0, 1))(pad(VALUES, garbage), 0.7)
    assert np.isfinite(by_value).all() and np.isfinite(by_step)
    np.testing.assert_array_equal(by_value[~active], 0.0)
    if not caps:  # d sigma'_0 / d v_0 = 2 eta sigma'_0 (1 - sigma'_0)
        mass = jnp.exp(small[0])
        np.testing.assert_allclose(by_value[0], 2 * 0.7 * mass * (1 - mass), rtol=1e-5)


def test_single_active_slot_and_long_runs_stay_finite():
    one = jnp.array([False, True, False])
    got = omwu_update(jnp.array([-jnp.inf, 0.0, -jnp.inf]), VALUES, PREVIOUS, 0.4, 3.0, one)
    np.testing.assert_array_equal(got, [-jnp.inf, 0.0, -jnp.inf])

    def step(log_sigma, _):
        return omwu_update(log_sigma, VALUES, VALUES, 0.5, 1.0, ALL), None

    last, _ = jax.lax.scan(step, jnp.log(SIGMA), length=2000)  # log-odds of -1600: far below the smallest float
    np.testing.assert_allclose(last, [0.0, -1000.0 + np.log(1.5), -1600.0 + np.log(2.5)], rtol=1e-4, atol=1e-4)


def test_jit_equals_eager_and_vmap_equals_loop():
    keys = jax.random.split(jax.random.key(0), 3)
    log_sigma = jax.nn.log_softmax(jax.random.normal(keys[0], (4, 5)))
    values, previous = jax.random.uniform(keys[1], (2, 4, 5))
    active = jnp.ones((4, 5), dtype=bool).at[1:, 3].set(False)
    steps = jnp.array([0.0, 0.1, 1.0, 5.0])
    update = partial(omwu_update, gradient_cap=0.4, logit_cap=3.0)
    batched = jax.jit(jax.vmap(update))(log_sigma, values, previous, steps, steps, active)
    for p in range(4):
        one = update(log_sigma[p], values[p], previous[p], steps[p], steps[p], active[p])
        np.testing.assert_allclose(batched[p], one, rtol=1e-5, atol=1e-6)


def biased_rps(a, b, c):
    return [[0, -a, c], [a, 0, -b], [-c, b, 0]]


ZERO_SUM = {
    "rps": (biased_rps(1, 1, 1), [1 / 3, 1 / 3, 1 / 3]),
    "rps_1_2_3": (biased_rps(1, 2, 3), [1 / 3, 1 / 2, 1 / 6]),
    "rps_1_1_2": (biased_rps(1, 1, 2), [1 / 4, 1 / 2, 1 / 4]),
    "matching_pennies": ([[1, -1], [-1, 1]], [0.5, 0.5]),
    "biased_pennies": ([[2, -1], [-1, 1]], [0.4, 0.6]),
}


def last_iterate(matrix, *, optimistic, num_steps, step_size):
    """Both players update on exact values in [0, 1], from mixtures away from the equilibrium. -> gap [T], sigma."""
    payoffs = jnp.stack([jnp.array(matrix, jnp.float32), -jnp.array(matrix, jnp.float32)])
    low, high = payoffs.min(axis=(1, 2), keepdims=True), payoffs.max(axis=(1, 2), keepdims=True)
    scaled = (payoffs - low) / (high - low)
    active = jnp.ones(payoffs.shape[:2], dtype=bool)
    update = partial(omwu_update, optimistic=optimistic)

    def step(carry, _):
        log_sigma, previous = carry
        sigma = jnp.exp(log_sigma)
        values = slot_values(scaled, sigma)
        steps = jnp.full(2, step_size)
        log_sigma = jax.vmap(update)(log_sigma, values, previous, (sigma * values).sum(axis=1), steps, active)
        return (log_sigma, values), duality_gap(payoffs, jnp.exp(log_sigma), active)

    start = jnp.arange(payoffs.shape[1], dtype=jnp.float32)
    log_sigma = jax.nn.log_softmax(jnp.stack([start, -0.5 * start]))
    carry = (log_sigma, slot_values(scaled, jnp.exp(log_sigma)))
    (log_sigma, _), gaps = jax.jit(lambda c: jax.lax.scan(step, c, length=num_steps))(carry)
    return gaps, jnp.exp(log_sigma)


@pytest.mark.parametrize("name", ZERO_SUM)
def test_last_iterate_of_omwu_solves_zero_sum_games(name):
    matrix, nash = ZERO_SUM[name]
    gaps, sigma = last_iterate(matrix, optimistic=True, num_steps=3000, step_size=1.0)
    assert gaps[0] > 0.1  # the start is no equilibrium
    assert gaps[-100:].max() < 1e-3  # and the end is one, in the unscaled game
    np.testing.assert_allclose(sigma, np.broadcast_to(nash, sigma.shape), atol=1e-3)


def test_last_iterate_of_plain_mwu_does_not_converge_where_omwu_does():
    matrix, _ = ZERO_SUM["matching_pennies"]
    plain, _ = last_iterate(matrix, optimistic=False, num_steps=2000, step_size=0.2)
    optimistic, _ = last_iterate(matrix, optimistic=True, num_steps=2000, step_size=0.2)
    assert plain[-200:].min() > plain[0]  # it spirals outwards, to the boundary
    assert optimistic[-200:].max() < 1e-3
