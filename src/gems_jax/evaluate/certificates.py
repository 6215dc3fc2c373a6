"""Certificates: a number together with its kind (exact, bounds, lower bound, interval) and its confidence.

An exact gap comes from the whole game tree, bounds without confidence from the graph of its states. A lower bound is
what a trained exploiter earned against the mixture in fresh episodes: the best response earns at least as much. An
interval surrounds a mean over episodes. Lower bounds and intervals hold at a stated confidence, by the
empirical-Bernstein inequality for bounded returns.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import sample_variance
from gems_jax.meta.bandit import empirical_bernstein_width
from gems_jax.types import Array, Struct

Kind = Literal["exact", "bounds", "lower bound", "interval"]


class Certificate(NamedTuple):
    """A number with its kind, its bounds and its confidence."""

    kind: Kind
    low: float
    high: float
    confidence: float = 1.0
    how: str = ""  # its cost: rounds of training, episodes

    def __str__(self) -> str:
        """Formats `0.0163 (exact)`, `at least 0.12 (lower bound at 95 %; ...)`, `0.1 to 0.3 (95 % interval; ...)`.

        Bounds read `between 0.1 and 0.2 (bounds; ...)`.
        """
        how = f"; {self.how}" if self.how else ""
        if self.kind == "exact":
            return f"{self.low:.6f} (exact{how})"
        if self.kind == "bounds":
            return f"between {self.low:.4f} and {self.high:.4f} (bounds{how})"
        percent = f"{100 * self.confidence:g} %"
        if self.kind == "lower bound":
            return f"at least {self.low:.4f} (lower bound at {percent}{how})"
        return f"{self.low:.4f} to {self.high:.4f} ({percent} interval{how})"


def certify_exact(value: float, how: str = "") -> Certificate:
    """Makes the certificate of an exact value."""
    return Certificate("exact", float(value), float(value), how=how)


def certify_bounds(low: float, high: float, how: str) -> Certificate:
    """Makes the certificate of a number that certainly lies between two bounds.

    Args:
      low: lower bound.
      high: upper bound.
      how: where they come from, for the text.
    """
    return Certificate("bounds", float(low), float(high), how=how)


def certify_lower_bound(low: float, confidence: float, how: str) -> Certificate:
    """Makes the certificate of a lower bound.

    Args:
      low: the bound.
      confidence: probability that the number is at least `low`.
      how: budget of the exploiter, for the text.
    """
    return Certificate("lower bound", float(low), math.inf, confidence, how)


def certify_interval(low: float, high: float, confidence: float, how: str) -> Certificate:
    """Makes the certificate of an interval.

    Args:
      low: lower end.
      high: upper end.
      confidence: probability that the number lies between them.
      how: its cost, for the text.
    """
    return Certificate("interval", float(low), float(high), confidence, how)


class Bounds(Struct):
    """Lower bound, estimate and upper bound of some quantities. Arrays of equal shape."""

    low: Array
    estimate: Array
    high: Array

    def max_over(self, mask: Array) -> Bounds:
        """Bounds the maximum over the last axis where the mask is True; -inf where it is nowhere True."""
        return jax.tree.map(lambda side: jnp.max(jnp.where(mask, side, -jnp.inf), axis=-1), self)

    def maximum(self, other: Bounds) -> Bounds:
        """Bounds the elementwise maximum of two quantities."""
        return jax.tree.map(jnp.maximum, self, other)

    def excess_over(self, other: Bounds) -> Bounds:
        """Bounds max(0, self - other)."""
        differences = (self.low - other.high, self.estimate - other.estimate, self.high - other.low)
        return Bounds(*(jnp.maximum(difference, 0.0) for difference in differences))

    def scale(self, width: float) -> Bounds:
        """Bounds `width` times this quantity."""
        return jax.tree.map(lambda side: side * width, self)


def mean_bounds(returns: Array, delta: float | Array) -> Bounds:
    """Bounds the mean of independent returns by the empirical-Bernstein inequality.

    The two-sided inequality of Maurer and Pontil uses delta / 2 on each side: sqrt(2 v L / n) + 7 L / (3 (n - 1)) with
    L = ln(4 / delta). This function uses the paper's form, with 3 for 7/3 and ln(2 / delta), at delta / 2. It is wider.

    Args:
      returns: independent samples in [0, 1], [..., n].
      delta: probability with which the mean may lie outside the bounds.

    Returns:
      Bounds [...] within [0, 1].
    """
    mean = returns.mean(axis=-1)
    width = empirical_bernstein_width(sample_variance(returns), returns.shape[-1], delta / 2)
    return Bounds(jnp.maximum(mean - width, 0.0), mean, jnp.minimum(mean + width, 1.0))
