"""Coarse correlated equilibria of games of any number of players, by regret matching."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.matrix import assert_game, largest_payoff, mask_payoffs, slot_values
from gems_jax.meta.simplex import masked_normalize
from gems_jax.types import Array


def product_distribution(sigma: Array) -> Array:
    """Computes the joint distribution [K, ..., K] of independent mixtures [players, K]."""
    joint = sigma[0]
    for row in sigma[1:]:
        joint = joint[..., None] * row.reshape((1,) * joint.ndim + row.shape)
    return joint


def joint_marginals(joint: Array) -> Array:
    """Computes the marginals [players, K] of a joint distribution [K, ..., K]."""
    axes = range(joint.ndim)
    return jnp.stack([joint.sum(axis=tuple(other for other in axes if other != player)) for player in axes])


def cce_gap(payoffs: Array, joint: Array, active: Array) -> Array:
    """Computes how far a joint distribution is from a coarse correlated equilibrium.

        sum_p max(0, max_i E_{a ~ joint}[u_p(i, a_-p) - u_p(a)])

    Args:
      payoffs: u, [players, K, ..., K].
      joint: distribution of profiles, [K, ..., K].
      active: which slots hold a strategy, [players, K] bool.

    Returns:
      The gap [], 0 at a coarse correlated equilibrium.
    """
    assert_game(payoffs, active)
    chex.assert_equal_shape([payoffs[0], joint])
    masked = mask_payoffs(payoffs, active)
    gains = []
    for player in range(active.shape[0]):
        others = joint.sum(axis=player, keepdims=True)  # distribution of the other players' slots
        axes = tuple(axis for axis in range(joint.ndim) if axis != player)
        deviation = jnp.sum(masked[player] * others, axis=axes)
        best = jnp.max(deviation, initial=-jnp.inf, where=active[player])
        gains.append(jnp.maximum(best - jnp.sum(masked[player] * joint), 0.0))
    return jnp.sum(jnp.stack(gains))


def regret_matching_joint(payoffs: Array, active: Array, num_steps: int = 10_000) -> Array:
    """Approximates a coarse correlated equilibrium by the average play of regret matching.

    All players match clipped regrets (as in regret matching+) on exact values, simultaneously, from uniform mixtures.
    The profile of step t has weight t in the average. Which equilibrium is found is not specified.

    Args:
      payoffs: [players, K, ..., K].
      active: which slots hold a strategy, [players, K] bool.
      num_steps: number of steps, static.

    Returns:
      The joint distribution, [K, ..., K].

    Raises:
      ValueError: if `num_steps` is below 1.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"regret_matching_joint: expected num_steps of at least 1, got num_steps={num_steps}.")
    scaled = mask_payoffs(payoffs, active) / largest_payoff(payoffs, active)

    def step(carry: tuple[Array, Array], t: Array) -> tuple[tuple[Array, Array], None]:
        regrets, average = carry
        sigma = jax.vmap(masked_normalize)(regrets, active)
        values = slot_values(scaled, sigma)
        regrets = jnp.maximum(regrets + values - jnp.sum(sigma * values, axis=1, keepdims=True), 0.0)
        average = average + (product_distribution(sigma) - average) * (2.0 / (t + 1.0))
        return (jnp.where(active, regrets, 0.0), average), None

    start = (jnp.zeros(active.shape), jnp.zeros(payoffs.shape[1:]))
    (_, average), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    return average / average.sum()  # rounding errors accumulate over the steps


def solve_cce(payoffs: Array, active: Array) -> Array:
    """Computes the marginals of a coarse correlated equilibrium; in two-player zero-sum games a Nash equilibrium."""
    return jax.vmap(masked_normalize)(joint_marginals(regret_matching_joint(payoffs, active)), active)
