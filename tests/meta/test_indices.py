"""Bandit indices by hand, and running statistics."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from gems_jax.meta import bandit as oracle
from gems_jax.meta.bandit import INDICES, Pulls, confidence_parameter, eb_ucb, empirical_bernstein_width, index_scores

# --- indices


@pytest.mark.parametrize(("delta", "deviation", "range_part"), [(0.5, 0.236627, 0.358352), (0.01, 0.422189, 1.140756)])
def test_eb_ucb_terms(delta, deviation, range_part):
    np.testing.assert_allclose(eb_ucb(0.0, 0.25, 16, delta, range_term=False), deviation, atol=1e-6)
    np.testing.assert_allclose(eb_ucb(0.0, 0.0, 16, delta), range_part, atol=1e-6)
    whole = eb_ucb(0.3, 0.25, 16, delta, jacobian=5.0, lambda_jacobian=0.1)
    np.testing.assert_allclose(whole, 0.3 + deviation + range_part - 0.5, atol=1e-6)


def test_other_indices_by_hand():
    # ln 100 = 4.605170; UCB-V: zeta ln t = 5.526204, biased variance 0.25 * 15/16 = 0.234375
    np.testing.assert_allclose(oracle.ucb1(0.5, 16, 100), 0.5 + 0.758714, atol=1e-6)
    np.testing.assert_allclose(oracle.ucb_v(0.5, 0.25, 16, 100), 0.5 + 0.402369 + 1.036163, atol=1e-6)
    np.testing.assert_allclose(oracle.greedy(0.5, 16), 0.5)


def test_delta_rules():
    np.testing.assert_allclose(
        [confidence_parameter("decaying", 0.5, t) for t in (1, 2, 10)], [1.0, 0.25, 0.01], rtol=1e-6
    )
    np.testing.assert_allclose([confidence_parameter("constant", 0.5, t) for t in (1, 2, 10)], 0.5)
    with pytest.raises(ValueError, match="expected one of decaying, constant, got 'slow'"):
        confidence_parameter("slow", 0.5, 1)


def test_thompson_quartiles():
    """Half of the draws lie between the quartiles of the posterior, a quarter on either side."""
    n = 40_000
    mean, variance, pulls = jnp.full(n, 0.7), jnp.full(n, 0.04), jnp.full(n, 4)
    gaussian = oracle.thompson(jax.random.key(0), mean, pulls)
    inverse_gamma = oracle.thompson_nig(jax.random.key(1), mean, variance, pulls)
    # Normal quartiles at 0.674490 / sqrt(4). Posterior of the other: strength 5, shape 3, centre 3.3 / 5 = 0.66,
    # scale 0.1 + 0.12 / 2 + 4 * 0.04 / 5 / 2 = 0.176; Student t of 6 degrees, quartiles at 0.717558 sqrt(0.176 / 15).
    for draws, centre, quartile in [(gaussian, 0.7, 0.337245), (inverse_gamma, 0.66, 0.077726)]:
        below = float(jnp.mean(draws < centre - quartile))
        above = float(jnp.mean(draws > centre + quartile))
        # 5 standard deviations, four shares: fails by chance less than once in 400,000 seeds
        assert abs(below - 0.25) < 5 * np.sqrt(0.1875 / n)
        assert abs(above - 0.25) < 5 * np.sqrt(0.1875 / n)


@pytest.mark.parametrize("name", INDICES)
def test_every_index_of_the_table(name):
    stats = Pulls.empty(3).add(jnp.array([0, 2]), jnp.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]))
    free = index_scores(name, jax.random.key(0), stats, t=5, delta=0.1)
    chex.assert_shape(free, (3,))
    if name != "thompson_nig":  # which has a prior for candidates that were never pulled
        assert free[1] == jnp.inf
    assert np.isfinite(free[jnp.array([0, 2])]).all()
    penalised = index_scores(
        name, jax.random.key(0), stats, t=5, delta=0.1, jacobian=jnp.array([1.0, 2.0, 3.0]), lambda_jacobian=0.5
    )
    np.testing.assert_allclose((free - penalised)[jnp.array([0, 2])], [0.5, 1.5], rtol=1e-5)


def test_table_passes_on_its_arguments():
    stats = Pulls.empty(1).add(jnp.array([0]), jnp.array([[0.0, 1.0, 1.0, 1.0]]))
    got = partial(index_scores, key=jax.random.key(0), stats=stats)
    np.testing.assert_allclose(got("eb_ucb", t=1, delta=0.2), eb_ucb(0.75, 0.25, 4, 0.2)[None], rtol=1e-6)
    short = eb_ucb(0.75, 0.25, 4, 0.2, range_term=False)[None]
    np.testing.assert_allclose(got("eb_ucb", t=1, delta=0.2, range_term=False), short, rtol=1e-6)
    np.testing.assert_allclose(got("ucb_v", t=7, delta=0.2), oracle.ucb_v(0.75, 0.25, 4, 7)[None], rtol=1e-6)
    np.testing.assert_allclose(got("ucb1", t=7, delta=0.2), oracle.ucb1(0.75, 4, 7)[None], rtol=1e-6)
    with pytest.raises(ValueError, match="one of eb_ucb, ucb_v, ucb1, thompson, thompson_nig, greedy, got 'ucb2'"):
        got("ucb2", t=1, delta=0.2)


def test_one_pull_is_finite():
    assert np.isfinite(eb_ucb(0.5, 0.0, 1, 0.1))
    assert np.isfinite(empirical_bernstein_width(0.0, 1, 0.1))


# --- empirical-Bernstein intervals


def test_width_by_hand():
    # ln 20 = 2.995732: sqrt(2 * 0.25 * 2.995732 / 100) + 3 * 2.995732 / 99
    np.testing.assert_allclose(empirical_bernstein_width(0.25, 100, 0.1), 0.122387 + 0.090780, atol=1e-6)


@pytest.mark.parametrize("n", [2, 8, 64, 512, 20_000])
@pytest.mark.parametrize("delta", [0.5, 0.1, 0.01])
def test_intervals_cover_bernoulli_means_at_the_stated_rate(n, delta):
    """No sampling: the coverage is summed over the n + 1 outcomes, for means from 0.001 to 0.999."""
    outcomes = np.arange(n + 1) / n
    variance = outcomes * (1 - outcomes) * n / (n - 1)
    width = np.asarray(empirical_bernstein_width(jnp.array(variance, jnp.float32), n, delta), np.float64)
    coverage = []
    for p in np.concatenate([[0.001, 0.01], np.linspace(0.05, 0.95, 19), [0.99, 0.999]]):
        covered = np.abs(outcomes - p) <= width
        coverage.append(binom.pmf(np.arange(n + 1), n, p)[covered].sum())
    assert min(coverage) >= 1 - delta
    if n == 20_000:  # nor is the interval idle: it misses sometimes, and beats Hoeffding's for means near an end
        assert min(coverage) < 1 - delta / 1000
        assert width[n // 100] < np.sqrt(np.log(2 / delta) / (2 * n)) / 2


def test_intervals_cover_beta_means_at_the_stated_rate():
    delta, n, repeats = 0.1, 1000, 4000
    samples = np.random.default_rng(0).beta(2.0, 5.0, (repeats, n))
    stats = Pulls.empty(repeats).add(jnp.arange(repeats), jnp.array(samples, jnp.float32))
    missed = jnp.abs(stats.mean - 2.0 / 7.0) > empirical_bernstein_width(stats.variance, stats.count, delta)
    # Even at a true rate of just 0.9 the share of misses stays within 5 standard deviations but once in a million.
    assert float(missed.mean()) <= delta + 5 * np.sqrt(delta * (1 - delta) / repeats)
    # Nor idle: half the width is 2.1 standard errors and misses 3.6 % of the time; below 0.5 % once in a million.
    half = jnp.abs(stats.mean - 2.0 / 7.0) > 0.5 * empirical_bernstein_width(stats.variance, stats.count, delta)
    assert float(half.mean()) > 0.005


# --- running statistics


def test_pulls_equal_numpy_over_several_additions():
    rng = np.random.default_rng(0)
    stats, seen = Pulls.empty(4), [[] for _ in range(4)]
    for indices, n in [([0, 1, 2], 5), ([2], 1), ([1, 1, 0], 7)]:  # the last adds two rows for one candidate
        returns = rng.uniform(size=(len(indices), n)).astype(np.float32)
        stats = stats.add(jnp.array(indices), jnp.array(returns))
        for index, row in zip(indices, returns, strict=True):
            seen[index].extend(row)
    np.testing.assert_array_equal(stats.count, [12, 19, 6, 0])
    np.testing.assert_allclose(stats.mean[:3], [np.mean(s) for s in seen[:3]], rtol=1e-6)
    np.testing.assert_allclose(stats.variance[:3], [np.var(s, ddof=1) for s in seen[:3]], rtol=1e-5)
    assert stats.mean[3] == 0 and stats.variance[3] == 0


def test_variance_does_not_cancel():
    """Sums of squares in float32 would give a variance of zero, or a negative one, here."""
    returns = 1000.0 + jnp.array([[0.0, 0.25, 0.5, 0.25]])
    stats = Pulls.empty(1)
    for _ in range(50):
        stats = stats.add(jnp.array([0]), returns)
    np.testing.assert_allclose(stats.variance, [50 * 0.125 / 199], rtol=1e-3)
    constant = Pulls.empty(1)
    for _ in range(50):
        constant = constant.add(jnp.array([0]), jnp.array([[0.9]]))
    assert constant.variance[0] == 0.0 and constant.mean[0] == jnp.float32(0.9)
