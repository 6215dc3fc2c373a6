"""What a generator forgot while it learned, and how many different policies a population really holds.

A generator that is trained on new anchors moves the old ones too. `policy_drift` measures by how much the play of an
anchor has changed since it was inserted, `value_drift` what that did to its value, both exactly, on tables [I, A].
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.tables import reach, uniform_table
from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.values import values_against
from gems_jax.types import Array

_FLOOR = 1e-9  # probabilities below this count as this: a divergence is then at most -log(1e-9), about 21


def outside_reach(tree: GameTree) -> Array:
    """[I]: the probability that chance and the other seats lead to an information set whose owner heads for it.

    The other seats play uniformly at random: nobody's current play decides what counts as forgotten.
    """
    uniform = reach(tree, uniform_table(tree))
    way = tree.chance * jnp.prod(uniform[tree.leaf_sequence], axis=1)  # [L] under uniform play of everybody
    mass = jnp.zeros_like(uniform)
    for seat in range(tree.num_seats):
        mass = mass.at[tree.leaf_sequence[:, seat]].add(way)
    for start, stop in reversed(tree.levels):
        below = mass[start * tree.num_actions : stop * tree.num_actions].reshape(stop - start, tree.num_actions)
        mass = mass.at[tree.parent[start:stop]].add(below.sum(axis=1))
    visits = mass[: -tree.num_seats].reshape(tree.legal.shape).sum(axis=1)
    return visits / uniform[tree.parent]  # a set's own share of the way there is taken out again


def visit_weights(tree: GameTree, table: Array, player: int) -> Array:
    """[I], summing to one: how often each of the player's information sets comes up when it plays `table` [I, A].

    Its own moves follow the table; chance follows the deal; the other seats move uniformly at random. Sets that leave
    no choice count for nothing. All zero when the player never has a choice.
    """
    chex.assert_shape(table, tree.legal.shape)
    own = jnp.isin(tree.seat, jnp.array(tree.seats_of(player)))
    choice = own & (tree.legal.sum(axis=1) > 1)
    weights = jnp.where(choice, reach(tree, table)[tree.parent] * outside_reach(tree), 0.0)
    total = weights.sum()
    return weights / jnp.where(total > 0, total, 1.0)


@jax.jit
def policy_drift(tree: GameTree, inserted: Array, now: Array) -> Array:
    """KL(pi at insertion || pi now), [P, K], averaged over the information sets that the inserted policy visits.

    inserted, now: tables [P, K, I, A]. The weights are `visit_weights` of the inserted policy; a population that
    supplies several players averages over them.
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
    """Value now minus value at insertion, [players, K], against one fixed mixture.

    inserted, now: tables [P, K, I, A]; the mixture: tables [P, N, I, A] and sigma [P, N].
    """
    before, after = (values_against(tree, policies, tables, sigma) for policies in (inserted, now))
    return after - before


def similarity(tables: Array, infoset_weights: Array) -> Array:
    """s_ij, [K, K]: the Bhattacharyya coefficient sum_a sqrt(pi_i(a|I) pi_j(a|I)), averaged over information sets.

    1 for policies that play alike wherever the weights [I] (summing to one) look, 0 for those that never agree.
    """
    chex.assert_rank([tables, infoset_weights], [3, 1])
    root = jnp.sqrt(tables)
    return jnp.einsum("i,kia,jia->kj", infoset_weights, root, root, precision="highest")


@jax.jit
def effective_policies(tables: Array, sigma: Array, infoset_weights: Array) -> Array:
    """The effective number of distinct policies, []: 1 / sum_ij sigma_i sigma_j s_ij.

    tables: [K, I, A]; sigma: [K] weights that sum to one (a mixture, or uniform over the active slots);
    infoset_weights: [I], which information sets count how much, normalised here (`infoset_choices` for all alike).
    k copies of one policy count as 1, k deterministic policies that never agree, equally weighted, as k.
    """
    chex.assert_shape(sigma, (tables.shape[0],))
    chex.assert_shape(infoset_weights, (tables.shape[1],))
    agreement = similarity(tables, infoset_weights / infoset_weights.sum())
    return 1.0 / jnp.einsum("i,j,ij->", sigma, sigma, agreement, precision="highest")


def infoset_choices(tree: GameTree, population: int) -> Array:
    """[I], summing to one: the information sets where a population's players have a choice, all alike."""
    seats = [s for s, player in enumerate(tree.player_of_seat) if tree.population_of_player[player] == population]
    choice = jnp.isin(tree.seat, jnp.array(seats)) & (tree.legal.sum(axis=1) > 1)
    return choice / jnp.maximum(choice.sum(), 1)
