"""Counterfactual regret: one traversal of CFR or CFR+ over a whole tree.

The counterfactual value q(I, a) of an action is the product of chance and the others' reach, summed over the histories
of I and their successors. Averages are over the reach of whole sequences.
"""

from __future__ import annotations

import jax.numpy as jnp

from gems_jax.extensive.sequence_form import group_by_infoset, leaf_gains, sum_by_sequence, sweep_backward
from gems_jax.extensive.tables import reach, uniform_table
from gems_jax.extensive.tree import GameTree
from gems_jax.types import Array


def behavior_from_reach(tree: GameTree, weights: Array) -> Array:
    """Returns the table [I, A] whose reach is proportional to `weights` [I, A]; uniform at unreached sets."""
    total = weights.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), uniform_table(tree))


def regret_matching(tree: GameTree, regrets: Array) -> Array:
    """Computes the policy of regret matching, pi = R+ / sum R+, uniform if no regret is positive.

    Args:
      tree: the game.
      regrets: cumulative regrets R, [I, A].

    Returns:
      The table [I, A].
    """
    return behavior_from_reach(tree, jnp.where(tree.legal, jnp.maximum(regrets, 0.0), 0.0))


def counterfactual_values(tree: GameTree, policy: Array, weights: Array) -> Array:
    """Computes the counterfactual values q(I, a) when every player plays one table.

    Args:
      tree: the game.
      policy: the table, [I, A].
      weights: its `reach`, [Q].

    Returns:
      q, [I, A].
    """
    gains = leaf_gains(tree, weights[tree.leaf_sequence.T])
    return group_by_infoset(tree, sweep_backward(tree, sum_by_sequence(tree, gains), policy))


def cfr_walk(tree: GameTree, regrets: Array, average: Array, step: Array, plus: bool) -> tuple[Array, Array, Array]:
    """Runs one iteration of CFR or CFR+, every player in turn.

        R(I, a) += q(I, a) - sum_b pi(I, b) q(I, b),   pi = R+ / sum R+,   average += weight (reach of pi - average)

    Args:
      tree: the game, with one player per seat.
      regrets: cumulative regrets R, [I, A].
      average: weighted mean of the reach of sequences, [I, A].
      step: index of the iteration, from 1.
      plus: CFR+: clip regrets at 0, weight 2 / (step + 1) in the average instead of 1 / step.

    Returns:
      The new policy, regrets and average, [I, A] each.
    """
    weight = 2.0 / (step + 1.0) if plus else 1.0 / step  # in the running mean: iteration t weighs t, or 1
    policy = regret_matching(tree, regrets)
    for player in range(tree.num_players):
        own = (tree.seat == tree.seats_of(player)[0])[:, None]
        weights = reach(tree, policy)
        values = counterfactual_values(tree, policy, weights)
        moved = regrets + values - (policy * values).sum(axis=1, keepdims=True)
        regrets = jnp.where(own & tree.legal, jnp.maximum(moved, 0.0) if plus else moved, regrets)
        average = jnp.where(own, average + (group_by_infoset(tree, weights) - average) * weight, average)
        policy = jnp.where(own, regret_matching(tree, regrets), policy)
    return policy, regrets, average
