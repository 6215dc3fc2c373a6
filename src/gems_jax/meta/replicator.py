"""Projected replicator dynamics (PRD), the meta-solver of the original PSRO."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.matrix import assert_game, mask_payoffs, slot_values
from gems_jax.meta.simplex import masked_normalize, masked_uniform
from gems_jax.types import Array


def project_with_floor(weights: Array, active: Array, floor: float) -> Array:
    """Projects weights onto {x >= floor on active slots, sum x = 1} in the Euclidean distance.

    Args:
      weights: [K].
      active: [K] bool, with k True entries.
      floor: least mass of an active slot, at most 1 / k.

    Returns:
      The projection [K], 0 on inactive slots.
    """
    chex.assert_rank([weights, active], 1)
    count = active.sum()
    mass = 1.0 - count * floor  # to distribute above the floor
    above = jnp.where(active, weights - floor, -jnp.inf)
    ordered = -jnp.sort(-above)
    rank = jnp.arange(1.0, weights.shape[0] + 1.0)
    excess = (jnp.cumsum(jnp.where(rank <= count, ordered, 0.0)) - mass) / rank
    support = (ordered > excess) & (rank <= count)  # a prefix of the order
    shift = jnp.max(jnp.where(support, excess, -jnp.inf), initial=-jnp.inf)
    # The support is never empty in exact arithmetic. If rounding empties it, every slot gets the floor.
    lifted = jnp.maximum(above - jnp.where(jnp.isfinite(shift), shift, 0.0), 0.0)
    return jnp.where(active, lifted + floor, 0.0)


def projected_replicator(
    payoffs: Array, active: Array, num_steps: int = 20_000, step_size: float = 1e-2, floor: float = 1e-6
) -> Array:
    """Averages projected replicator dynamics over time, all players simultaneously, from uniform mixtures.

        x <- Proj(x + step_size x (u - x.u))

    Payoffs are not scaled.

    Args:
      payoffs: [players, K, ..., K].
      active: which slots hold a strategy, [players, K] bool.
      num_steps: number of steps, static.
      step_size: step size of the discretization.
      floor: least mass of an active slot, the exploration that PSRO with this solver relies on. Values of 1e-3 and more
        change the result.

    Returns:
      sigma, [players, K].

    Raises:
      ValueError: if `num_steps` is below 1.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"projected_replicator: expected num_steps of at least 1, got num_steps={num_steps}.")
    masked = mask_payoffs(payoffs, active)

    def step(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        sigma, average = carry
        values = slot_values(masked, sigma)
        speed = sigma * (values - jnp.sum(sigma * values, axis=1, keepdims=True))
        sigma = jax.vmap(lambda x, mask: project_with_floor(x, mask, floor))(sigma + step_size * speed, active)
        return (sigma, average + (sigma - average) / t), None

    start = jax.vmap(masked_uniform)(active)
    (_, average), _ = jax.lax.scan(step, (start, jnp.zeros_like(start)), jnp.arange(1.0, num_steps + 1.0))
    return jax.vmap(masked_normalize)(average, active)


def solve_prd(payoffs: Array, active: Array) -> Array:
    """Runs projected replicator dynamics with a floor of 1e-6: 20,000 steps of 0.01."""
    return projected_replicator(payoffs, active)
