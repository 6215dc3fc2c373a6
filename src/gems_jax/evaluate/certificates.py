"""What stands behind a number: it is exact, a lower bound, or an interval at a confidence.

A gap is never told without its kind. An exact one walked the tree. A lower bound is what some exploiter earned, held
against the mixture in fresh episodes: the best response earns as much or more. An interval is around a mean of
episodes. Both are at a stated confidence, by the empirical-Bernstein inequality, for returns within their bounds.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import sample_variance
from gems_jax.meta.bandit import empirical_bernstein_width
from gems_jax.types import Array, Struct

Kind = Literal["exact", "lower bound", "interval"]


class Certificate(NamedTuple):
    """A number with its kind."""

    kind: Kind
    low: float
    high: float
    confidence: float = 1.0
    how: str = ""  # what it cost: rounds of training, episodes

    def __str__(self) -> str:
        """`0.0163 (exact)`, `at least 0.12 (lower bound at 95 %; ...)`, `0.1 to 0.3 (95 % interval; ...)`."""
        how = f"; {self.how}" if self.how else ""
        if self.kind == "exact":
            return f"{self.low:.6f} (exact{how})"
        share = f"{100 * self.confidence:g} %"
        if self.kind == "lower bound":
            return f"at least {self.low:.4f} (lower bound at {share}{how})"
        return f"{self.low:.4f} to {self.high:.4f} ({share} interval{how})"


def exact(value: float, how: str = "") -> Certificate:
    return Certificate("exact", float(value), float(value), how=how)


def lower_bound(low: float, confidence: float, how: str) -> Certificate:
    """At least `low`, with probability `confidence`; how: the exploiter's budget."""
    return Certificate("lower bound", float(low), math.inf, confidence, how)


def interval(low: float, high: float, confidence: float, how: str) -> Certificate:
    return Certificate("interval", float(low), float(high), confidence, how)


class Bounds(Struct):
    """Between what and what something lies, and what it probably is. Arrays of equal shape."""

    low: Array
    estimate: Array
    high: Array

    def most(self, mask: Array) -> Bounds:
        """Of the largest along the last axis, among those where the mask is True; -inf where there is none."""
        return jax.tree.map(lambda side: jnp.max(jnp.where(mask, side, -jnp.inf), axis=-1), self)

    def larger(self, other: Bounds) -> Bounds:
        """Of the larger of the two."""
        return jax.tree.map(jnp.maximum, self, other)

    def beyond(self, other: Bounds) -> Bounds:
        """Of max(0, this - other)."""
        differences = (self.low - other.high, self.estimate - other.estimate, self.high - other.low)
        return Bounds(*(jnp.maximum(difference, 0.0) for difference in differences))

    def scaled(self, width: float) -> Bounds:
        """Of `width` times this."""
        return jax.tree.map(lambda side: side * width, self)


def mean_bounds(returns: Array, delta: float | Array) -> Bounds:
    """Of the mean behind independent returns [..., n] in [0, 1], which it leaves with probability at most delta.

    Twice the one-sided inequality of Maurer and Pontil at delta / 2 each: sqrt(2 v L / n) + 7 L / (3 (n - 1)) with L =
    ln(4 / delta). The paper's form, which has 3 for 7/3 and ln(2 / delta), is taken at delta / 2: it is wider.
    """
    mean = returns.mean(axis=-1)
    width = empirical_bernstein_width(sample_variance(returns), returns.shape[-1], delta / 2)
    return Bounds(jnp.maximum(mean - width, 0.0), mean, jnp.minimum(mean + width, 1.0))
