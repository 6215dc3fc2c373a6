"""Policies as points: what every anchor does in the same positions, and the geometry of the resulting clouds.

`probe` collects positions from the play of a mixture, `choices` evaluates policies there. The rest is NumPy on points
[n, d]: principal components, silhouettes, two means, spread and dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.estimation.monte_carlo import draw_opponents
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import materialize
from gems_jax.rollout.episode import unroll
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, Population, Profile

PROBE_GAMES, PROBE_FLOATS = 16, 2**25  # games that are probed; fewer where what is seen in them is more than this


class Probes(NamedTuple):
    """Positions of one player, as observed by the seat to move."""

    observation: Array  # [n, *observation_shape]
    legal: Array  # [n, A]


def probe(key: Array, game: Game, profile: Profile, player: int, count: int) -> Probes:
    """Draws `count` positions of a player from games of the mixture, with repetition if there are fewer.

    Positions with a single legal action are left out, because all policies agree there. The key is consumed.
    """
    key_play, key_pick = jax.random.split(key)
    observation, legal, acted = _gathered(key_play, game, profile)
    seats = [seat for seat, owner in enumerate(game.player_of_seat) if owner == player]
    mine = np.isin(np.arange(game.num_seats), seats)
    open_ = np.argwhere(np.asarray(acted) & mine & (np.asarray(legal).sum(axis=-1) > 1))
    if not len(open_):
        raise ValueError(f"{game.name}: in {_probe_games(game)} games player {player} never had a choice")
    order = np.asarray(jax.random.permutation(key_pick, len(open_)))
    place = tuple(open_[np.resize(order, count)].T)
    return Probes(observation[place], legal[place])


def _probe_games(game: Game) -> int:
    seen = game.max_steps * game.num_seats * int(np.prod(game.observation_shape))
    return int(np.clip(PROBE_FLOATS // seen, 1, PROBE_GAMES))


@compile_play(static_argnames=("game",))
def _gathered(key: Array, game: Game, profile: Profile) -> tuple[Array, Array, Array]:
    """Collects observations, legal actions and the acting seats in games of the mixture, [games, 1, T, S, ...]."""
    key_draw, key_play = jax.random.split(key)
    slots = draw_opponents(key_draw, game, jnp.log(profile.sigma), (_probe_games(game),), stratified=True)
    stacked = materialize(profile.population, profile.sigma.shape[1])
    played = play_joint(unroll, key_play, game, stacked, slots, 1)
    return played.observation, played.legal, played.acted


@jax.jit
def choices(population: Population, slots: Array, probes: Probes) -> Array:
    """Computes the action probabilities [slots, n, A] of policies of ONE population in the probed positions."""

    def of_slot(slot: Array) -> Array:
        params = population.select(slot)
        logits = jax.vmap(lambda seen, legal: population.apply(params, seen, legal).logits)(*probes)
        assert logits is not None, "continuous actions have no probabilities"
        return jax.nn.softmax(logits, axis=-1)

    return jax.lax.map(of_slot, slots)  # one policy after the other: all at once may not fit


def features(probabilities: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Converts [k, n, A] to points [k, d]: legal actions of all n positions, divided by sqrt(n).

    The distance of two points is then the root mean square, over positions, of the distance of two distributions.
    """
    return np.asarray(probabilities, np.float64)[:, np.asarray(legal)] / np.sqrt(legal.shape[0])


def mean_entropy(probabilities: np.ndarray) -> np.ndarray:
    """Computes the entropy in nats [k] of distributions [k, n, A], mean over positions."""
    probs = np.asarray(probabilities, np.float64)
    return -np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1.0)), 0.0).sum(axis=-1).mean(axis=-1)


class Components(NamedTuple):
    scores: np.ndarray  # [n, r], all of them: distances are those of the points
    shares: np.ndarray  # [r], of the variance, falling


def principal(points: np.ndarray) -> Components:
    """Computes principal components of points [n, d]; r = min(n, d). If all points coincide, every fraction is zero."""
    centred = points - points.mean(axis=0, keepdims=True)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    total = (values**2).sum()
    return Components(left * values, values**2 / total if total > 1e-12 else np.zeros_like(values))


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
