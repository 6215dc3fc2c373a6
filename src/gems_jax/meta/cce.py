"""Coarse correlated equilibria of games of any number of players, by regret matching."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.matrix import assert_game, largest_payoff, mask_payoffs, slot_values
from gems_jax.meta.simplex import masked_normalise
from gems_jax.types import Array


def joint_of(sigma: Array) -> Array:
    """The product distribution [K, ..., K] of independent mixtures [players, K]."""
    joint = sigma[0]
    for row in sigma[1:]:
        joint = joint[..., None] * row.reshape((1,) * joint.ndim + row.shape)
    return joint


def marginals_of(joint: Array) -> Array:
    """sigma [players, K] of a joint distribution [K, ..., K]."""
    axes = range(joint.ndim)
    return jnp.stack([joint.sum(axis=tuple(other for other in axes if other != player)) for player in axes])


def cce_gap(payoffs: Array, joint: Array, active: Array) -> Array:
    """sum_p max(0, max_i E_{a ~ joint}[u_p(i, a_-p) - u_p(a)]), []: 0 at a coarse correlated equilibrium."""
    assert_game(payoffs, active)
    chex.assert_equal_shape([payoffs[0], joint])
    masked = mask_payoffs(payoffs, active)
    gains = []
    for player in range(active.shape[0]):
        others = joint.sum(axis=player, keepdims=True)  # what the others do when this player is not asked
        axes = tuple(axis for axis in range(joint.ndim) if axis != player)
        deviation = jnp.sum(masked[player] * others, axis=axes)
        best = jnp.max(deviation, initial=-jnp.inf, where=active[player])
        gains.append(jnp.maximum(best - jnp.sum(masked[player] * joint), 0.0))
    return jnp.sum(jnp.stack(gains))


def regret_matching_joint(payoffs: Array, active: Array, num_steps: int = 10_000) -> Array:
    """The joint distribution [K, ..., K] that regret matching plays on average: it approaches the set of CCE.

    Everybody matches clipped regrets (as in regret matching+) on exact values, all at once, from uniform, and the
    profiles played count with weight t. No particular equilibrium is selected.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"regret_matching_joint got num_steps={num_steps}, expected at least 1.")
    scaled = mask_payoffs(payoffs, active) / largest_payoff(payoffs, active)

    def step(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        regrets, average = carry
        sigma = jax.vmap(masked_normalise)(regrets, active)
        values = slot_values(scaled, sigma)
        regrets = jnp.maximum(regrets + values - jnp.sum(sigma * values, axis=1, keepdims=True), 0.0)
        average = average + (joint_of(sigma) - average) * (2.0 / (t + 1.0))
        return (jnp.where(active, regrets, 0.0), average), None

    start = (jnp.zeros(active.shape), jnp.zeros(payoffs.shape[1:]))
    (_, average), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    return average / average.sum()  # rounding adds up over the steps


def solve_cce(payoffs: Array, active: Array) -> Array:
    """Marginals of the coarse correlated equilibrium that regret matching finds (in zero-sum games: a Nash one)."""
    return jax.vmap(masked_normalise)(marginals_of(regret_matching_joint(payoffs, active)), active)
