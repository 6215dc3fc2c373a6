"""Counterfactual regret: one walk of CFR or CFR+ over a whole tree.

q(I, a) is the counterfactual value of an action: the product of chance and the others' reach, summed over the positions
of I and what is below them. Averages are of the reach of whole sequences.
"""

from __future__ import annotations

import jax.numpy as jnp

from gems_jax.extensive.sequence_form import backward, by_infoset, by_sequence, leaf_gains
from gems_jax.extensive.tables import reach, uniform_table
from gems_jax.extensive.tree import GameTree
from gems_jax.types import Array


def behaviour_of_reach(tree: GameTree, weights: Array) -> Array:
    """The table [I, A] whose reach is proportional to `weights` [I, A]; uniform at sets that are never reached."""
    total = weights.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), uniform_table(tree))


def regret_matching(tree: GameTree, regrets: Array) -> Array:
    """The table [I, A] in proportion to positive regrets, uniform where there are none."""
    return behaviour_of_reach(tree, jnp.where(tree.legal, jnp.maximum(regrets, 0.0), 0.0))


def counterfactual_values(tree: GameTree, policy: Array, weights: Array) -> Array:
    """q(I, a), [I, A], when everybody plays the table `policy` [I, A], whose `reach` is weights [Q]."""
    gains = leaf_gains(tree, weights[tree.leaf_sequence.T])
    return by_infoset(tree, backward(tree, by_sequence(tree, gains), policy))


def cfr_walk(tree: GameTree, regrets: Array, average: Array, step: Array, plus: bool) -> tuple[Array, Array, Array]:
    """Iteration `step` (from 1) of CFR or CFR+, every player in turn: the new policy, regrets and average, [I, A]."""
    weight = 2.0 / (step + 1.0) if plus else 1.0 / step  # of this iteration in the running mean: t, or 1
    policy = regret_matching(tree, regrets)
    for player in range(tree.num_players):
        own = (tree.seat == tree.seats_of(player)[0])[:, None]
        weights = reach(tree, policy)
        values = counterfactual_values(tree, policy, weights)
        moved = regrets + values - (policy * values).sum(axis=1, keepdims=True)
        regrets = jnp.where(own & tree.legal, jnp.maximum(moved, 0.0) if plus else moved, regrets)
        average = jnp.where(own, average + (by_infoset(tree, weights) - average) * weight, average)
        policy = jnp.where(own, regret_matching(tree, regrets), policy)
    return policy, regrets, average
