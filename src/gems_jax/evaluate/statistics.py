"""Intervals over seeds: Student's t for a mean of few seeds, bootstrap for the interquartile mean over many runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gems_jax.types import Array


class Interval(NamedTuple):
    """A point estimate and the ends of its interval; the ends are NaN where one seed leaves nothing to say."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of [seeds] and its two-sided interval by Student's t with seeds - 1 degrees of freedom."""
    sample = _sample(values, rank=1)
    mean, low, high = mean_band(sample[:, None], level)
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def mean_band(values: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high, [n] each, of [seeds, n]: `mean_interval` of every column, for a curve with a band."""
    sample = _sample(values, rank=2)
    _check_level(level)
    seeds = len(sample)
    mean = sample.mean(axis=0)
    if seeds < 2:
        nothing = np.full_like(mean, np.nan)
        return mean, nothing, nothing
    half = student_factor(seeds - 1, level) * sample.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, mean - half, mean + half


def student_factor(freedom: float, level: float = 0.95) -> float:
    """Returns how many standard errors a two-sided interval reaches to each side, by Student's t.

    Args:
      freedom: degrees of freedom; infinity gives the normal distribution's factor.
      level: probability that the interval holds the mean.
    """
    from scipy.stats import t

    return float(t.ppf(0.5 + level / 2, min(freedom, 1e9)))


def normal_half_width(deviation: Array, root_count: Array | float = 1.0) -> Array:
    """Returns half the 95 % interval of a mean of many episodes: 1.96 standard errors. May be traced.

    Args:
      deviation: standard deviation of an episode, or the standard error itself.
      root_count: square root of the number of episodes; 1 for a standard error.
    """
    return 1.96 * deviation / root_count


def interquartile_mean(values: ArrayLike) -> float:
    """IQM: the mean of all entries but the lowest and the highest quarter (rounded down, as scipy's trim_mean)."""
    flat = np.sort(np.asarray(values, np.float64), axis=None)
    if flat.size == 0:
        raise ValueError("the interquartile mean of no values is not defined")
    cut = flat.size // 4
    return float(flat[cut : flat.size - cut].mean())


def stratified_bootstrap(
    scores: ArrayLike,
    statistic: Callable[[np.ndarray], float] = interquartile_mean,
    *,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of statistic(scores [runs, tasks]), each task's runs resampled with replacement on their own.

    Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice". [runs] is one task.
    """
    table = np.asarray(scores, np.float64)
    table = _sample(table[:, None] if table.ndim == 1 else table, rank=2)
    _check_level(level)
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    point = float(statistic(table))
    if len(table) < 2:
        return Interval(point, float("nan"), float("nan"))
    generator = np.random.default_rng(seed)
    tasks = np.arange(table.shape[1])[None, :]
    draws = [statistic(table[generator.integers(len(table), size=table.shape), tasks]) for _ in range(replicates)]
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(point, float(low), float(high))


def _sample(values: ArrayLike, rank: int) -> np.ndarray:
    sample = np.asarray(values, np.float64)
    if sample.ndim != rank or sample.size == 0:
        expected = "[seeds]" if rank == 1 else "[seeds, n]"
        raise ValueError(f"expected a non-empty array {expected}, got shape {sample.shape}")
    return sample


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
