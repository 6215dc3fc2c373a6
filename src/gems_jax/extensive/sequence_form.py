"""The sums that exact evaluation and the tabular methods are made of, on the sequence form of a `GameTree`.

Weights, reaches and values of sequences are [Q], Q = I A + S: one entry per information set and action, then one per
seat for its empty sequence. Forward along the levels stands in `tables.reach`, backward here.
"""

from __future__ import annotations

import chex
import jax.numpy as jnp

from gems_jax.extensive.tree import GameTree
from gems_jax.types import Array


def leaf_reach(tree: GameTree, weights: Array, player: int) -> Array:
    """[..., Q] reaches to [..., L]: a team plays one policy in all its seats."""
    product = jnp.ones((), weights.dtype)
    for seat in tree.seats_of(player):
        product = product * weights[..., tree.leaf_sequence[:, seat]]
    return product


def leaf_gains(tree: GameTree, reaches: Array) -> Array:
    """[players, L]: chance times the others' reach times the player's payoff: what its own reach is multiplied with.

    reaches: [players, L].
    """
    rows = []
    for player in range(tree.num_players):
        gain = tree.chance * tree.payoff[:, player]
        for other in range(tree.num_players):
            gain = gain if other == player else gain * reaches[other]
        rows.append(gain)
    return jnp.stack(rows)


def by_sequence(tree: GameTree, gains: Array) -> Array:
    """Leaf gains [players, L] added up by each seat's last sequence, [Q]."""
    sums = jnp.zeros(tree.num_infosets * tree.num_actions + tree.num_seats, gains.dtype)
    for seat, player in enumerate(tree.player_of_seat):
        sums = sums.at[tree.leaf_sequence[:, seat]].add(gains[player])
    return sums


def backward(tree: GameTree, sums: Array, table: Array | None = None) -> Array:
    """What each sequence leads to, [Q], for all seats at once, from `by_sequence` sums [Q].

    From there on the seat plays `table` [I, A], or without one the best it can: the last S entries, of the empty
    sequences, are then the seats' best-response values.
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


def by_infoset(tree: GameTree, values: Array) -> Array:
    """[..., Q] without the empty sequences, as [..., I, A]."""
    return values[..., : -tree.num_seats].reshape(*values.shape[:-1], *tree.legal.shape)
