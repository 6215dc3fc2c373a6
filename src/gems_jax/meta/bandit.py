"""Bandit indices: scores of candidates by their measured returns (sec:bandit-oracle).

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
from jaxtyping import Float, Num

from gems_jax.types import Array, Struct

# --- measurements


class Pulls(Struct):
    """Running statistics of C candidates, numerically stable for returns of any scale.

    They hold mean and squared deviations instead of sums of squares: the variance of nearly equal returns does not
    cancel.
    """

    count: Array  # [C] int32
    mean: Array  # [C] float32, 0 where nothing was measured
    deviations: Array  # [C] float32, sum of squared deviations from the mean

    @classmethod
    def empty(cls, num_candidates: int) -> Pulls:
        """Makes the statistics of C candidates that were never pulled."""
        zeros = jnp.zeros(num_candidates)
        return cls(count=zeros.astype(jnp.int32), mean=zeros, deviations=zeros)

    def add(self, indices: Array, returns: Array) -> Pulls:
        """Adds returns to the statistics.

        Args:
          indices: [F] int32, candidates; one of them may come up twice.
          returns: [F, n], n returns of each.

        Returns:
          The updated statistics.
        """
        chex.assert_rank([indices, returns], [1, 2])
        chex.assert_equal(indices.shape[0], returns.shape[0])
        zeros = jnp.zeros(self.mean.shape)
        new_count = zeros.at[indices].add(returns.shape[1])
        new_mean = zeros.at[indices].add(returns.sum(axis=1)) / jnp.maximum(new_count, 1.0)
        spread = jnp.sum((returns - new_mean[indices][:, None]) ** 2, axis=1)
        # Merge two sets of pulls: their deviations add up, and the distance between their means adds to them.
        old_count = self.count.astype(jnp.float32)
        weight = new_count / jnp.maximum(old_count + new_count, 1.0)
        shift = new_mean - self.mean
        return Pulls(
            count=self.count + new_count.astype(jnp.int32),
            mean=self.mean + weight * shift,
            deviations=self.deviations + zeros.at[indices].add(spread) + old_count * weight * shift**2,
        )

    @property
    def variance(self) -> Array:
        """Unbiased variance of the returns, [C]; 0 below two pulls."""
        return self.deviations / jnp.maximum(self.count - 1, 1).astype(jnp.float32)


# --- indices: (mean, variance, pulls, ...) -> score, elementwise. `variance` is the unbiased one.

DeltaRule = Literal["decaying", "constant"]


def confidence_parameter(rule: DeltaRule, delta0: ArrayLike, t: ArrayLike) -> Array:
    """Computes the confidence parameter delta_t of eq:ucb-jac.

        decaying: t^-2 (text of sec:bandit-oracle)        constant: delta0 (0.5 in tab:gems_default_params)

    At t = 1 the decaying rule gives delta = 1: the bound then guarantees nothing, but ln(3/delta) is still positive, so
    the index is well defined.

    Args:
      rule: "decaying" or "constant".
      delta0: the constant; the decaying rule does not read it.
      t: iteration, counted from 1.

    Returns:
      delta_t, of the shape of `t` or `delta0`.

    Raises:
      ValueError: if the rule is unknown.
    """
    if rule == "decaying":
        return jnp.asarray(t, jnp.float32) ** -2
    if rule == "constant":
        return jnp.asarray(delta0, jnp.float32)
    raise ValueError(
        f"confidence_parameter: unknown rule, expected one of {', '.join(get_args(DeltaRule))}, got {rule!r}."
    )


def _as_arrays(*inputs: ArrayLike) -> list[Array]:
    arrays = [jnp.asarray(x, jnp.float32) for x in inputs]
    chex.assert_equal_shape(arrays)
    return arrays


def _bernstein_terms(variance: Array, pulls: Array, log_term: Array) -> tuple[Array, Array]:
    """sqrt(2 v L / n) and 3 L / (n - 1); of a single pull n - 1 counts as 1, so that the term stays finite."""
    pulls = jnp.maximum(pulls, 1.0)
    return jnp.sqrt(2.0 * variance * log_term / pulls), 3.0 * log_term / jnp.maximum(pulls - 1.0, 1.0)


def empirical_bernstein_width(variance: ArrayLike, pulls: ArrayLike, delta: ArrayLike) -> Array:
    """Computes the half-width of the empirical-Bernstein interval of a mean (lemma of sec:meta_game_est).

        sqrt(2 variance L / n) + 3 L / (n - 1),    L = ln(2 / delta)

    Args:
      variance: unbiased variance of returns in [0, 1], any shape.
      pulls: n, number of returns, same shape or a scalar.
      delta: the interval holds with probability 1 - delta.

    Returns:
      Half-widths of the same shape.
    """
    log_term = jnp.log(2.0 / jnp.asarray(delta, jnp.float32))
    deviation, range_part = _bernstein_terms(jnp.asarray(variance), jnp.asarray(pulls, jnp.float32), log_term)
    return deviation + range_part


def _prefer_unpulled(score: Array, pulls: Array) -> Array:
    return jnp.where(pulls > 0, score, jnp.inf)


def eb_ucb(
    mean: Num[ArrayLike, "*C"],
    variance: Num[ArrayLike, "*C"],
    pulls: Num[ArrayLike, "*C"],
    delta: Num[ArrayLike, "*#C"],
    *,
    jacobian: Num[ArrayLike, "*#C"] = 0.0,
    lambda_jacobian: Num[ArrayLike, "*#C"] = 0.0,
    range_term: bool = True,
) -> Float[Array, "*C"]:
    """Computes the empirical-Bernstein upper confidence bound with the Jacobian penalty (eq:ucb-jac).

        UCB(z) = mean + sqrt(2 variance L / n) + 3 L / (n - 1) - lambda_jacobian * jacobian,    L = ln(3 / delta)

    >>> import jax.numpy as jnp
    >>> from gems_jax import eb_ucb
    >>> scores = eb_ucb(jnp.array([0.5, 0.6]), jnp.array([0.25, 0.01]), jnp.array([16, 16]), 0.5)
    >>> [round(float(score), 3) for score in scores]
    [1.095, 1.006]

    Args:
      mean: mu-hat(z), mean of the scaled returns, any shape [*C].
      variance: their unbiased variance, [*C].
      pulls: n, number of returns, [*C].
      delta: confidence parameter, scalar or [*C]. In GEMS it is constant or t^-2 (the setting `delta_rule`).
      jacobian: ||J G(z)||_F^2, scalar or [*C].
      lambda_jacobian: lambda_J, scalar.
      range_term: whether to include 3 L / (n - 1), which Algorithm 1 omits. The term does not change the order of
        candidates with equally many pulls.

    Returns:
      Scores [*C]; infinity for candidates without pulls.
    """
    mean, variance, pulls = _as_arrays(mean, variance, pulls)
    deviation, range_part = _bernstein_terms(variance, pulls, jnp.log(3.0 / jnp.asarray(delta, jnp.float32)))
    bound = mean + deviation + (range_part if range_term else 0.0)
    return _penalize(_prefer_unpulled(bound, pulls), jacobian, lambda_jacobian)


def _penalize(score: Array, jacobian: ArrayLike, lambda_jacobian: ArrayLike) -> Array:
    return score - jnp.asarray(lambda_jacobian) * jnp.asarray(jacobian)


def ucb_v(mean: ArrayLike, variance: ArrayLike, pulls: ArrayLike, t: ArrayLike, *, zeta: float = 1.2) -> Array:
    """Computes the index UCB-V (Audibert et al. 2009).

        mean + sqrt(2 v zeta ln t / n) + 3 zeta ln t / n,    v the biased variance

    Args:
      mean: mean of the scaled returns, any shape.
      variance: their unbiased variance, same shape.
      pulls: n, number of returns, same shape.
      t: total number of pulls.
      zeta: exploration constant.

    Returns:
      Scores of the same shape; infinity for candidates that were never pulled.
    """
    mean, variance, pulls = _as_arrays(mean, variance, pulls)
    n = jnp.maximum(pulls, 1.0)
    log_term = zeta * jnp.log(jnp.asarray(t, jnp.float32))
    biased = variance * (n - 1.0) / n
    return _prefer_unpulled(mean + jnp.sqrt(2.0 * biased * log_term / n) + 3.0 * log_term / n, pulls)


def ucb1(mean: ArrayLike, pulls: ArrayLike, t: ArrayLike) -> Array:
    """Computes the index UCB1 (Auer et al. 2002): mean + sqrt(2 ln t / n); see `ucb_v` for the arguments."""
    mean, pulls = _as_arrays(mean, pulls)
    n = jnp.maximum(pulls, 1.0)
    return _prefer_unpulled(mean + jnp.sqrt(2.0 * jnp.log(jnp.asarray(t, jnp.float32)) / n), pulls)


def greedy(mean: ArrayLike, pulls: ArrayLike) -> Array:
    """Scores by the mean alone; infinity for candidates that were never pulled."""
    return _prefer_unpulled(*_as_arrays(mean, pulls))


def thompson(key: Array, mean: ArrayLike, pulls: ArrayLike, *, scale: float = 1.0) -> Array:
    """Draws the mean from a Gaussian posterior of known deviation: mean + scale / sqrt(n) * N(0, 1).

    Args:
      key: typed PRNG key; consumed.
      mean: mean of the scaled returns, any shape.
      pulls: n, number of returns, same shape.
      scale: standard deviation of a return.

    Returns:
      Scores of the same shape; infinity for candidates that were never pulled.
    """
    mean, pulls = _as_arrays(mean, pulls)
    noise = scale / jnp.sqrt(jnp.maximum(pulls, 1.0)) * jax.random.normal(key, mean.shape)
    return _prefer_unpulled(mean + noise, pulls)


class NormalInverseGamma(NamedTuple):
    """Prior of `thompson_nig`: the mean is N(mean, v / strength) and the variance v is InverseGamma(shape, scale)."""

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
    """Draws the mean from a Normal-Inverse-Gamma posterior: mean and variance are both unknown.

    The marginal posterior of the mean is a Student t with 2 shape' degrees of freedom.

    Args:
      key: typed PRNG key; consumed.
      mean: mean of the scaled returns, any shape.
      variance: their unbiased variance, same shape.
      pulls: n, number of returns, same shape.
      prior: parameters of the prior.

    Returns:
      Scores of the same shape.
    """
    mean, variance, n = _as_arrays(mean, variance, pulls)
    strength = prior.strength + n
    shape = prior.shape + 0.5 * n
    deviations = jnp.maximum(n - 1.0, 0.0) * variance
    scale = prior.scale + 0.5 * deviations + 0.5 * prior.strength * n * (mean - prior.mean) ** 2 / strength
    center = (prior.strength * prior.mean + n * mean) / strength
    return center + jnp.sqrt(scale / (shape * strength)) * jax.random.t(key, 2.0 * shape, mean.shape)


# Alternatives to eb_ucb: name -> index(key, stats, t) -> score [C]. Only Thompson sampling uses the key.
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
      t: total number of pulls, at least 1; ucb1 and ucb_v take its logarithm.
      delta: delta_t of eb_ucb, see `confidence_parameter`.
      jacobian: ||J G(z)||_F^2, [C] or a scalar.
      lambda_jacobian: lambda_J.
      range_term: see `eb_ucb`.

    Returns:
      Scores [C].

    Raises:
      ValueError: if the index is unknown.
    """
    penalty = {"jacobian": jacobian, "lambda_jacobian": lambda_jacobian}
    if name == "eb_ucb":
        return eb_ucb(stats.mean, stats.variance, stats.count, delta, range_term=range_term, **penalty)
    if name not in INDICES:
        raise ValueError(f"index_scores: unknown index, expected one of {', '.join(INDICES)}, got {name!r}.")
    return _penalize(_ALTERNATIVES[name](key, stats, t), **penalty)
