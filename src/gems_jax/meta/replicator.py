"""Projected replicator dynamics (PRD), the meta-solver of the original PSRO."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.matrix import assert_game, mask_payoffs, slot_values
from gems_jax.meta.simplex import masked_normalise, masked_uniform
from gems_jax.types import Array


def project(weights: Array, active: Array, floor: float) -> Array:
    """The nearest point, in the Euclidean distance, of {x >= floor on active slots, sum x = 1}. [K], [K] -> [K].

    floor may be at most 1 / k; inactive slots come out as 0.
    """
    chex.assert_rank([weights, active], 1)
    count = active.sum()
    mass = 1.0 - count * floor  # to distribute above the floor
    above = jnp.where(active, weights - floor, -jnp.inf)
    ordered = -jnp.sort(-above)
    rank = jnp.arange(1.0, weights.shape[0] + 1.0)
    excess = (jnp.cumsum(jnp.where(rank <= count, ordered, 0.0)) - mass) / rank
    kept = (ordered > excess) & (rank <= count)  # a prefix of the order
    shift = jnp.max(jnp.where(kept, excess, -jnp.inf), initial=-jnp.inf)
    # `kept` is never empty in exact arithmetic; where rounding empties it all the mass goes to the floor
    lifted = jnp.maximum(above - jnp.where(jnp.isfinite(shift), shift, 0.0), 0.0)
    return jnp.where(active, lifted + floor, 0.0)


def projected_replicator(
    payoffs: Array, active: Array, num_steps: int = 20_000, step_size: float = 1e-2, floor: float = 1e-6
) -> Array:
    """Time average of x <- Proj(x + step_size x (u - x.u)), all players at once, from uniform. -> sigma [players, K].

    `floor` is the least mass of an active slot, the exploration that PSRO with this solver relies on; values of 1e-3
    and more change what it does. Payoffs are not scaled.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"projected_replicator got num_steps={num_steps}, expected at least 1.")
    masked = mask_payoffs(payoffs, active)

    def step(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        sigma, average = carry
        values = slot_values(masked, sigma)
        speed = sigma * (values - jnp.sum(sigma * values, axis=1, keepdims=True))
        sigma = jax.vmap(lambda x, mask: project(x, mask, floor))(sigma + step_size * speed, active)
        return (sigma, average + (sigma - average) / t), None

    start = jax.vmap(masked_uniform)(active)
    (_, average), _ = jax.lax.scan(step, (start, jnp.zeros_like(start)), jnp.arange(1.0, num_steps + 1.0))
    return jax.vmap(masked_normalise)(average, active)


def solve_prd(payoffs: Array, active: Array) -> Array:
    """Projected replicator dynamics with a floor of 1e-6 (20,000 steps of 0.01)."""
    return projected_replicator(payoffs, active)
