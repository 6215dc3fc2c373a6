"""Intervals over seeds: Student's t for a mean of few seeds, bootstrap for the interquartile mean over many runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gems_jax.types import Array

LEAST_SEEDS = 3  # that an interval needs: with two, Student's t has one degree of freedom and a factor of 12.7


class Interval(NamedTuple):
    """A point estimate and the ends of its interval, which are NaN for fewer than `LEAST_SEEDS` seeds."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Computes a mean over seeds and its two-sided interval by Student's t.

    Args:
      values: one value per seed, [seeds].
      level: coverage of the interval.

    Returns:
      The mean and the interval with seeds - 1 degrees of freedom; NaN ends for fewer than `LEAST_SEEDS` seeds.
    """
    sample = _sample(values, rank=1)
    mean, low, high = mean_band(sample[:, None], level)
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def format_mean(values: ArrayLike, style: str = ".4g", half_style: str = ".2g") -> str:
    """Formats a number over seeds: mean ± half of its 95 % interval, or the values of fewer than `LEAST_SEEDS` seeds.

    Args:
      values: one value per seed, [seeds].
      style: format of the mean and of single values.
      half_style: format of half of the interval.

    Returns:
      A text such as `0.034 ± 0.002`, for two seeds `0.033, 0.036`.
    """
    sample = _sample(values, rank=1)
    if len(sample) < LEAST_SEEDS:
        return ", ".join(f"{value:{style}}" for value in sample)
    interval = mean_interval(sample)
    return f"{interval.mean:{style}} ± {interval.half_width:{half_style}}"


def describe_mean(seeds: int) -> str:
    """Describes, for captions, what `format_mean` shows of so many seeds."""
    if seeds >= LEAST_SEEDS:
        return f"{seeds} seeds, mean ± half of the 95 % interval (Student t)"
    return "both values of 2 seeds" if seeds == 2 else "one seed"


def mean_band(values: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes `mean_interval` of every column, for a curve with a band.

    Args:
      values: curves, [seeds, n].
      level: coverage of the band.

    Returns:
      Mean, low and high, [n] each; low and high are NaN for fewer than `LEAST_SEEDS` seeds.
    """
    sample = _sample(values, rank=2)
    _check_level(level)
    seeds = len(sample)
    mean = sample.mean(axis=0)
    if seeds < LEAST_SEEDS:
        nothing = np.full_like(mean, np.nan)
        return mean, nothing, nothing
    half = student_factor(seeds - 1, level) * sample.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, mean - half, mean + half


def student_factor(freedom: float, level: float = 0.95) -> float:
    """Returns the half width of a two-sided interval in standard errors, by Student's t.

    Args:
      freedom: degrees of freedom; infinity gives the normal distribution's factor.
      level: coverage of the interval.
    """
    from scipy.stats import t

    return float(t.ppf(0.5 + level / 2, min(freedom, 1e9)))


def normal_half_width(deviation: Array, root_count: Array | float = 1.0) -> Array:
    """Returns half of the 95 % interval of a mean of many episodes: 1.96 standard errors. Traceable.

    Args:
      deviation: standard deviation of an episode, or the standard error itself.
      root_count: square root of the number of episodes; 1 for a standard error.
    """
    return 1.96 * deviation / root_count


def interquartile_mean(values: ArrayLike) -> float:
    """Computes the mean of all but the lowest and highest quarter (rounded down, like scipy's trim_mean)."""
    flat = np.sort(np.asarray(values, np.float64), axis=None)
    if flat.size == 0:
        raise ValueError("interquartile mean: expected at least one value, got none")
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
    """Computes the percentile bootstrap interval of a statistic over runs and tasks.

    Resamples the runs of each task with replacement, independently of other tasks (Agarwal et al. 2021, "Deep
    Reinforcement Learning at the Edge of the Statistical Precipice").

    Args:
      scores: [runs, tasks], or [runs] for one task.
      statistic: function of scores [runs, tasks].
      level: coverage of the interval.
      replicates: number of resamplings.
      seed: seed of the resampling.

    Returns:
      The statistic of `scores` and its interval; NaN ends for fewer than `LEAST_SEEDS` runs.

    Raises:
      ValueError: if `scores` is empty, or `level` or `replicates` is out of range.
    """
    table = np.asarray(scores, np.float64)
    table = _sample(table[:, None] if table.ndim == 1 else table, rank=2)
    _check_level(level)
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    point = float(statistic(table))
    if len(table) < LEAST_SEEDS:
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
