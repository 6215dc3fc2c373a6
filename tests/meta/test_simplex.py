"""Masked simplex arithmetic and draws from mixtures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta import simplex
from gems_jax.meta.simplex import (
    masked_log_softmax,
    masked_normalize,
    masked_uniform,
    sample_slots,
    stratify_slots,
)

ACTIVE = jnp.array([True, False, True, True])
NONE = jnp.zeros(4, dtype=bool)


def test_masked_uniform():
    np.testing.assert_allclose(masked_uniform(ACTIVE), [1 / 3, 0, 1 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_array_equal(masked_uniform(NONE), 0.0)


def test_masked_normalise():
    weights = jnp.array([1.0, jnp.nan, 3.0, -2.0])
    np.testing.assert_allclose(masked_normalize(weights, ACTIVE), [0.25, 0, 0.75, 0])
    np.testing.assert_allclose(masked_normalize(jnp.array([0.0, 5.0, 0.0, 0.0]), ACTIVE), masked_uniform(ACTIVE))
    np.testing.assert_array_equal(masked_normalize(weights, NONE), 0.0)


def test_masked_log_softmax():
    got = masked_log_softmax(jnp.array([1.0, jnp.nan, 2.0, 3.0]), ACTIVE)
    np.testing.assert_allclose(got[ACTIVE], jax.nn.log_softmax(jnp.array([1.0, 2.0, 3.0])), rtol=1e-6)
    assert got[1] == -jnp.inf
    huge = masked_log_softmax(jnp.array([1e30, 0.0, 1e30, -1e30]), ACTIVE)
    np.testing.assert_allclose(huge[:3], [np.log(0.5), -np.inf, np.log(0.5)], rtol=1e-6)
    np.testing.assert_array_equal(masked_log_softmax(jnp.zeros(4), NONE), -jnp.inf)
    no_mass = masked_log_softmax(jnp.full(4, -jnp.inf), ACTIVE)
    np.testing.assert_array_equal(no_mass, -jnp.inf)


def test_nan_on_an_active_slot_is_not_hidden():
    assert np.isnan(masked_log_softmax(jnp.array([jnp.nan, 0.0, 1.0, 2.0]), ACTIVE)[ACTIVE]).all()


@pytest.mark.parametrize("garbage", [jnp.nan, jnp.inf, -jnp.inf, 1e30])
def test_masked_log_softmax_has_the_gradient_of_the_small_problem(garbage):
    def entropy(logits, active):
        log_sigma = masked_log_softmax(logits, active)
        return -jnp.sum(jnp.where(active, jnp.exp(log_sigma) * jnp.where(active, log_sigma, 0.0), 0.0))

    small = jax.grad(entropy)(jnp.array([-100.0, -99.0, -97.0]), jnp.ones(3, dtype=bool))
    large = jax.grad(entropy)(jnp.array([-100.0, garbage, -99.0, -97.0]), ACTIVE)
    np.testing.assert_allclose(large[ACTIVE], small, rtol=1e-5)
    assert large[1] == 0.0


SIGMA = np.array([0.0, 0.05, 0.5, 0.0, 0.3, 0.15, 0.0])
with np.errstate(divide="ignore"):
    LOG_SIGMA = jnp.array(np.log(SIGMA), jnp.float32)


def test_sample_follows_sigma():
    draws = sample_slots(jax.random.key(0), LOG_SIGMA, (200, 500))
    assert draws.shape == (200, 500) and draws.dtype == jnp.int32
    assert sample_slots(jax.random.key(0), LOG_SIGMA).shape == ()
    counts = np.bincount(draws.reshape(-1), minlength=7)
    np.testing.assert_array_equal(counts[SIGMA == 0], 0)
    # 5 standard deviations on 4 binomial counts: fails by chance less than once in 400,000 seeds
    assert (np.abs(counts - 100_000 * SIGMA) <= 5 * np.sqrt(100_000 * SIGMA * (1 - SIGMA))).all()


@pytest.mark.parametrize("n", [1, 3, 8, 64])
def test_stratified_counts_are_within_one_and_unbiased(n):
    repeats = 4000
    draws = jax.vmap(lambda k: stratify_slots(k, LOG_SIGMA, n))(jax.random.split(jax.random.key(n), repeats))
    counts = np.asarray(jax.vmap(lambda d: jnp.bincount(d, length=7))(draws))
    expected = n * SIGMA
    assert (np.abs(counts - expected) < 1 + 1e-4).all()
    # A count is floor(n sigma) or one more, so its variance is f (1 - f) with f the fraction. 5 standard deviations
    # (and one count for rounding of the CDF) on 4 slots: fails by chance less than once in 400,000 seeds.
    fraction = expected % 1.0
    bound = 5 * np.sqrt(fraction * (1 - fraction) / repeats) + 1 / repeats
    assert (np.abs(counts.mean(axis=0) - expected) <= bound).all()


def test_every_position_of_a_stratified_draw_follows_sigma():
    draws = np.asarray(jax.vmap(lambda k: stratify_slots(k, LOG_SIGMA, 4))(jax.random.split(jax.random.key(9), 20_000)))
    shares = np.stack([np.bincount(draws[:, s], minlength=7) for s in range(4)]) / 20_000
    # 5.5 standard deviations on 16 shares: fails by chance less than once in a million seeds
    assert (np.abs(shares - SIGMA) <= 5.5 * np.sqrt(SIGMA * (1 - SIGMA) / 20_000)).all()


def test_pairs_of_stratified_draws_follow_the_product():
    """Two players' draws, paired position by position: without the permutation both would be sorted alike."""
    keys = jax.random.split(jax.random.key(2), (2, 5000))
    sigma = jnp.array([0.25, 0.75])
    first, second = (jax.vmap(lambda k: stratify_slots(k, jnp.log(sigma), 8))(k) for k in keys)
    share = float(jnp.mean((first == 0) & (second == 0)))
    # Given the counts (exactly 2 of 8 each), the matches of one pair are hypergeometric: mean 0.5, variance 9/28.
    # 5 standard deviations: fails by chance less than once in a million seeds; sorted draws would give 0.25.
    assert abs(share - 0.0625) <= 5 * np.sqrt(9 / 28 / 5000) / 8


def test_slots_of_mass_zero_are_never_drawn():
    one = jnp.array([-jnp.inf, 0.0, -jnp.inf])
    np.testing.assert_array_equal(stratify_slots(jax.random.key(6), one, 1000), 1)
    np.testing.assert_array_equal(sample_slots(jax.random.key(7), one, (1000,)), 1)


def test_rounding_of_a_parallel_sum_gives_no_mass_to_an_empty_slot(monkeypatch):
    """As on an accelerator: the sum is taken as a tree, and can rise by a rounding error on a slot of mass zero."""
    masses = jax.random.uniform(jax.random.key(3), (200, 33))
    masses = jnp.where(jax.random.bernoulli(jax.random.key(4), 0.5, masses.shape), masses, 0.0)
    log_sigma = jnp.log(masses / masses.sum(axis=1, keepdims=True))
    monkeypatch.setattr(jnp, "cumsum", lambda x: jax.lax.associative_scan(jnp.add, x))
    sums = jax.vmap(jnp.cumsum)(jnp.exp(log_sigma))
    assert ((np.diff(sums, axis=1) > 0) & (np.asarray(masses)[:, 1:] == 0)).any()  # the case does occur
    points = jnp.concatenate([sums, jnp.nextafter(sums, 0.0)], axis=1) / sums[:, -1:]
    slots = jax.vmap(simplex._inverse_cdf)(log_sigma, points)
    assert bool((jnp.take_along_axis(masses, slots, axis=1) > 0).all())


def test_points_on_the_edges_of_the_cdf(monkeypatch):
    """The largest offset a float can hold, and exactly zero: still a slot with mass."""
    for offset in (0.0, float(np.nextafter(np.float32(1.0), np.float32(0.0))), 1.0):
        monkeypatch.setattr(jax.random, "uniform", lambda key, shape=(), offset=offset: jnp.full(shape, offset))
        draws = stratify_slots(jax.random.key(0), LOG_SIGMA, 100)
        assert (SIGMA[np.asarray(draws)] > 0).all()


def test_many_slots_are_searched_as_few_are_counted(monkeypatch):
    """Empty slots at both ends and in runs, points on every edge of the CDF, and 0 and 1 themselves."""
    slots = 200
    weights = np.where(np.arange(slots) % 7 < 3, 0.0, np.random.default_rng(0).uniform(size=slots))
    log_sigma = jnp.log(jnp.asarray(weights / weights.sum(), jnp.float32))
    cumulative = jnp.cumsum(jnp.exp(log_sigma))
    points = jnp.concatenate([cumulative / cumulative[-1], jnp.linspace(0.0, 1.0, 1001)])
    searched = simplex._inverse_cdf(log_sigma, points)
    monkeypatch.setattr(simplex, "_FEW", slots)
    np.testing.assert_array_equal(searched, simplex._inverse_cdf(log_sigma, points))
    assert (weights[np.asarray(searched)] > 0).all()


def test_jit_equals_eager_and_vmap_equals_loop():
    def keys():
        return jax.random.split(jax.random.key(8), 3)

    logs = jnp.stack([LOG_SIGMA, LOG_SIGMA[::-1], jnp.zeros(7)])
    for draw in (lambda k, s: stratify_slots(k, s, 5), lambda k, s: sample_slots(k, s, (5,))):
        batched = jax.jit(jax.vmap(draw))(keys(), logs)
        for row in range(3):
            np.testing.assert_array_equal(batched[row], draw(keys()[row], logs[row]))


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_draws=0"):
        stratify_slots(jax.random.key(0), LOG_SIGMA, 0)
    with pytest.raises(AssertionError):
        masked_normalize(jnp.ones(3), ACTIVE)
