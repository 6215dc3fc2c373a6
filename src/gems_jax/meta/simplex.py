"""Mixtures over fixed slots: arithmetic on the simplex that ignores slots where `active` is False.

Everything here is written for one population, arrays of shape [K]; callers `vmap`. A mixture is kept as
`log_sigma`: the logarithm of its masses, exactly -inf on slots without mass, so that long products neither underflow
nor revive a slot. What stands on inactive slots of the inputs (even NaN) never reaches the outputs or their gradients.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.types import Array


def masked_uniform(active: Array) -> Array:
    """Equal mass on every active slot; all zeros when no slot is active. active [K] -> [K]."""
    chex.assert_rank(active, 1)
    weights = active.astype(jnp.float32)
    return weights / jnp.maximum(weights.sum(), 1.0)


def masked_normalise(weights: Array, active: Array) -> Array:
    """Weights divided by their sum over active slots. weights [K], active [K] -> [K].

    Negative weights count as zero; when nothing is left, equal mass on every active slot.
    """
    chex.assert_rank([weights, active], 1)
    chex.assert_equal_shape([weights, active])
    positive = jnp.maximum(jnp.where(active, weights, 0.0), 0.0)
    total = positive.sum()
    has_mass = total > 0.0
    return jnp.where(has_mass, positive / jnp.where(has_mass, total, 1.0), masked_uniform(active))


def masked_log_softmax(logits: Array, active: Array) -> Array:
    """Logarithm of exp(logits) normalised over active slots: turns log-weights into log_sigma. [K], [K] -> [K].

    Slots that are inactive, or active with logit -inf, come out as -inf and receive no gradient. A NaN on an active
    slot is not hidden: the whole result is NaN.
    """
    chex.assert_rank([logits, active], 1)
    chex.assert_equal_shape([logits, active])
    has_mass = active & (logits != -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(logits, initial=-jnp.inf, where=has_mass))
    top = jnp.where(top == -jnp.inf, 0.0, top)
    # `where` on the input as well: exp of a masked slot could overflow, and 0 * inf in the backward pass is NaN.
    shifted = jnp.where(has_mass, logits, top) - top
    total = jnp.sum(jnp.where(has_mass, jnp.exp(shifted), 0.0))
    log_total = jnp.log(jnp.where(total == 0.0, 1.0, total))
    return jnp.where(has_mass, shifted - log_total, -jnp.inf)


_FEW = 128  # slots that are compared with one by one


def _inverse_cdf(log_sigma: Array, points: Array) -> Array:
    """Slots at which the cumulative mass passes `points`, numbers in [0, 1]. [K], [n] -> [n] int32.

    A slot of mass zero is never returned. That takes care: a parallel cumulative sum associates differently from slot
    to slot, so it can rise by a rounding error on a slot of mass zero, and the last point can round up to the total.
    """
    masses = jnp.exp(log_sigma)
    cumulative = jax.lax.cummax(jnp.where(masses > 0.0, jnp.cumsum(masses), -1.0))
    last = jnp.argmax(cumulative)  # the first slot that reaches the total: a slot with mass
    total = cumulative[-1]
    if log_sigma.size > _FEW:  # draws of every anchor against every other would be a quadratic number of comparisons
        passed = jnp.searchsorted(cumulative, points * total, side="right")
    else:  # a sum fuses, where a search is a loop
        passed = jnp.sum(points[:, None] * total >= cumulative[None, :], axis=1)
    return jnp.minimum(passed, last).astype(jnp.int32)


def sample_slots(key: Array, log_sigma: Array, shape: tuple[int, ...] = ()) -> Array:
    """Independent slots from sigma. log_sigma [K] -> `shape` int32. key: consumed.

    By inverse CDF, one uniform number per draw. log_sigma need not be normalised, but some slot must have mass.
    """
    chex.assert_rank(log_sigma, 1)
    points = jax.random.uniform(key, shape)
    return _inverse_cdf(log_sigma, points.reshape(-1)).reshape(shape)


def stratify_slots(key: Array, log_sigma: Array, num_draws: int) -> Array:
    """Systematic sample of slots: unbiased, with counts within one of num_draws * sigma. [K] -> [num_draws] int32.

    One uniform offset, `num_draws` equally spaced points through the inverse CDF, then a random permutation. Each
    draw alone follows sigma, so E[count_i] = num_draws * sigma_i; the permutation makes position s of one player's
    draws independent of position s of another's, so that pairs follow the product of the mixtures. Draws of one call
    depend on each other: their sample variance overstates the error of their mean. key: consumed.
    """
    chex.assert_rank(log_sigma, 1)
    if num_draws < 1:
        raise ValueError(f"stratify_slots got num_draws={num_draws}, expected at least 1.")
    key_offset, key_order = jax.random.split(key)
    points = (jnp.arange(num_draws) + jax.random.uniform(key_offset)) / num_draws
    return jax.random.permutation(key_order, _inverse_cdf(log_sigma, points))
