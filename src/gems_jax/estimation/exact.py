"""The exact meta-game of enumerable games, which the Monte-Carlo estimators estimate."""

from __future__ import annotations

import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import Estimate, empty_estimate, to_unit
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import anchor_values, population_mean
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game


def exact_values(game: Game, opponents: StackedPolicies, log_sigma: Array, active: Array) -> Estimate:
    """Computes the exact values v and r of the meta-game on the game's tree, as an estimate without variance.

        v_i = (M sigma)_i,   r = sigma . v        (expectations of eq:mc-estimators_revised)

    Args:
      game: an enumerable game.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].

    Returns:
      An `Estimate` of 0 episodes that is 0 on inactive slots.

    Raises:
      NotEnumerableError: if the game is not enumerable, before anything is traced.
    """
    tree = build_tree(game)
    sigma = jnp.exp(log_sigma)
    tables = policy_tables(tree, opponents, log_sigma.shape[1])
    values = to_unit(game, population_mean(tree, anchor_values(tree, tables, sigma)))
    values = jnp.where(active, values, 0.0)
    mixture_value = jnp.sum(sigma * values, axis=1)
    return empty_estimate(*values.shape).replace(values=values, mixture_value=mixture_value, count=jnp.int32(1))
