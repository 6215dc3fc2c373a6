"""Mixtures over fixed slots: arithmetic on the simplex that ignores slots where `active` is False.

All functions are written for one population, arrays of shape [K]; callers `vmap`. A mixture is stored as `log_sigma`:
the logarithm of its masses, exactly -inf on slots without mass, so that long products neither underflow nor revive a
slot. Values on inactive slots of the inputs (even NaN) never reach the outputs or their gradients.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.types import Array


def masked_uniform(active: Array) -> Array:
    """Assigns equal mass to every active slot: [K] -> [K]; all zeros if no slot is active."""
    chex.assert_rank(active, 1)
    weights = active.astype(jnp.float32)
    return weights / jnp.maximum(weights.sum(), 1.0)


def masked_normalize(weights: Array, active: Array) -> Array:
    """Divides weights by their sum over active slots.

    Args:
      weights: [K]; negative weights count as zero.
      active: [K] bool.

    Returns:
      A mixture [K], 0 on inactive slots; uniform over active slots if no weight is positive.
    """
    chex.assert_rank([weights, active], 1)
    chex.assert_equal_shape([weights, active])
    positive = jnp.maximum(jnp.where(active, weights, 0.0), 0.0)
    total = positive.sum()
    has_mass = total > 0.0
    return jnp.where(has_mass, positive / jnp.where(has_mass, total, 1.0), masked_uniform(active))


def masked_log_softmax(logits: Array, active: Array) -> Array:
    """Normalizes log-weights over active slots to the logarithm of a mixture.

    Slots that are inactive, or active with logit -inf, become -inf and receive no gradient. A NaN on an active slot
    makes the whole result NaN.

    Args:
      logits: [K].
      active: [K] bool.

    Returns:
      log_sigma, [K].
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


_FEW = 128  # largest number of slots that are compared one by one


@jax.jit
def _inverse_cdf(log_sigma: Array, points: Array) -> Array:
    """Slots at which the cumulative mass passes `points` in [0, 1]: [K], [n] -> [n] int32.

    A slot of mass zero is never returned. A plain search could return one: a parallel cumulative sum associates
    differently from slot to slot, so it can rise by a rounding error on a slot of mass zero, and the last point can
    round up to the total.
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
    """Draws independent slots from sigma by inverse CDF, one uniform number per draw.

    Args:
      key: typed PRNG key; consumed.
      log_sigma: [K], not necessarily normalized; some slot must have mass.
      shape: shape of the draws.

    Returns:
      Slots, `shape` int32.
    """
    chex.assert_rank(log_sigma, 1)
    points = jax.random.uniform(key, shape)
    return _inverse_cdf(log_sigma, points.reshape(-1)).reshape(shape)


def stratify_slots(key: Array, log_sigma: Array, num_draws: int) -> Array:
    """Draws slots from sigma by systematic sampling: counts differ from num_draws * sigma by less than one.

    One uniform offset shifts `num_draws` equally spaced points, which the inverse CDF maps to slots; then the slots are
    permuted at random. Each draw alone follows sigma, so E[count_i] = num_draws * sigma_i. The permutation makes
    position s of one player's draws independent of position s of another's, so that pairs follow the product of the
    mixtures. Draws of one call depend on each other: their sample variance overstates the error of their mean.

    Args:
      key: typed PRNG key; consumed.
      log_sigma: [K], not necessarily normalized; some slot must have mass.
      num_draws: number of draws, static.

    Returns:
      Slots, [num_draws] int32.

    Raises:
      ValueError: if `num_draws` is below 1.
    """
    chex.assert_rank(log_sigma, 1)
    if num_draws < 1:
        raise ValueError(f"stratify_slots: expected num_draws of at least 1, got num_draws={num_draws}.")
    key_offset, key_order = jax.random.split(key)
    points = (jnp.arange(num_draws) + jax.random.uniform(key_offset)) / num_draws
    return jax.random.permutation(key_order, _inverse_cdf(log_sigma, points))
