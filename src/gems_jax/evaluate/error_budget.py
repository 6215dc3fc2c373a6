"""Where the remaining exploitability comes from: four exact terms, and the Monte-Carlo error beside them.

With f the value of a policy against the others' mixture, v_i = f(anchor i), the pool of the oracle and its choice z*,

    BR - u(sigma) = [BR - max f]                          best_response_gap: nothing that was proposed is good enough
                  + [max f - max(f(z*), max_i v_i)]       oracle_gap: something better was proposed than was chosen
                  + [max(f(z*), max_i v_i) - max_i v_i]   newcomer_gain: what was chosen is not yet in the mixture
                  + [max_i v_i - sigma . v]               meta_regret: sigma is not yet a best mixture of the anchors

where max f runs over the pool and the anchors. Every term is non-negative, and the sum is an identity; the
decomposition printed as eq:inst_decomp does not hold as an inequality. f is taken before the generator is trained on.
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
    """All [players], in units of returns."""

    best_response_gap: Array
    oracle_gap: Array
    newcomer_gain: Array
    meta_regret: Array
    monte_carlo_error: Array  # max over active anchors of |v-hat - v|; not part of the sum
    total: Array  # BR - u(sigma), computed apart from the four


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
    """The budget of one iteration.

    tables_anchors [P, K, I, A], active [P, K] and sigma [P, K] (no mass on inactive slots) are the population that was
    played; tables_pool [P, C, I, A] the candidates (C may be 0); chosen [P] the index of z* in the pool, -1 when
    nothing was added; estimated_values [P, K] are v-hat in units of returns. Where several players share a population,
    v-hat estimates the mean of their values, and is compared with that.
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
        best_kept = jnp.where(chosen[owner] >= 0, jnp.maximum(of_chosen, best_anchor), best_anchor)
        best_proposed = jnp.maximum(pool.max(axis=1), best_anchor)
    else:
        best_kept = best_proposed = best_anchor
    best = best_response_values(tree, tables_anchors, sigma)
    error = jnp.where(active, jnp.abs(estimated_values - population_mean(tree, values)), 0.0).max(axis=1)
    return ErrorBudget(
        best_response_gap=jnp.maximum(best - best_proposed, 0.0),  # rounding must not make it negative
        oracle_gap=best_proposed - best_kept,
        newcomer_gain=best_kept - best_anchor,
        meta_regret=jnp.maximum(best_anchor - played, 0.0),
        monte_carlo_error=error[owner],
        total=player_gains_of_mixture(tree, tables_anchors, sigma),
    )
