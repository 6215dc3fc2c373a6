"""Policies as tables of action probabilities at every information set, and their reach.

A *table* is [I, A], at the information sets of every seat. The *reach* of a sequence is the product of the table's
probabilities of its moves (its realization weight).
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.tree import GameTree
from gems_jax.types import Apply, Array, NotEnumerableError, Population, PyTree


@jax.jit
def reach(tree: GameTree, table: Array) -> Array:
    """Computes the product of a table's own probabilities along every sequence, [Q], 1 for empty sequences."""
    chex.assert_shape(table, tree.legal.shape)
    weights = [jnp.ones((tree.num_seats,), table.dtype)]
    before = tree.num_infosets * tree.num_actions  # start of the level above, first the empty sequences
    for start, stop in tree.levels:
        arrival = weights[-1].reshape(-1)[tree.parent[start:stop] - before]
        weights.append(table[start:stop] * arrival[:, None])
        before = start * tree.num_actions
    return jnp.concatenate([level.reshape(-1) for level in (*weights[1:], weights[0])])


def mix(sigma: Array, values: Array) -> Array:
    """Computes sum_k sigma_k values[k, ...]."""
    return jnp.einsum("k,k...->...", sigma, values, precision="highest")


@jax.jit
def uniform_table(tree: GameTree) -> Array:
    """Returns the table [I, A] of uniform play."""
    return tree.legal / tree.legal.sum(axis=1, keepdims=True)


def behavior_table(tree: GameTree, apply: Apply, params: PyTree) -> Array:
    """Computes the table of one policy by applying it at every information set.

    Args:
      tree: the game.
      apply: `apply(params, observation, legal)` of the network.
      params: its parameters.

    Returns:
      Action probabilities [I, A], 0 for illegal actions.

    Raises:
      ValueError: if the policy does not return one logit per action.
    """
    return play_observations(tree.observation, tree.legal, apply, params)


def play_observations(observation: Array, legal: Array, apply: Apply, params: PyTree) -> Array:
    """Computes the action probabilities of one policy at n observations.

    Args:
      observation: [n, *obs].
      legal: legal actions, [n, A].
      apply: `apply(params, observation, legal)` of the network.
      params: its parameters.

    Returns:
      Action probabilities [n, A], 0 for illegal actions.

    Raises:
      ValueError: if the policy does not return one logit per action.
    """
    logits = jax.vmap(lambda observation, legal: apply(params, observation, legal).logits)(observation, legal)
    if logits is None or logits.shape != legal.shape:
        got = "no logits" if logits is None else f"logits of shape {logits.shape[1:]}"
        raise ValueError(f"policy does not fit the game: expected {legal.shape[1]} logits, got {got}.")
    probs = jax.nn.softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
    return jnp.where(legal, probs, 0.0)


def policy_tables(tree: GameTree, population: Population, num_slots: int) -> Array:
    """Computes the tables of the first policies of every population.

    Args:
      tree: the game.
      population: populations with a leading axis P.
      num_slots: number of policies K.

    Returns:
      Tables [P, K, I, A].
    """
    slots = jnp.arange(num_slots)

    def of_population(one: Population) -> Array:
        return jax.vmap(lambda slot: behavior_table(tree, one.apply, one.select(slot)))(slots)

    return jax.vmap(of_population)(population)


@jax.jit
def mixture_to_behavior(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes the behavior policy that is realization-equivalent to a mixture.

        pibar(a|I) = sum_i sigma_i rho_i(I) pi_i(a|I) / sum_i sigma_i rho_i(I)

    with rho_i(I) the reach of policy i, and uniform play at sets that the mixture never reaches.

    Args:
      tree: the game.
      tables: policies, [K, I, A].
      sigma: the mixture, [K].

    Returns:
      One table [I, A] for the information sets of every seat.

    Raises:
      NotEnumerableError: if players are teams.
    """
    chex.assert_shape(tables, (sigma.shape[0], *tree.legal.shape))
    if tree.num_players < tree.num_seats:
        raise NotEnumerableError("no behavior policy plays like a mixture of team policies, which correlates seats.")
    weights = jax.vmap(lambda table: reach(tree, table))(tables)[:, : -tree.num_seats]
    weight = mix(sigma, weights).reshape(tree.legal.shape)
    total = weight.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), uniform_table(tree))
