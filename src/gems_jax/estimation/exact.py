"""The meta-game without noise, for games that can be walked: what the Monte-Carlo estimators estimate."""

from __future__ import annotations

import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import Estimate, to_unit
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import anchor_values, population_mean
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game


def exact_values(game: Game, opponents: StackedPolicies, log_sigma: Array, active: Array) -> Estimate:
    """v and sigma . v of the game's tree, as an estimate without variance that took no episodes.

    opponents and log_sigma: [P, K]. Raises NotEnumerableError, before anything is traced, for other games.
    """
    tree = build_tree(game)
    sigma = jnp.exp(log_sigma)
    tables = policy_tables(tree, opponents, log_sigma.shape[1])
    values = to_unit(game, population_mean(tree, anchor_values(tree, tables, sigma)))
    values = jnp.where(active, values, 0.0)
    nothing = jnp.int32(0)
    return Estimate(
        values=values,
        variances=jnp.zeros_like(values),
        mixture_value=jnp.sum(sigma * values, axis=1),
        mixture_variance=jnp.zeros(values.shape[0], values.dtype),
        count=jnp.int32(1),
        episodes=nothing,
        env_steps=nothing,
    )
