"""The multiplicative-weights update of the meta-strategy, optimistic (eq:omwu-eta) and plain."""

from __future__ import annotations

import chex
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Num

from gems_jax.meta.simplex import masked_log_softmax
from gems_jax.types import Array


def omwu_update(
    log_sigma: Float[Array, " K"],
    values: Float[Array, " K"],
    previous_values: Float[Array, " K"],
    mixture_value: Num[ArrayLike, ""],
    step_size: Num[ArrayLike, ""],
    active: Bool[Array, " K"],
    *,
    optimistic: bool = True,
    gradient_cap: Num[ArrayLike, ""] = jnp.inf,
    logit_cap: Num[ArrayLike, ""] = jnp.inf,
) -> Float[Array, " K"]:
    """Applies one step of optimistic multiplicative weights to one population's meta-strategy (eq:omwu-eta).

        sigma'(i) ~ sigma(i) exp(step_size * clip(2 values_i - previous_values_i - mixture_value, +-gradient_cap))

    The step is computed in log space on the active slots. The mixture value is equal for all slots, so normalization
    cancels it unless there is a gradient cap.

    >>> import jax.numpy as jnp
    >>> from gems_jax import omwu_update
    >>> log_sigma, active = jnp.log(jnp.array([0.5, 0.5, 0.0])), jnp.array([True, True, False])
    >>> values = jnp.array([1.0, 0.0, 0.0])
    >>> sigma = jnp.exp(omwu_update(log_sigma, values, values, 0.5, 1.0, active))
    >>> [round(float(mass), 3) for mass in sigma]
    [0.731, 0.269, 0.0]

    Args:
      log_sigma: log of the meta-strategy, [K].
      values: v-hat of every slot, [K].
      previous_values: v-hat of the step before, [K]; unused if not `optimistic`.
      mixture_value: r-hat, value of the mixture, scalar.
      step_size: eta, scalar.
      active: slots that hold an anchor, [K] bool.
      optimistic: False replaces the bracket by values_i - mixture_value (plain MWU).
      gradient_cap: bound on the bracket, scalar.
      logit_cap: our reading of the table's "Caps logits", scalar. After the update, logits relative to the largest are
        clipped to at least -logit_cap. No active slot is then lighter than exp(-logit_cap) of the heaviest, and a slot
        of mass zero is lifted to that bound. With the default, infinity, a slot of mass zero stays at zero.

    Returns:
      log sigma', [K], normalized, -inf exactly on inactive slots.
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
