"""The multiplicative-weights update of the meta-strategy, optimistic (eq:omwu-eta) and plain."""

from __future__ import annotations

import chex
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.meta.simplex import masked_log_softmax
from gems_jax.types import Array


def omwu_update(
    log_sigma: Array,
    values: Array,
    previous_values: Array,
    mixture_value: ArrayLike,
    step_size: ArrayLike,
    active: Array,
    *,
    optimistic: bool = True,
    gradient_cap: ArrayLike = jnp.inf,
    logit_cap: ArrayLike = jnp.inf,
) -> Array:
    """One step of (optimistic) multiplicative weights for one population, in log space on the mask (eq:omwu-eta).

        sigma'(i) ~ sigma(i) exp(step_size * clip(2 values_i - previous_values_i - mixture_value, +-gradient_cap))

    With `optimistic=False` the bracket is values_i - mixture_value (plain MWU) and `previous_values` is not read.
    The mixture value is the same for every slot, so without a gradient cap normalisation cancels it.

    `logit_cap` is our reading of the table's "Caps logits": after the update the logits relative to the largest are
    floored at -logit_cap, so no active slot falls below exp(-logit_cap) of the heaviest, and a slot of mass zero is
    lifted to that floor. With the default, infinity, a slot of mass zero stays at zero for ever.

    log_sigma, values, previous_values, active: [K]; mixture_value, step_size and the caps: scalars, may be traced.
    Returns log_sigma' [K], normalised, -inf exactly on inactive slots.
    """
    chex.assert_rank([log_sigma, values, previous_values, active], 1)
    chex.assert_equal_shape([log_sigma, values, previous_values, active])
    chex.assert_rank([mixture_value, step_size, gradient_cap, logit_cap], 0)
    bracket = (2.0 * values - previous_values if optimistic else values) - mixture_value
    bracket = jnp.clip(jnp.where(active, bracket, 0.0), -jnp.asarray(gradient_cap), jnp.asarray(gradient_cap))
    logits = jnp.where(active, log_sigma, -jnp.inf) + step_size * bracket
    return masked_log_softmax(_floor_logits(logits, active, logit_cap), active)


def _floor_logits(logits: Array, active: Array, logit_cap: ArrayLike) -> Array:
    top = jnp.max(logits, initial=-jnp.inf, where=active)
    relative = logits - jnp.where(top == -jnp.inf, 0.0, top)
    return jnp.maximum(relative, -jnp.asarray(logit_cap))
