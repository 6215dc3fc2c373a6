"""Forgetting of a generator while it learns, and the effective number of distinct policies of a population.

Training a generator on new anchors also moves the old ones. `policy_drift` measures how much the policy of an anchor
has changed since its insertion, `value_drift` how much its value has changed. Both are exact, on tables [I, A].
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.tables import reach, uniform_table
from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.values import values_against
from gems_jax.types import Array

_FLOOR = 1e-9  # smallest probability in a logarithm: a divergence is then at most -log(1e-9), about 21


def outside_reach(tree: GameTree) -> Array:
    """Computes the reach of every information set by chance and the other seats, [I].

    The set's owner moves towards it with probability 1, the other seats play uniformly at random. The weights therefore
    do not depend on anybody's current policy.
    """
    uniform = reach(tree, uniform_table(tree))
    way = tree.chance * jnp.prod(uniform[tree.leaf_sequence], axis=1)  # [L] under uniform play of all seats
    mass = jnp.zeros_like(uniform)
    for seat in range(tree.num_seats):
        mass = mass.at[tree.leaf_sequence[:, seat]].add(way)
    for start, stop in reversed(tree.levels):
        below = mass[start * tree.num_actions : stop * tree.num_actions].reshape(stop - start, tree.num_actions)
        mass = mass.at[tree.parent[start:stop]].add(below.sum(axis=1))
    visits = mass[: -tree.num_seats].reshape(tree.legal.shape).sum(axis=1)
    return visits / uniform[tree.parent]  # divide by the owner's own reach


def visit_weights(tree: GameTree, table: Array, player: int) -> Array:
    """Computes how often each information set of a player is visited when it plays a table, [I], summing to one.

    Args:
      tree: the game.
      table: the player's policy, [I, A]. Chance plays as dealt, the other seats uniformly at random.
      player: whose information sets count. Sets with a single legal action have weight 0.

    Returns:
      Weights [I]; all zero if the player never has a choice.
    """
    chex.assert_shape(table, tree.legal.shape)
    own = jnp.isin(tree.seat, jnp.array(tree.seats_of(player)))
    choice = own & (tree.legal.sum(axis=1) > 1)
    weights = jnp.where(choice, reach(tree, table)[tree.parent] * outside_reach(tree), 0.0)
    total = weights.sum()
    return weights / jnp.where(total > 0, total, 1.0)


@jax.jit
def policy_drift(tree: GameTree, inserted: Array, now: Array) -> Array:
    """Computes KL(pi at insertion || pi now), averaged over the information sets that the inserted policy visits.

    Args:
      tree: the game.
      inserted: policies at their insertion, [P, K, I, A]. Their `visit_weights` are the weights of the average.
      now: policies now, [P, K, I, A].

    Returns:
      Divergence in nats, [P, K]: a mean over the players that the population supplies.
    """
    chex.assert_equal_shape([inserted, now])
    chex.assert_shape(now, (tree.num_populations, None, *tree.legal.shape))
    log_ratio = jnp.log(jnp.maximum(inserted, _FLOOR)) - jnp.log(jnp.maximum(now, _FLOOR))
    divergence = jnp.maximum(jnp.where(inserted > 0, inserted * log_ratio, 0.0).sum(axis=-1), 0.0)  # [P, K, I]
    rows = []
    for population in range(tree.num_populations):
        players = [player for player, owner in enumerate(tree.population_of_player) if owner == population]
        weights = [jax.vmap(lambda t, p=p: visit_weights(tree, t, p))(inserted[population]) for p in players]
        rows.append((jnp.stack(weights).mean(axis=0) * divergence[population]).sum(axis=-1))
    return jnp.stack(rows)


@jax.jit
def value_drift(tree: GameTree, inserted: Array, now: Array, tables: Array, sigma: Array) -> Array:
    """Computes the value now minus the value at insertion, both against one fixed mixture.

    Args:
      tree: the game.
      inserted: policies at their insertion, [P, K, I, A].
      now: policies now, [P, K, I, A].
      tables: policies of the mixture, [P, N, I, A].
      sigma: the mixture, [P, N].

    Returns:
      Differences [players, K].
    """
    before, after = (values_against(tree, policies, tables, sigma) for policies in (inserted, now))
    return after - before


def similarity(tables: Array, infoset_weights: Array) -> Array:
    """Computes the mean Bhattacharyya coefficient s_ij = sum_a sqrt(pi_i(a|I) pi_j(a|I)) of every two policies.

    Args:
      tables: policies, [K, I, A].
      infoset_weights: weights of the information sets, [I], summing to one.

    Returns:
      s [K, K]: 1 for policies that are identical where the weights are positive, 0 for policies that never agree.
    """
    chex.assert_rank([tables, infoset_weights], [3, 1])
    root = jnp.sqrt(tables)
    return jnp.einsum("i,kia,jia->kj", infoset_weights, root, root, precision="highest")


@jax.jit
def effective_policies(tables: Array, sigma: Array, infoset_weights: Array) -> Array:
    """Computes the effective number of distinct policies, 1 / sum_ij sigma_i sigma_j s_ij.

    k copies of one policy count as 1; k deterministic policies that never agree, with equal weights, count as k.

    Args:
      tables: policies, [K, I, A].
      sigma: weights that sum to one, [K]: a mixture, or uniform over the active slots.
      infoset_weights: weights of the information sets, [I], normalized here; `infoset_choices` weighs them uniformly.

    Returns:
      The number, [].
    """
    chex.assert_shape(sigma, (tables.shape[0],))
    chex.assert_shape(infoset_weights, (tables.shape[1],))
    agreement = similarity(tables, infoset_weights / infoset_weights.sum())
    return 1.0 / jnp.einsum("i,j,ij->", sigma, sigma, agreement, precision="highest")


def infoset_choices(tree: GameTree, population: int) -> Array:
    """Returns uniform weights [I] over the information sets where a population's players have a choice."""
    seats = [s for s, player in enumerate(tree.player_of_seat) if tree.population_of_player[player] == population]
    choice = jnp.isin(tree.seat, jnp.array(seats)) & (tree.legal.sum(axis=1) > 1)
    return choice / jnp.maximum(choice.sum(), 1)
