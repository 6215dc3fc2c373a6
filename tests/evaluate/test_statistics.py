"""Intervals: numbers from tables and by hand, then coverage at the stated rate."""

import numpy as np
import pytest

from gems_jax.evaluate.statistics import (
    describe_mean,
    format_mean,
    interquartile_mean,
    mean_band,
    mean_interval,
    normal_half_width,
    stratified_bootstrap,
    student_factor,
)


def test_mean_interval_by_hand() -> None:
    """1..5: mean 3, deviation sqrt(2.5), t_{0.975, 4} = 2.776445 (any table)."""
    interval = mean_interval([1, 2, 3, 4, 5])
    half = 2.7764451 * np.sqrt(2.5) / np.sqrt(5)
    np.testing.assert_allclose(interval, (3.0, 3 - half, 3 + half), rtol=1e-6)
    np.testing.assert_allclose(interval.half_width, 1.963243, rtol=1e-6)
    # 90 %: t_{0.95, 4} = 2.131847
    np.testing.assert_allclose(mean_interval([1, 2, 3, 4, 5], level=0.9).half_width, 2.131847 * np.sqrt(0.5), rtol=1e-6)


@pytest.mark.parametrize("values", [[0.25], [0.2, 0.3]])
def test_fewer_than_three_seeds_have_no_interval(values: list[float]) -> None:
    """With two seeds Student's factor is 12.7: their values are shown instead of an interval."""
    for interval in (mean_interval(values), stratified_bootstrap(values)):
        assert interval.mean == pytest.approx(0.25) and np.isnan(interval.low) and np.isnan(interval.high)
    assert np.isnan(np.stack(mean_band(np.asarray(values)[:, None]))[1:]).all()


def test_a_number_over_seeds_as_text() -> None:
    """1, 2, 3: standard error sqrt(1/3), Student's t for two degrees of freedom 4.302653, so 2 ± 2.484."""
    assert format_mean([0.25]) == "0.25" and describe_mean(1) == "one seed"
    assert format_mean([0.2, 0.34567]) == "0.2, 0.3457" and describe_mean(2) == "both values of 2 seeds"
    assert format_mean([1.0, 2.0, 3.0]) == "2 ± 2.5" and "3 seeds, mean ± half" in describe_mean(3)
    assert format_mean([1.0, 2.0, 3.0], ".2f", ".3f") == "2.00 ± 2.484"


def test_band_is_the_interval_of_every_column() -> None:
    values = np.random.default_rng(0).normal(size=(4, 6))
    band = np.stack(mean_band(values), axis=1)
    np.testing.assert_allclose(band, [mean_interval(column) for column in values.T])


def test_t_interval_covers_at_its_rate() -> None:
    """4000 samples of 5 normal numbers: a binomial share with deviation 0.0034; 5 deviations, probability 6e-7."""
    samples = np.random.default_rng(1).normal(loc=2.0, size=(5, 4000))
    _, low, high = mean_band(samples)
    assert abs(np.mean((low <= 2.0) & (high >= 2.0)) - 0.95) < 0.017


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0, 1, 2, 3, 4, 5, 6, 1000], 3.5), ([9, 1, 2, 3, -50], 2.0), ([4.0], 4.0), ([[0, 8], [2, 4]], 3.0)],
)
def test_interquartile_mean_by_hand(values: list, expected: float) -> None:
    from scipy.stats import trim_mean

    assert interquartile_mean(values) == pytest.approx(expected)
    assert interquartile_mean(values) == pytest.approx(trim_mean(np.ravel(values), 0.25))


def test_bootstrap_of_a_constant_is_that_constant() -> None:
    assert stratified_bootstrap(np.full((5, 3), 0.7)) == pytest.approx((0.7, 0.7, 0.7))


def test_bootstrap_resamples_within_a_task() -> None:
    """Tasks at 0 and 100 that never vary: resampling across tasks would move the mean, within them it cannot."""
    scores = np.stack([np.zeros(6), np.full(6, 100.0)], axis=1)
    interval = stratified_bootstrap(scores, statistic=lambda table: float(np.mean(table)))
    assert interval == (50.0, 50.0, 50.0)


def test_bootstrap_of_the_mean_is_the_normal_interval() -> None:
    """For 400 runs the percentile interval of the mean is mean +- 1.96 s / sqrt(n), up to the bootstrap's own noise."""
    runs = np.random.default_rng(2).normal(size=400)
    interval = stratified_bootstrap(runs, statistic=lambda table: float(np.mean(table)), replicates=4000)
    half = 1.96 * runs.std() / 20
    assert interval.low == pytest.approx(runs.mean() - half, abs=0.012)
    assert interval.high == pytest.approx(runs.mean() + half, abs=0.012)
    assert interval == stratified_bootstrap(runs, statistic=lambda table: float(np.mean(table)), replicates=4000)


def test_bootstrap_interval_holds_the_iqm() -> None:
    scores = np.random.default_rng(3).gamma(2.0, size=(8, 4))
    interval = stratified_bootstrap(scores)
    assert interval.mean == interquartile_mean(scores) and interval.low < interval.mean < interval.high
    assert np.isnan(stratified_bootstrap(scores[:1]).low)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "non-empty array \\[seeds\\], got shape \\(0,\\)"),
        (lambda: mean_interval([[1.0, 2.0]]), "got shape \\(1, 2\\)"),
        (lambda: mean_interval([1.0, 2.0], level=95), "level must be between 0 and 1, got 95"),
        (lambda: interquartile_mean([]), "at least one value, got none"),
        (lambda: stratified_bootstrap([1.0, 2.0], replicates=0), "replicates must be at least 1"),
    ],
)
def test_bad_arguments(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_factors_of_known_distributions() -> None:
    assert student_factor(1) == pytest.approx(12.7062, abs=1e-4)
    assert student_factor(4, 0.9) == pytest.approx(2.1318, abs=1e-4)
    assert student_factor(np.inf) == pytest.approx(1.959964, abs=1e-5)
    assert normal_half_width(2.0, 4.0) == pytest.approx(0.98) and normal_half_width(0.5) == pytest.approx(0.98)
