"""Bandit indices: scores of candidates by what was measured of them (sec:bandit-oracle).

An *index* scores a candidate by the mean and variance of its returns, scaled to [0, 1], and by how often it was
measured. `INDICES` lists them, and `index_scores` evaluates one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, Struct

# --- what was measured


class Pulls(Struct):
    """Running statistics of C candidates, numerically sane for returns of any scale.

    Mean and squared deviations rather than sums of squares: the variance of nearly equal returns does not cancel.
    """

    count: Array  # [C] int32
    mean: Array  # [C] float32, 0 where nothing was measured
    deviations: Array  # [C] float32, sum of squared deviations from the mean

    @classmethod
    def empty(cls, num_candidates: int) -> Pulls:
        zeros = jnp.zeros(num_candidates)
        return cls(count=zeros.astype(jnp.int32), mean=zeros, deviations=zeros)

    def add(self, indices: Array, returns: Array) -> Pulls:
        """The statistics with `returns` [F, n] added, row f of candidate indices[f]; a candidate may have two rows."""
        chex.assert_rank([indices, returns], [1, 2])
        chex.assert_equal(indices.shape[0], returns.shape[0])
        zeros = jnp.zeros(self.mean.shape)
        new_count = zeros.at[indices].add(returns.shape[1])
        new_mean = zeros.at[indices].add(returns.sum(axis=1)) / jnp.maximum(new_count, 1.0)
        spread = jnp.sum((returns - new_mean[indices][:, None]) ** 2, axis=1)
        # Two sets of pulls become one: their deviations add, and so does the distance between their means.
        old_count = self.count.astype(jnp.float32)
        share = new_count / jnp.maximum(old_count + new_count, 1.0)
        shift = new_mean - self.mean
        return Pulls(
            count=self.count + new_count.astype(jnp.int32),
            mean=self.mean + share * shift,
            deviations=self.deviations + zeros.at[indices].add(spread) + old_count * share * shift**2,
        )

    @property
    def variance(self) -> Array:
        """Unbiased variance [C]; 0 below two pulls."""
        return self.deviations / jnp.maximum(self.count - 1, 1).astype(jnp.float32)


# --- indices: (mean, variance, pulls, ...) -> score, elementwise. `variance` is the unbiased one.

DeltaRule = Literal["decaying", "constant"]


def delta_at(rule: DeltaRule, delta0: ArrayLike, t: ArrayLike) -> Array:
    """Confidence parameter of round t, counted from 1: t^-2, as the text prints it, or delta0 (the Kuhn table, 0.5).

    The decaying rule does not read delta0; at t = 1 it gives delta = 1, where the bounds promise nothing but
    ln(3/delta) is still positive, so that the index is well defined.
    """
    if rule == "decaying":
        return jnp.asarray(t, jnp.float32) ** -2
    if rule == "constant":
        return jnp.asarray(delta0, jnp.float32)
    raise ValueError(f"delta_at got the unknown rule {rule!r}; expected one of: {', '.join(get_args(DeltaRule))}.")


def _arrays(*inputs: ArrayLike) -> list[Array]:
    arrays = [jnp.asarray(x, jnp.float32) for x in inputs]
    chex.assert_equal_shape(arrays)
    return arrays


def _bernstein_terms(variance: Array, pulls: Array, log_term: Array) -> tuple[Array, Array]:
    """sqrt(2 v L / n) and 3 L / (n - 1). A single pull leaves no room for n - 1: it is taken as 1 to stay finite."""
    pulls = jnp.maximum(pulls, 1.0)
    return jnp.sqrt(2.0 * variance * log_term / pulls), 3.0 * log_term / jnp.maximum(pulls - 1.0, 1.0)


def empirical_bernstein_width(variance: ArrayLike, pulls: ArrayLike, delta: ArrayLike) -> Array:
    """Half-width of the paper's empirical-Bernstein interval for a mean of `pulls` returns in [0, 1].

    sqrt(2 variance ln(2/delta) / n) + 3 ln(2/delta) / (n - 1)
    """
    log_term = jnp.log(2.0 / jnp.asarray(delta, jnp.float32))
    deviation, range_part = _bernstein_terms(jnp.asarray(variance), jnp.asarray(pulls, jnp.float32), log_term)
    return deviation + range_part


def _unpulled_first(score: Array, pulls: Array) -> Array:
    return jnp.where(pulls > 0, score, jnp.inf)


def eb_ucb(
    mean: ArrayLike,
    variance: ArrayLike,
    pulls: ArrayLike,
    delta: ArrayLike,
    *,
    jacobian: ArrayLike = 0.0,
    lambda_jacobian: ArrayLike = 0.0,
    range_term: bool = True,
) -> Array:
    """Computes the empirical-Bernstein upper confidence bound with the Jacobian penalty (eq:ucb-jac).

        UCB(z) = mean + sqrt(2 variance L / n) + 3 L / (n - 1) - lambda_jacobian * jacobian,    L = ln(3 / delta)

    Args:
      mean: mu-hat(z), mean of the scaled returns, any shape.
      variance: their unbiased variance, same shape.
      pulls: n, number of returns, same shape.
      delta: confidence parameter, see `delta_at`.
      jacobian: ||J G(z)||_F^2, same shape or a scalar.
      lambda_jacobian: lambda_J.
      range_term: False leaves out 3 L / (n - 1), as Algorithm 1 prints it: it cannot change the order of candidates
        that were pulled equally often.

    Returns:
      Scores of the same shape; infinity for candidates that were never pulled.
    """
    mean, variance, pulls = _arrays(mean, variance, pulls)
    deviation, range_part = _bernstein_terms(variance, pulls, jnp.log(3.0 / jnp.asarray(delta, jnp.float32)))
    bound = mean + deviation + (range_part if range_term else 0.0)
    return _penalize(_unpulled_first(bound, pulls), jacobian, lambda_jacobian)


def _penalize(score: Array, jacobian: ArrayLike, lambda_jacobian: ArrayLike) -> Array:
    return score - jnp.asarray(lambda_jacobian) * jnp.asarray(jacobian)


def ucb_v(mean: ArrayLike, variance: ArrayLike, pulls: ArrayLike, t: ArrayLike, *, zeta: float = 1.2) -> Array:
    """UCB-V (Audibert et al. 2009): mean + sqrt(2 v zeta ln t / n) + 3 zeta ln t / n, v the biased variance."""
    mean, variance, pulls = _arrays(mean, variance, pulls)
    n = jnp.maximum(pulls, 1.0)
    log_term = zeta * jnp.log(jnp.asarray(t, jnp.float32))
    biased = variance * (n - 1.0) / n
    return _unpulled_first(mean + jnp.sqrt(2.0 * biased * log_term / n) + 3.0 * log_term / n, pulls)


def ucb1(mean: ArrayLike, pulls: ArrayLike, t: ArrayLike) -> Array:
    """UCB1 (Auer et al. 2002): mean + sqrt(2 ln t / n)."""
    mean, pulls = _arrays(mean, pulls)
    n = jnp.maximum(pulls, 1.0)
    return _unpulled_first(mean + jnp.sqrt(2.0 * jnp.log(jnp.asarray(t, jnp.float32)) / n), pulls)


def greedy(mean: ArrayLike, pulls: ArrayLike) -> Array:
    """The mean itself."""
    return _unpulled_first(*_arrays(mean, pulls))


def thompson(key: Array, mean: ArrayLike, pulls: ArrayLike, *, scale: float = 1.0) -> Array:
    """A draw from a Gaussian posterior of known deviation: mean + scale / sqrt(n) * N(0, 1). key: consumed."""
    mean, pulls = _arrays(mean, pulls)
    noise = scale / jnp.sqrt(jnp.maximum(pulls, 1.0)) * jax.random.normal(key, mean.shape)
    return _unpulled_first(mean + noise, pulls)


class NormalInverseGamma(NamedTuple):
    """Prior of `thompson_nig`: the mean is N(mean, v / strength), the variance v is InverseGamma(shape, scale)."""

    mean: float = 0.5
    strength: float = 1.0
    shape: float = 1.0
    scale: float = 0.1


UNIT_INTERVAL_PRIOR = NormalInverseGamma()


def thompson_nig(
    key: Array,
    mean: ArrayLike,
    variance: ArrayLike,
    pulls: ArrayLike,
    *,
    prior: NormalInverseGamma = UNIT_INTERVAL_PRIOR,
) -> Array:
    """A draw of the mean from a Normal-Inverse-Gamma posterior, mean and variance both unknown. key: consumed.

    The marginal posterior of the mean is a Student t with 2 shape' degrees of freedom.
    """
    mean, variance, n = _arrays(mean, variance, pulls)
    strength = prior.strength + n
    shape = prior.shape + 0.5 * n
    deviations = jnp.maximum(n - 1.0, 0.0) * variance
    scale = prior.scale + 0.5 * deviations + 0.5 * prior.strength * n * (mean - prior.mean) ** 2 / strength
    centre = (prior.strength * prior.mean + n * mean) / strength
    return centre + jnp.sqrt(scale / (shape * strength)) * jax.random.t(key, 2.0 * shape, mean.shape)


# name -> index(key, stats, t) -> score [C], the alternatives to eb_ucb. Only Thompson uses the key.
_ALTERNATIVES: dict[str, Callable[[Array, Pulls, ArrayLike], Array]] = {
    "ucb_v": lambda key, stats, t: ucb_v(stats.mean, stats.variance, stats.count, t),
    "ucb1": lambda key, stats, t: ucb1(stats.mean, stats.count, t),
    "thompson": lambda key, stats, t: thompson(key, stats.mean, stats.count),
    "thompson_nig": lambda key, stats, t: thompson_nig(key, stats.mean, stats.variance, stats.count),
    "greedy": lambda key, stats, t: greedy(stats.mean, stats.count),
}
INDICES = ("eb_ucb", *_ALTERNATIVES)


def index_scores(
    name: str,
    key: Array,
    stats: Pulls,
    *,
    t: ArrayLike,
    delta: ArrayLike,
    jacobian: ArrayLike = 0.0,
    lambda_jacobian: ArrayLike = 0.0,
    range_term: bool = True,
) -> Array:
    """Scores candidates by the index called `name`, less the Jacobian penalty.

    Args:
      name: one of `INDICES`.
      key: typed PRNG key; consumed.
      stats: statistics of C candidates.
      t: counts from 1; ucb1 and ucb_v take its logarithm.
      delta: confidence parameter of eb_ucb, see `delta_at`.
      jacobian: ||J G(z)||_F^2 [C].
      lambda_jacobian: lambda_J.
      range_term: see `eb_ucb`.

    Returns:
      Scores [C].

    Raises:
      ValueError: if there is no such index.
    """
    penalty = {"jacobian": jacobian, "lambda_jacobian": lambda_jacobian}
    if name == "eb_ucb":
        return eb_ucb(stats.mean, stats.variance, stats.count, delta, range_term=range_term, **penalty)
    if name not in INDICES:
        raise ValueError(f"index_scores got the unknown index {name!r}; expected one of: {', '.join(INDICES)}.")
    return _penalize(_ALTERNATIVES[name](key, stats, t), **penalty)
