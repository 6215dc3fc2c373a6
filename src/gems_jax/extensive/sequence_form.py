"""Sums over the sequence form of a `GameTree`, shared by exact evaluation and the tabular methods.

Weights, reaches and values of sequences are [Q], Q = I A + S: one entry per information set and action, then one per
seat for its empty sequence. `tables.reach` sweeps forward along the levels, `sweep_backward` sweeps back.
"""

from __future__ import annotations

import chex
import jax.numpy as jnp

from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.walk import ALTERNATIVES
from gems_jax.types import Array, NotEnumerableError


def leaf_reach(tree: GameTree, weights: Array, player: int) -> Array:
    """Computes a player's reach of every leaf; a team plays one policy in all its seats.

    Args:
      tree: the game.
      weights: reach of sequences, [..., Q].
      player: the player.

    Returns:
      Reach of leaves, [..., L].
    """
    product = jnp.ones((), weights.dtype)
    for seat in tree.seats_of(player):
        product = product * weights[..., tree.leaf_sequence[:, seat]]
    return product


def leaf_gains(tree: GameTree, reaches: Array) -> Array:
    """Computes chance times the others' reach times the player's payoff at every leaf: the factor of its own reach.

    Args:
      tree: the game.
      reaches: reach of the leaves by player, [players, L].

    Returns:
      Gains [players, L].
    """
    rows = []
    for player in range(tree.num_players):
        gain = tree.chance * tree.payoff[:, player]
        for other in range(tree.num_players):
            gain = gain if other == player else gain * reaches[other]
        rows.append(gain)
    return jnp.stack(rows)


def sum_by_sequence(tree: GameTree, gains: Array) -> Array:
    """Sums leaf gains [players, L] by each seat's last sequence, [Q]."""
    sums = jnp.zeros(tree.num_infosets * tree.num_actions + tree.num_seats, gains.dtype)
    for seat, player in enumerate(tree.player_of_seat):
        sums = sums.at[tree.leaf_sequence[:, seat]].add(gains[player])
    return sums


def sweep_backward(tree: GameTree, sums: Array, table: Array | None = None) -> Array:
    """Computes the value of every sequence by one backward sweep, for all seats at once.

    Args:
      tree: the game.
      sums: `sum_by_sequence` of leaf gains, [Q].
      table: policy of the seat after the sequence, [I, A]; None for its best reply.

    Returns:
      Values [Q]. Without a table the last S entries, of the empty sequences, are the seats' best-response values.
    """
    chex.assert_shape(sums, (tree.num_infosets * tree.num_actions + tree.num_seats,))
    values = sums
    for start, stop in reversed(tree.levels):
        here = values[start * tree.num_actions : stop * tree.num_actions].reshape(stop - start, tree.num_actions)
        if table is None:
            worth = jnp.where(tree.legal[start:stop], here, -jnp.inf).max(axis=1)
        else:
            worth = (table[start:stop] * here).sum(axis=1)
        values = values.at[tree.parent[start:stop]].add(worth)
    return values


def group_by_infoset(tree: GameTree, values: Array) -> Array:
    """Reshapes values of sequences [..., Q] to [..., I, A], without the empty sequences."""
    return values[..., : -tree.num_seats].reshape(*values.shape[:-1], *tree.legal.shape)


def payoffs_from_reach(tree: GameTree, reaches: Array) -> Array:
    """Computes u_p = sum_l chance(l) prod_q R^q(l) payoff_p(l), [players], from reaches R [players, L]."""
    weight = tree.chance * jnp.prod(reaches, axis=0)
    return jnp.einsum("l,lp->p", weight, tree.payoff, precision="highest")


def action_values(tree: GameTree, gains: Array) -> Array:
    """Computes best-response action values q(I, a), [I, A], weighted by the others' reach; -inf if illegal."""
    return jnp.where(tree.legal, group_by_infoset(tree, sweep_backward(tree, sum_by_sequence(tree, gains))), -jnp.inf)


def deviation_gains(tree: GameTree, reaches: Array, mixed: Array) -> Array:
    """Computes BR_p - u_p, [players], as the sum of the `deviation_losses`."""
    return deviation_losses(tree, reaches, mixed).sum(axis=1)


def deviation_losses(tree: GameTree, reaches: Array, mixed: Array) -> Array:
    """Computes BR_p - u_p as non-negative losses at information sets.

    With q(I, a) the best-response action values, V(I) their maximum and x the reach of p's mixture, BR_p - u_p =
    sum_{I, a} x(I, a) (V(I) - q(I, a)). This avoids differences of large numbers and is exactly 0 for a best response.

    Args:
      tree: the game.
      reaches: reach of the leaves by the mixture of each player, [players, L].
      mixed: x of each player, [players, I, A], or [1, I, A] with the sequences of every seat's own player.

    Returns:
      Losses [players, I], whose sums are the gains.
    """
    refuse_teams(tree)
    values = action_values(tree, leaf_gains(tree, reaches))
    losses = jnp.where(tree.legal, values.max(axis=1, keepdims=True) - values, 0.0)
    own = jnp.stack([tree.seat == tree.seats_of(player)[0] for player in range(tree.num_players)])
    per_infoset = (mixed * losses[None]).sum(axis=2)
    return jnp.where(own, per_infoset, 0.0)


def refuse_teams(tree: GameTree) -> None:
    """Raises NotEnumerableError if players are teams."""
    if tree.num_players < tree.num_seats:
        raise NotEnumerableError(
            f"exact best responses of teams are not available: expected one player per seat, got "
            f"player_of_seat={tree.player_of_seat}. {ALTERNATIVES}"
        )
