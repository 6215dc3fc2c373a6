"""The error budget: the remaining exploitability as four exact terms, beside the Monte-Carlo error.

Let f be the value of a policy against the others' mixture, v_i = f(anchor i), and z* the oracle's choice from its pool:

    BR - u(sigma) = [BR - max f]                          best_response_gap: no proposed policy is good enough
                  + [max f - max(f(z*), max_i v_i)]       oracle_gap: a better candidate was proposed than chosen
                  + [max(f(z*), max_i v_i) - max_i v_i]   newcomer_gain: the chosen candidate has no mass yet
                  + [max_i v_i - sigma . v]               meta_regret: sigma is not the best mixture of the anchors

where max f runs over the pool and the anchors. Every term is non-negative, and the sum is an identity. The paper's
decomposition eq:inst_decomp does not hold as an inequality. f is evaluated before the generator is trained.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.values import (
    anchor_values,
    best_response_values,
    player_gains_of_mixture,
    population_mean,
    values_against,
)
from gems_jax.types import Array, Struct


class ErrorBudget(Struct):
    """Terms of the error budget, [players] each, in units of returns."""

    best_response_gap: Array
    oracle_gap: Array
    newcomer_gain: Array
    meta_regret: Array
    monte_carlo_error: Array  # max over active anchors of |v-hat - v|; not part of the sum
    total: Array  # BR - u(sigma), computed independently of the four terms


@jax.jit
def error_budget(
    tree: GameTree,
    *,
    tables_anchors: Array,
    active: Array,
    sigma: Array,
    tables_pool: Array,
    chosen: Array,
    estimated_values: Array,
) -> ErrorBudget:
    """Computes the error budget of one iteration exactly; the module docstring has the identity.

    Args:
      tree: the game.
      tables_anchors: policies of the played population, [P, K, I, A].
      active: which slots hold an anchor, [P, K] bool.
      sigma: the played mixture, [P, K], without mass on inactive slots.
      tables_pool: the oracle's candidates, [P, C, I, A]; C may be 0.
      chosen: index of z* in the pool, [P] int32; -1 if nothing was added.
      estimated_values: v-hat in units of returns, [P, K]. Where players share a population, v-hat estimates the mean of
        their values and is compared with that mean.

    Returns:
      The terms, [players] each.
    """
    chex.assert_shape(tables_anchors, (*sigma.shape, *tree.legal.shape))
    chex.assert_equal_shape([active, sigma, estimated_values])
    chex.assert_shape(tables_pool, (tree.num_populations, None, *tree.legal.shape))
    chex.assert_shape(chosen, (tree.num_populations,))
    owner = jnp.array(tree.population_of_player)
    values = anchor_values(tree, tables_anchors, sigma)  # [players, K]
    best_anchor = jnp.where(active[owner], values, -jnp.inf).max(axis=1)
    played = (sigma[owner] * values).sum(axis=1)
    if tables_pool.shape[1]:
        pool = values_against(tree, tables_pool, tables_anchors, sigma)  # [players, C]
        of_chosen = jnp.take_along_axis(pool, jnp.maximum(chosen[owner], 0)[:, None], axis=1)[:, 0]
        best_retained = jnp.where(chosen[owner] >= 0, jnp.maximum(of_chosen, best_anchor), best_anchor)
        best_proposed = jnp.maximum(pool.max(axis=1), best_anchor)
    else:
        best_retained = best_proposed = best_anchor
    best = best_response_values(tree, tables_anchors, sigma)
    error = jnp.where(active, jnp.abs(estimated_values - population_mean(tree, values)), 0.0).max(axis=1)
    return ErrorBudget(
        best_response_gap=jnp.maximum(best - best_proposed, 0.0),  # rounding could make it negative
        oracle_gap=best_proposed - best_retained,
        newcomer_gain=best_retained - best_anchor,
        meta_regret=jnp.maximum(best_anchor - played, 0.0),
        monte_carlo_error=error[owner],
        total=player_gains_of_mixture(tree, tables_anchors, sigma),
    )
