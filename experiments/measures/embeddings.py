"""The geometry of clouds of policies as points [n, d]: silhouettes, two means, spread and dimension, in NumPy."""

from __future__ import annotations

import numpy as np

from gems_jax.viz.policy_points import Components, Probes, choices, features, principal, probe

__all__ = [
    "Components", "Probes", "choices", "distances", "effective_dimension", "features", "mean_entropy", "principal",
    "probe", "silhouette", "two_means",
]  # fmt: skip


def mean_entropy(probabilities: np.ndarray) -> np.ndarray:
    """Computes the entropy in nats [k] of distributions [k, n, A], mean over positions."""
    probs = np.asarray(probabilities, np.float64)
    return -np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1.0)), 0.0).sum(axis=-1).mean(axis=-1)


def distances(points: np.ndarray) -> np.ndarray:
    """Computes pairwise distances [n, n]."""
    square = (points**2).sum(axis=1)
    return np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * points @ points.T, 0.0))


def silhouette(points: np.ndarray, labels: np.ndarray) -> float:
    """Averages (b - a) / max(a, b) over points [n, d]: a is the distance to the own cloud, b to the nearest other one.

    1: distant clouds; 0: overlapping clouds; negative: points are closer to the other cloud. The only point of a cloud
    counts as 0, and so do all points if there is one cloud.
    """
    labels = np.asarray(labels)
    names = np.unique(labels)
    if len(names) < 2:
        return 0.0
    apart = distances(points)
    member = labels[:, None] == names[None, :]  # [n, clouds]
    sizes = member.sum(axis=0)
    sums = apart @ member
    own_size = sizes[np.argmax(member, axis=1)]
    own = np.where(member, sums, 0.0).sum(axis=1) / np.maximum(own_size - 1, 1)
    other = np.where(member, np.inf, sums / sizes[None, :]).min(axis=1)
    larger = np.maximum(own, other)
    return float(np.where((own_size > 1) & (larger > 0), (other - own) / np.where(larger > 0, larger, 1.0), 0.0).mean())


def two_means(points: np.ndarray, rounds: int = 100) -> np.ndarray:
    """Labels points [n] by the best two clusters of Lloyd's algorithm, started from halves along three components."""
    scores, _ = principal(points)
    best, least = np.zeros(len(points), int), np.inf
    for axis in range(min(3, scores.shape[1])):
        labels = (scores[:, axis] > np.median(scores[:, axis])).astype(int)
        for _ in range(rounds):
            if labels.min() == labels.max():
                break
            centres = np.stack([scores[labels == side].mean(axis=0) for side in (0, 1)])
            squared = ((scores[:, None, :] - centres[None]) ** 2).sum(axis=-1)
            moved = np.argmin(squared, axis=1)
            cost, stays = squared.min(axis=1).sum(), (moved == labels).all()
            labels = moved
            if stays:
                if cost < least:
                    best, least = labels, cost
                break
    return best


def two_cloud_silhouette(points: np.ndarray) -> float:
    """Computes the silhouette of the best two clusters; 0 if there are fewer than two."""
    return silhouette(points, two_means(points)) if len(points) > 2 else 0.0


def one_cloud_reference(points: np.ndarray, draws: int = 5, seed: int = 0) -> float:
    """Computes `two_cloud_silhouette` of one normal cloud with the same covariance, mean over draws.

    Cutting any cloud in halves gives a silhouette well above zero; two clouds exist if it is well above this reference.
    """
    scores, _ = principal(points)
    scale, random = scores.std(axis=0), np.random.default_rng(seed)
    return float(np.mean([two_cloud_silhouette(random.normal(size=scores.shape) * scale) for _ in range(draws)]))


def agreement(labels: np.ndarray, others: np.ndarray) -> float:
    """Computes the fraction of points on which two partitions into two clouds agree, up to labels: 0.5 to 1."""
    same = float(np.mean(np.asarray(labels) == np.asarray(others)))
    return max(same, 1.0 - same)


def mean_pairwise_distance(points: np.ndarray) -> float:
    """Averages the distance between any two of points [n, d]; 0 for one point."""
    count = len(points)
    return float(distances(points).sum() / (count * (count - 1))) if count > 1 else 0.0


def effective_dimension(points: np.ndarray) -> float:
    """Computes the participation ratio (sum v)^2 / sum v^2 of the variances: 1 on a line, d in a ball, 0 at a point."""
    shares = principal(points).shares
    return float(1.0 / (shares**2).sum()) if shares.any() else 0.0
