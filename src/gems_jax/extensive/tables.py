"""Policies as tables of action probabilities at every information set, and how far they reach.

A *table* is [I, A], at the information sets of every seat. The *reach* of a sequence is the product of a table's
probabilities of the moves that it is made of (its realization weight).
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.tree import GameTree
from gems_jax.types import Apply, Array, NotEnumerableError, Population, PyTree


@jax.jit
def reach(tree: GameTree, table: Array) -> Array:
    """[Q] with Q = I A + S: the product of a table's own probabilities along every sequence (1 for empty ones)."""
    chex.assert_shape(table, tree.legal.shape)
    weights = [jnp.ones((tree.num_seats,), table.dtype)]
    before = tree.num_infosets * tree.num_actions  # where the level above begins; the first hangs on empty sequences
    for start, stop in tree.levels:
        arrival = weights[-1].reshape(-1)[tree.parent[start:stop] - before]
        weights.append(table[start:stop] * arrival[:, None])
        before = start * tree.num_actions
    return jnp.concatenate([level.reshape(-1) for level in (*weights[1:], weights[0])])


def mix(sigma: Array, values: Array) -> Array:
    """sum_k sigma_k values[k, ...]."""
    return jnp.einsum("k,k...->...", sigma, values, precision="highest")


@jax.jit
def uniform_table(tree: GameTree) -> Array:
    """[I, A], every legal action alike."""
    return tree.legal / tree.legal.sum(axis=1, keepdims=True)


def behaviour(tree: GameTree, apply: Apply, params: PyTree) -> Array:
    """The table [I, A] of one policy: `apply` at every information set; illegal actions get probability 0."""
    logits = jax.vmap(lambda observation, legal: apply(params, observation, legal).logits)(tree.observation, tree.legal)
    if logits is None or logits.shape != tree.legal.shape:
        got = "no logits" if logits is None else f"logits of shape {logits.shape[1:]}"
        raise ValueError(f"The policy gives {got}; the game has {tree.num_actions} discrete actions.")
    probs = jax.nn.softmax(jnp.where(tree.legal, logits, -jnp.inf), axis=-1)
    return jnp.where(tree.legal, probs, 0.0)


def policy_tables(tree: GameTree, population: Population, num_slots: int) -> Array:
    """Tables [P, K, I, A] of the first `num_slots` policies of populations with a leading axis P."""
    slots = jnp.arange(num_slots)

    def of_population(one: Population) -> Array:
        return jax.vmap(lambda slot: behaviour(tree, one.apply, one.select(slot)))(slots)

    return jax.vmap(of_population)(population)


@jax.jit
def mixture_to_behaviour(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """One policy [I, A] that plays like the mixture sigma [K] over tables [K, I, A], at the sets of every seat.

    pibar(a|I) = sum_i sigma_i rho_i(I) pi_i(a|I) / sum_i sigma_i rho_i(I), uniform where the mixture never gets.
    """
    chex.assert_shape(tables, (sigma.shape[0], *tree.legal.shape))
    if tree.num_players < tree.num_seats:
        raise NotEnumerableError("A mixture of team policies correlates its seats: no behaviour policy plays like it.")
    weights = jax.vmap(lambda table: reach(tree, table))(tables)[:, : -tree.num_seats]
    weight = mix(sigma, weights).reshape(tree.legal.shape)
    total = weight.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), uniform_table(tree))
