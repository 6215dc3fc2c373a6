"""Elo ratings by maximum likelihood (Bradley-Terry with half a point for a draw), on the host in float64.

Entrant i is expected to score p_ij = 1 / (1 + 10^{-(r_i - r_j) / 400}) points per game against entrant j. The ratings
maximize sum_ij s_ij log p_ij, where s_ij are the points that i took off j. They are determined up to a constant: here
the mean of the largest group is 0.

The maximum is finite if every entrant is linked to every other by a chain of points (Ford 1957). Otherwise the entrants
fall into *groups*, the difference between two groups is unbounded, and ratings across groups are bounds: the weaker
entrant of each of their pairs is credited with the highest rate of points that its games do not refute at 95 %
(Clopper-Pearson). Links that fewer than 97.5 % of the resamplings contain are too weak to bound an interval, so they do
not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gems_jax.types import expect

SCALE = 400.0 / np.log(10.0)  # Elo points per unit of log odds
_CONFIDENCE = 0.95
_MAX_STEPS, _LONGEST_STEP, _TOLERANCE = 200, 2.0, 1e-10  # of Newton's method, in log odds


class Elo(NamedTuple):
    """Ratings [n], the ends of their intervals [n], and the group of each entrant [n], 0 for the strongest.

    Between groups a rating is a bound: an end of the interval of an entrant above (below) the largest group is inf
    (-inf).
    """

    rating: np.ndarray
    low: np.ndarray
    high: np.ndarray
    group: np.ndarray


def fit_elo(points: np.ndarray) -> np.ndarray:
    """Computes the maximum-likelihood ratings of one or several tables of points, by Newton's method.

    Args:
      points: s_ij, wins + draws / 2 of i against j, [..., n, n]; the diagonal is ignored. The maximum must be finite.

    Returns:
      Ratings with mean 0, [..., n].
    """
    count = points.shape[-1]
    points = np.where(np.eye(count, dtype=bool), 0.0, np.asarray(points, np.float64))
    games = points + np.swapaxes(points, -1, -2)
    strength = np.zeros(points.shape[:-1])
    for _ in range(_MAX_STEPS):
        chance = 1.0 / (1.0 + np.exp(strength[..., None, :] - strength[..., :, None]))
        gradient = (points - games * chance).sum(axis=-1)
        weight = games * chance * (1.0 - chance)
        curvature = np.eye(count) * weight.sum(axis=-1)[..., None] - weight + 1.0 / count  # + 1/n fixes the mean
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        strength = strength + step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _TOLERANCE))
        if longest.max() < _TOLERANCE:
            break
    return SCALE * (strength - strength.mean(axis=-1, keepdims=True))


def find_links(points: np.ndarray) -> np.ndarray:
    """Finds the pairs of entrants that chains of points link in both directions.

    Args:
      points: s_ij, [..., n, n].

    Returns:
      An equivalence relation, [..., n, n] bool, whose classes are the groups.
    """
    count = points.shape[-1]
    reach = (points > 0) | np.eye(count, dtype=bool)
    for _ in range(max(1, (count - 1).bit_length())):  # doubles the length of the chains
        reach = reach @ reach
    return reach & np.swapaxes(reach, -1, -2)


def credit_shutouts(points: np.ndarray, linked: np.ndarray) -> np.ndarray:
    """Credits the weaker entrant of every pair that is not linked with the points that its games do not refute.

    Args:
      points: s_ij, [..., n, n].
      linked: which pairs are linked, [..., n, n] bool.

    Returns:
      Points [..., n, n], as many per pair as before.
    """
    if linked.all():
        return points
    from scipy.stats import beta

    others = np.swapaxes(points, -1, -2)
    weaker = ~linked & (points < others)
    rate = np.zeros(points.shape)
    rate[weaker] = np.minimum(beta.ppf(_CONFIDENCE, points[weaker] + 1.0, others[weaker]), 0.5)
    credited = np.where(weaker, (points + others) * rate, points)
    stronger = np.swapaxes(weaker, -1, -2)
    return np.where(stronger, points + others - np.swapaxes(credited, -1, -2), credited)


def rate_entrants(points: np.ndarray, replicates: np.ndarray, level: float = 0.95) -> Elo:
    """Computes ratings and their percentile bootstrap intervals.

    Args:
      points: s_ij, [n, n]; every pair has played.
      replicates: points of resampled games, [B, n, n].
      level: coverage of the intervals.

    Returns:
      Ratings, of which the largest group (the strongest of equals) has mean 0, and their intervals.

    Raises:
      ValueError: if a pair has not played.
    """
    missing = np.argwhere((points + points.T + np.eye(len(points))) <= 0)
    expect(not missing.size, f"rate_entrants: expected games of every pair, got none of {missing[:1].tolist()}.")
    linked = find_links(points) & (find_links(replicates).mean(axis=0) >= 0.5 + level / 2)
    linked = find_links(linked)
    tables = np.where(linked, np.stack([points, *replicates]), credit_shutouts(points, linked))
    ratings = fit_elo(credit_shutouts(tables, find_links(tables)))
    group = _number_groups(points, linked)
    middle = np.bincount(group).argmax()
    ratings = ratings - ratings[:, group == middle].mean(axis=1, keepdims=True)
    low, high = np.quantile(ratings[1:], [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return Elo(ratings[0], np.where(group > middle, -np.inf, low), np.where(group < middle, np.inf, high), group)


def _number_groups(points: np.ndarray, linked: np.ndarray) -> np.ndarray:
    """Ranks the groups of linked entrants by their fraction of points, from the strongest, [n] int."""
    _, group = np.unique(linked.argmax(axis=1), return_inverse=True)
    strength = points.sum(axis=1) / (points + points.T).sum(axis=1)
    mean = np.bincount(group, strength) / np.bincount(group)
    return np.argsort(np.argsort(-mean))[group]
