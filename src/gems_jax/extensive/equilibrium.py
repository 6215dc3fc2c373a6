"""Exact equilibria of two-player zero-sum games in sequence form, by one linear program on the host."""

from __future__ import annotations

import numpy as np

from gems_jax.extensive.tree import GameTree


def solve_sequence_form(tree: GameTree) -> np.ndarray:
    """Computes a Nash equilibrium as the reach of every sequence of both players.

    With x the first player's reach, v(I) the second player's value of an information set and r its value of the game:

        min r   subject to   sum_l chance u_2 x (over the leaves l after s) + sum_{J after s} v(J) <= v(I of s)
                             sum_a x(I, a) = x(the sequence before I),   x >= 0

    for every sequence s of the second player, with r instead of v for its empty sequence. The second player's reach is
    the dual. Equilibria need not be unique: the result is a vertex.

    Args:
      tree: the game. Only legal actions are used: `tree.replace(legal=...)` with fewer of them is a restricted game.

    Returns:
      The reach of every sequence, [Q] float64.

    Raises:
      RuntimeError: if the linear program fails.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import coo_array, hstack

    infosets, actions, seats = tree.num_infosets, tree.num_actions, tree.num_seats
    sequences = infosets * actions + seats
    seat_of = np.append(np.repeat(np.asarray(tree.seat), actions), np.arange(seats))
    legal = np.append(np.asarray(tree.legal).ravel(), np.ones(seats, bool))
    home = np.append(np.repeat(np.arange(infosets), actions), infosets + np.arange(seats))  # the value above a sequence
    parent, seat = np.asarray(tree.parent), np.asarray(tree.seat)
    first, second = (tree.seats_of(player)[0] for player in range(2))

    ends = np.asarray(tree.leaf_sequence)
    gain = np.asarray(tree.chance, np.float64) * np.asarray(tree.payoff, np.float64)[:, 1]
    payoff = coo_array((gain, (ends[:, second], ends[:, first])), shape=(sequences, sequences))
    rows = np.arange(sequences)
    values = infosets + seats
    above = coo_array((-np.ones(sequences), (rows, home)), shape=(sequences, values))
    below = coo_array((np.ones(infosets), (parent, np.arange(infosets))), shape=(sequences, values))
    replies = np.nonzero(legal & (seat_of == second))[0]
    constraints = hstack([payoff, above + below]).tocsr()[replies]

    own = np.nonzero(seat == first)[0]
    taken = coo_array((np.ones(sequences), (home, rows)), shape=(values, sequences)).tocsr()[own]
    before = coo_array((np.ones(len(own)), (np.arange(len(own)), parent[own])), shape=(len(own), sequences))
    flow = hstack([taken - before, coo_array((len(own), values))])
    mine = legal & (seat_of == first)
    solved = linprog(
        np.eye(sequences + values)[sequences + infosets + second],
        A_ub=constraints,
        b_ub=np.zeros(len(replies)),
        A_eq=flow,
        b_eq=np.zeros(len(own)),
        bounds=[
            *((float(s == infosets * actions + first), 1.0 if mine[s] else 0.0) for s in rows),
            *[(None, None)] * values,
        ],
        method="highs",
    )
    if not solved.success:
        raise RuntimeError(f"linear program failed on a game of {infosets} information sets: {solved.message}")
    reach = np.where(mine, np.maximum(solved.x[:sequences], 0.0), 0.0)
    reach[replies] = np.maximum(-solved.ineqlin.marginals, 0.0)
    return reach
