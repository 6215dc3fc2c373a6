"""Two-player zero-sum games restricted for one population and unrestricted for its opponent.

Population q draws a policy from its mixture sigma over k given policies; the opponent may play any policy. The
opponent's payoff is linear in sigma and in its own plan y, the reach of its sequences:

    u_opponent(sigma, y) = sum_i sigma_i sums_i . y,      sums_i = `opponent_sums` of policy i, [Q]

`solve_restricted` solves min_sigma max_y exactly with a linear program in sequence form; `solve_by_no_regret`
approximates the solution in JAX. Both return the mixture and the opponent's plan. Where two players share a population,
the opponent takes either seat with probability 1/2, and y covers the sequences of both seats.
"""

from __future__ import annotations

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.sequence_form import group_by_infoset, leaf_gains, leaf_reach, sum_by_sequence, sweep_backward
from gems_jax.extensive.tables import mix, reach, uniform_table
from gems_jax.extensive.tree import GameTree
from gems_jax.meta.simplex import masked_log_softmax, masked_normalize
from gems_jax.types import Array

RULES = ("mwu", "rm_plus")


def opponent_sums(tree: GameTree, table: Array, population: int) -> Array:
    """Sums the opponent's payoff by its own last sequence when `population` plays a table.

    Args:
      tree: the game.
      table: policy of the population, [I, A].
      population: the restricted population.

    Returns:
      Sums [Q], so that the opponent earns sums . y with plan y.
    """
    chex.assert_shape(table, tree.legal.shape)
    weights = reach(tree, table)
    gains = leaf_gains(tree, jnp.stack([leaf_reach(tree, weights, player) for player in range(2)]))
    opposes = [tree.population_of_player[1 - player] == population for player in range(2)]
    return sum_by_sequence(tree, jnp.where(jnp.array(opposes)[:, None], gains, 0.0)) / sum(opposes)


def best_reply_value(tree: GameTree, sums: Array) -> Array:
    """Computes max_y sums . y, [], for sums [Q]."""
    return sweep_backward(tree, sums)[-tree.num_seats :].sum()


def inner_gap(tree: GameTree, sums: Array, active: Array, sigma: Array, plan: Array) -> Array:
    """Computes max_y u(sigma, y) - min_i u(i, plan), which is 0 at a solution.

    Args:
      tree: the game.
      sums: `opponent_sums` of every policy, [K, Q].
      active: [K] bool.
      sigma: the mixture, [K].
      plan: the opponent's plan, [Q].

    Returns:
      The gap, [].
    """
    against = jnp.einsum("kq,q->k", sums, plan, precision="highest")
    return best_reply_value(tree, mix(sigma, sums)) - jnp.min(against, initial=jnp.inf, where=active)


def plan_table(tree: GameTree, plan: Array) -> Array:
    """Returns the table [I, A] whose reach is the plan [Q]; uniform at sets that it never reaches."""
    weights = group_by_infoset(tree, plan)
    total = weights.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), uniform_table(tree))


def solve_restricted(tree: GameTree, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solves min_sigma max_y sum_i sigma_i sums_i . y by a linear program, on the host in float64.

    With v(I) the opponent's value of an information set, r its value of the game, in the variables (sigma, v, r):

        min r   subject to   sum_i sigma_i sums_i(s) + sum_{J after s} v(J) <= v(I of s)  for every sequence s

    and r instead of v for empty sequences. The plan is the dual.

    Args:
      tree: the game.
      sums: `opponent_sums` of k policies, [k, Q].

    Returns:
      sigma [k] and the plan y [Q].

    Raises:
      RuntimeError: if the linear program fails.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import coo_array, hstack

    (count, sequences), infosets, seats = sums.shape, tree.num_infosets, tree.num_seats
    values = infosets + seats  # v of every information set, then r of every seat
    infoset = np.arange(infosets)
    home = np.append(np.repeat(infoset, tree.num_actions), infosets + np.arange(seats))  # the value above a sequence
    shape = (sequences, values)
    above = coo_array((-np.ones(sequences), (np.arange(sequences), home)), shape=shape)
    below = coo_array((np.ones(infosets), (np.asarray(tree.parent), infoset)), shape=shape)
    legal = np.append(np.asarray(tree.legal).ravel(), np.ones(seats, bool))
    constraints = hstack([coo_array(np.asarray(sums, np.float64).T), above + below]).tocsr()[legal]
    simplex = np.append(np.ones(count), np.zeros(values))[None]
    solved = linprog(
        np.append(np.zeros(count + infosets), np.ones(seats)),
        A_ub=constraints,
        b_ub=np.zeros(constraints.shape[0]),
        A_eq=simplex,
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)] * values,
        method="highs",
    )
    if not solved.success:
        raise RuntimeError(f"linear program failed on a game restricted to {count} policies: {solved.message}")
    sigma = np.maximum(solved.x[:count], 0.0)
    plan = np.zeros(sequences)
    plan[legal] = np.maximum(-solved.ineqlin.marginals, 0.0)
    return sigma / sigma.sum(), plan


@partial(jax.jit, static_argnames="population")
def _all_sums(tree: GameTree, tables: Array, population: int) -> Array:
    return jax.vmap(lambda table: opponent_sums(tree, table, population))(tables)


def restricted_equilibrium(tree: GameTree, tables: Array, active: Array, population: int) -> tuple[Array, Array, Array]:
    """Solves the game restricted to the active policies exactly.

    Args:
      tree: the game.
      tables: policies, [K, I, A].
      active: [K] bool.
      population: the restricted population.

    Returns:
      sigma [K], the opponent's plan [Q] and the gap [].
    """
    sums, slots = _all_sums(tree, tables, population), np.nonzero(np.asarray(active))[0]
    masses, reaches = solve_restricted(tree, np.asarray(sums)[slots])
    sigma = jnp.zeros(active.shape).at[slots].set(jnp.asarray(masses, jnp.float32))
    plan = jnp.asarray(reaches, jnp.float32)
    return sigma, plan, inner_gap(tree, sums, active, sigma, plan)


def solve_by_no_regret(
    tree: GameTree, sums: Array, active: Array, rule: str, num_steps: int, step_size: float | Array = 0.1
) -> tuple[Array, Array]:
    """Approximates the restricted equilibrium by no-regret learning.

    sigma follows the rule, and the opponent best-responds to every iterate:

        mwu       log sigma_i += step_size * (-sums_i . y), averages with equal weights
        rm_plus   regret matching+, averages with weight t

    Args:
      tree: the game.
      sums: `opponent_sums` of every policy, [K, Q].
      active: [K] bool.
      rule: one of `RULES`.
      num_steps: number of iterates.
      step_size: of the rule mwu.

    Returns:
      Averages of sigma [K] and of the opponent's plan [Q].

    Raises:
      ValueError: if the rule is unknown.
    """
    chex.assert_shape(sums, (*active.shape, None))
    if rule not in RULES:
        raise ValueError(f"unknown no-regret rule {rule!r}; known: {', '.join(RULES)}")
    live = jnp.where(active[:, None], sums, 0.0)

    def mixture(score: Array) -> Array:
        if rule == "mwu":
            return jnp.exp(masked_log_softmax(score, active))
        return masked_normalize(score, active)

    def step(carry: tuple[Array, Array, Array], t: Array) -> tuple[tuple[Array, Array, Array], None]:
        score, average, plans = carry
        sigma = mixture(score)
        values = jnp.where(tree.legal, group_by_infoset(tree, sweep_backward(tree, mix(sigma, live))), -jnp.inf)
        plan = reach(tree, jax.nn.one_hot(jnp.argmax(values, axis=1), tree.num_actions))
        payoffs = -jnp.einsum("kq,q->k", live, plan, precision="highest")
        if rule == "mwu":
            score, weight = score + step_size * payoffs, 1.0 / t
        else:
            score = jnp.maximum(score + payoffs - jnp.sum(sigma * payoffs), 0.0)
            score, weight = jnp.where(active, score, 0.0), 2.0 / (t + 1.0)
        return (score, average + (sigma - average) * weight, plans + (plan - plans) * weight), None

    start = (jnp.zeros(active.shape), jnp.zeros(active.shape), jnp.zeros(sums.shape[1:]))
    (_, sigma, plan), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    return masked_normalize(sigma, active), plan
