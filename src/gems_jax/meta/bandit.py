"""The bandit oracle: a pool of candidate codes, what was measured of each, and which ones to keep (sec:bandit-oracle).

An *index* scores a candidate by the mean and variance of its returns, scaled to [0, 1], and by how often it was
measured. `INDICES` maps names to indices, `propose` makes the pool, `run_oracle` measures it and picks, and
`play_bandit` plays an index for its own sake. Arrays and functions in, arrays out: what a pull is, the caller says.
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
    """Confidence parameter of round t, counted from 1: t^-2 (eq:ucb-jac) or delta0 (the Kuhn table, 0.5).

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
    """Empirical-Bernstein upper confidence bound with the Jacobian penalty (eq:ucb-jac), L = ln(3/delta).

        mean + sqrt(2 variance L / n) + 3 L / (n - 1) - lambda_jacobian * jacobian

    `jacobian` is ||J G(z)||_F^2. range_term=False leaves out 3 L / (n - 1), as Algorithm 1 prints it: it cannot change
    the order of candidates that were pulled equally often. Unpulled candidates score infinity.
    """
    mean, variance, pulls = _arrays(mean, variance, pulls)
    deviation, range_part = _bernstein_terms(variance, pulls, jnp.log(3.0 / jnp.asarray(delta, jnp.float32)))
    bound = mean + deviation + (range_part if range_term else 0.0)
    return _unpulled_first(bound - jnp.asarray(lambda_jacobian) * jnp.asarray(jacobian), pulls)


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


# name -> index(key, stats, t, delta, range_term) -> score [C]. Each reads what it needs; only Thompson uses the key.
INDICES: dict[str, Callable[[Array, Pulls, ArrayLike, ArrayLike, bool], Array]] = {
    "eb_ucb": lambda key, s, t, delta, range_term: eb_ucb(s.mean, s.variance, s.count, delta, range_term=range_term),
    "ucb_v": lambda key, s, t, delta, range_term: ucb_v(s.mean, s.variance, s.count, t),
    "ucb1": lambda key, s, t, delta, range_term: ucb1(s.mean, s.count, t),
    "thompson": lambda key, s, t, delta, range_term: thompson(key, s.mean, s.count),
    "thompson_nig": lambda key, s, t, delta, range_term: thompson_nig(key, s.mean, s.variance, s.count),
    "greedy": lambda key, s, t, delta, range_term: greedy(s.mean, s.count),
}


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
    """Scores [C] by the index called `name`, minus lambda_jacobian * jacobian whichever it is. key: consumed.

    `t` counts from 1 and is what ucb1 and ucb_v take the logarithm of, `delta` (see `delta_at`) is eb_ucb's.
    """
    if name not in INDICES:
        raise ValueError(f"index_scores got the unknown index {name!r}; expected one of: {', '.join(INDICES)}.")
    return INDICES[name](key, stats, t, delta, range_term) - jnp.asarray(lambda_jacobian) * jnp.asarray(jacobian)


# --- the pool


def propose(
    key: Array,
    anchors: Array,
    log_sigma: Array,
    active: Array,
    *,
    num_mutations: int,
    num_random: int,
    mutation_scale: ArrayLike,
    top_anchors: int,
) -> tuple[Array, Array]:
    """Candidate pool Lambda_t of one population: mutations of the heaviest anchors, then codes from N(0, I).

    The `top_anchors` heaviest active anchors (fewer if fewer are active) take turns as parents; a mutation adds
    N(0, mutation_scale^2) to each coordinate. anchors [K, D], log_sigma and active [K]; sizes are static and either may
    be zero. Returns pool [C, D] with C = num_mutations + num_random, and parent [C], the slot or -1. key: consumed.
    """
    chex.assert_rank([anchors, log_sigma, active], [2, 1, 1])
    chex.assert_equal_shape_prefix([anchors, log_sigma, active], 1)
    if min(num_mutations, num_random) < 0 or top_anchors < 1:
        raise ValueError(
            f"propose got num_mutations={num_mutations}, num_random={num_random}, top_anchors={top_anchors}; "
            "expected the first two at least 0 and the last at least 1."
        )
    slots, latent = anchors.shape
    # An active anchor without mass still ranks before every inactive slot.
    weight = jnp.where(active, jnp.maximum(log_sigma, jnp.finfo(jnp.float32).min), -jnp.inf)
    _, heaviest = jax.lax.top_k(weight, min(top_anchors, slots))
    num_parents = jnp.clip(jnp.sum(active), 1, heaviest.shape[0])
    parent = heaviest[jnp.arange(num_mutations) % num_parents].astype(jnp.int32)
    key_mutation, key_random = jax.random.split(key)
    mutated = anchors[parent] + mutation_scale * jax.random.normal(key_mutation, (num_mutations, latent))
    fresh = jax.random.normal(key_random, (num_random, latent))
    no_parent = jnp.full(num_random, -1, dtype=jnp.int32)
    return jnp.concatenate([mutated, fresh]), jnp.concatenate([parent, no_parent])


# --- measuring and choosing


class OracleResult(Struct):
    stats: Pulls  # what was measured of each candidate
    scores: Array  # [C], the index after the last round
    selected: Array  # [min(num_selected, C)] int32, best first
    env_steps: Array  # [] int32, what the pulls cost

    @property
    def episodes(self) -> Array:
        """[] int32, returns measured in all."""
        return self.stats.count.sum()


def run_oracle(
    key: Array,
    evaluate: Callable[[Array, Array, int], tuple[Array, Array]],
    num_candidates: int,
    *,
    score: Callable[[Array, Pulls], Array],
    pulls_per_candidate: int,
    rounds: int = 1,
    num_selected: int = 1,
    later_rounds: Array | None = None,
) -> OracleResult:
    """Measure C candidates with C * pulls_per_candidate pulls in all, and pick the best.

    evaluate(key, indices [F], num) -> (returns [F, n], environment steps []), with `num` a static number of pulls
    (opponents, say) per candidate and n any fixed multiple of it; score(key, stats) -> [C]. Later rounds are scanned:
    `evaluate` is traced once, or twice if rounds > 1.

    One round: equal pulls, as printed. More: every candidate first gets pulls_per_candidate // rounds (and the
    remainder); each later round shares as much among the F = max(1, C // 4) candidates that score highest, up to F - 1
    pulls being lost to rounding. Picked are the candidates pulled most often, the highest score first: after equal
    pulls that is the argmax of eq:ucb-jac, and after unequal ones the bonus of a candidate that was hardly measured
    does not win it a place. C = 0 is legal and picks nothing. later_rounds: a traced number of them instead of
    rounds - 1, each as large. key: consumed.
    """
    if not 1 <= rounds <= pulls_per_candidate:
        raise ValueError(
            f"run_oracle got rounds={rounds} and pulls_per_candidate={pulls_per_candidate}; "
            "expected 1 <= rounds <= pulls_per_candidate. Take fewer rounds or more pulls."
        )
    stats = Pulls.empty(num_candidates)
    if num_candidates == 0:
        return OracleResult(stats, stats.mean, jnp.zeros(0, dtype=jnp.int32), jnp.int32(0))
    key, key_first, key_last = jax.random.split(key, 3)
    share = pulls_per_candidate // rounds
    everyone = jnp.arange(num_candidates)
    returns, env_steps = evaluate(key_first, everyone, pulls_per_candidate - (rounds - 1) * share)
    stats = stats.add(everyone, returns)

    num_favoured = max(1, num_candidates // 4)
    pulls_each = num_candidates * share // num_favoured

    def adaptive_round(carry: tuple[Pulls, Array], _: None) -> tuple[tuple[Pulls, Array], Array]:
        stats, key = carry
        key, key_score, key_evaluate = jax.random.split(key, 3)
        favoured = jax.lax.top_k(score(key_score, stats), num_favoured)[1]
        returns, steps = evaluate(key_evaluate, favoured, pulls_each)
        return (stats.add(favoured, returns), key), steps

    def one_more(_: Array, loop: tuple[tuple[Pulls, Array], Array]) -> tuple[tuple[Pulls, Array], Array]:
        carry, steps = adaptive_round(loop[0], None)
        return carry, loop[1] + steps

    if later_rounds is not None:
        (stats, _), env_steps = jax.lax.fori_loop(0, later_rounds, one_more, ((stats, key), env_steps))
    elif rounds > 1:
        (stats, _), steps = jax.lax.scan(adaptive_round, (stats, key), length=rounds - 1)
        env_steps = env_steps + steps.sum()
    scores = score(key_last, stats)
    chex.assert_shape(scores, (num_candidates,))
    order = jnp.lexsort((-scores, -stats.count))
    return OracleResult(stats, scores, order[:num_selected].astype(jnp.int32), env_steps)


# --- a bandit for its own sake


class BanditHistory(Struct):
    arms: Array  # [T] int32
    rewards: Array  # [T]
    stats: Pulls  # after the last round


def play_bandit(
    key: Array,
    reward_fn: Callable[[Array, Array, Array], Array],
    index_fn: Callable[[Array, Pulls, Array], Array],
    num_arms: int,
    horizon: int,
    forced_pulls: int = 1,
) -> BanditHistory:
    """Play the arm with the highest index for `horizon` rounds, after `forced_pulls` turns of every arm.

    reward_fn(key, arm, t) -> [] and index_fn(key, stats, t) -> [num_arms]; t is the round, from 1, forced ones
    included. Ties go to the lowest arm. key: consumed.
    """

    def play(carry: tuple[Pulls, Array], t: Array) -> tuple[tuple[Pulls, Array], tuple[Array, Array]]:
        stats, key = carry
        key, key_index, key_reward = jax.random.split(key, 3)
        best = jnp.argmax(index_fn(key_index, stats, t)).astype(jnp.int32)
        arm = jnp.where(t <= forced_pulls * num_arms, (t - 1) % num_arms, best)
        reward = jnp.asarray(reward_fn(key_reward, arm, t), jnp.float32)
        return (stats.add(arm[None], reward[None, None]), key), (arm, reward)

    start = (Pulls.empty(num_arms), key)
    (stats, _), (arms, rewards) = jax.lax.scan(play, start, jnp.arange(1, horizon + 1, dtype=jnp.int32))
    return BanditHistory(arms=arms, rewards=rewards, stats=stats)
