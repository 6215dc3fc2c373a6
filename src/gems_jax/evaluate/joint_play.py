"""Distance of a run's joint play from a coarse correlated equilibrium, exact on enumerable games.

The players of iteration t draw independently from sigma_t. Over the run this gives the joint play

    mu(i_1, ..., i_n) = 1/T sum_t prod_p sigma_t^p(i_p)                     (eq:n_player_cce_omwu and before)

which time correlates. A player's *regret* is the gain of its best fixed policy over what it earned, and the CCE gap is
the sum of the positive regrets. The generator changes while anchor ids stay, so there are two versions:

    as played    the policies as they were in their iteration. `MeanPlay` stores the time average of the factor of a
                 player's own reach at every leaf, [players, L]: sufficient for regrets with any number of players
    by id        mu over anchor ids, [K, ..., K], with the policies that the current generator makes of them

A deviation is any policy of the game, or one of the current anchors.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.sequence_form import leaf_reach
from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.values import all_reaches, anchor_values, best_values, exact_mixture_returns, mixture_gains
from gems_jax.meta.cce import product_distribution
from gems_jax.types import Array, Struct

MAX_JOINT = 2**20  # largest number of entries of a stored joint distribution over anchors


class MeanPlay(Struct):
    """The time average of play so far: sufficient to evaluate any deviation."""

    gains: Array  # [players, L], chance times the others' reach times the player's payoff
    values: Array  # [players], what they earned
    count: Array  # [] int32, iterations

    @classmethod
    def zeros(cls, tree: GameTree) -> MeanPlay:
        """Returns the average over no iterations."""
        players = tree.num_players
        return cls(jnp.zeros((players, tree.num_leaves)), jnp.zeros(players), jnp.int32(0))


@jax.jit
def add_play(tree: GameTree, play: MeanPlay, tables: Array, sigma: Array) -> MeanPlay:
    """Adds one iteration to the time average of play.

    Args:
      tree: the game.
      play: the average so far.
      tables: policies of the iteration, [P, K, I, A].
      sigma: the mixture that every player drew from, [P, K].

    Returns:
      The new average.
    """
    count = play.count + 1
    gains = play.gains + (mixture_gains(tree, tables, sigma) - play.gains) / count
    values = play.values + (exact_mixture_returns(tree, tables, sigma) - play.values) / count
    return MeanPlay(gains, values, count)


@jax.jit
def regrets(tree: GameTree, play: MeanPlay) -> Array:
    """Computes each player's gain from its best fixed policy of the game over what it earned, [players]."""
    return best_values(tree, play.gains) - play.values


@jax.jit
def anchor_regrets(tree: GameTree, play: MeanPlay, tables: Array, active: Array) -> Array:
    """Computes each player's gain from its best fixed active anchor over what it earned.

    Args:
      tree: the game.
      play: the average of the run's play.
      tables: policies of the anchors, [P, K, I, A].
      active: [P, K] bool.

    Returns:
      Regrets [players].
    """
    chex.assert_shape(tables, (*active.shape, *tree.legal.shape))
    weights = _reaches(tree, tables)
    rows = [
        jnp.max(jnp.where(active[owner], _sum("kl,l->k", weights[player], play.gains[player]), -jnp.inf))
        for player, owner in enumerate(tree.population_of_player)
    ]
    return jnp.stack(rows) - play.values


@jax.jit
def restricted_gains(tree: GameTree, tables: Array, sigma: Array, active: Array) -> Array:
    """Computes max_i v_i - sigma . v over the active anchors (eq:exploit_revised).

    Args:
      tree: the game.
      tables: policies of the anchors, [P, K, I, A].
      sigma: the mixture, [P, K].
      active: [P, K] bool.

    Returns:
      Gains [players], 0 at a restricted equilibrium.
    """
    values, owner = anchor_values(tree, tables, sigma), jnp.array(tree.population_of_player)
    best = jnp.where(active[owner], values, -jnp.inf).max(axis=1)
    return jnp.maximum(best - (sigma[owner] * values).sum(axis=1), 0.0)


def sum_positive_regrets(regret: Array) -> Array:
    """Computes the CCE gap sum_p max(0, regret_p), []."""
    return jnp.maximum(regret, 0.0).sum()


# --- the joint play by anchor id


def joint_fits(tree: GameTree, num_slots: int) -> bool:
    """Returns whether a joint distribution over anchors is small enough to be stored."""
    return num_slots**tree.num_players <= MAX_JOINT


def add_joint(tree: GameTree, joint: Array, count: Array, sigma: Array, fresh: Array) -> Array:
    """Adds one iteration to the joint distribution mu over anchor ids.

    Mass of replaced anchors is dropped and the rest renormalized. If nothing remains, the average restarts.

    Args:
      tree: the game.
      joint: mu so far, [K, ..., K].
      count: iterations in `joint`, [] int32.
      sigma: the mixture of this iteration, [P, K].
      fresh: slots whose anchor is new, [P, K] bool; they inherit no mass.

    Returns:
      The new mu, [K, ..., K].
    """
    retained = joint
    for player, owner in enumerate(tree.population_of_player):
        shape = [1] * joint.ndim
        shape[player] = joint.shape[player]
        retained = jnp.where(fresh[owner].reshape(shape), 0.0, retained)
    total = retained.sum()
    now = product_distribution(sigma[jnp.array(tree.population_of_player)])
    past = jnp.where(total > 0.0, retained / jnp.where(total > 0.0, total, 1.0), now)
    return past + (now - past) / (count + 1)


@jax.jit
def play_of_joint(tree: GameTree, tables: Array, joint: Array) -> MeanPlay:
    """Computes the `MeanPlay` of mu with the current policies of the anchor ids.

    Args:
      tree: the game.
      tables: current policies, [P, K, I, A].
      joint: mu, [K, ..., K].

    Returns:
      The average, with a count of 1.
    """
    weights = _reaches(tree, tables)  # [players][K, L]

    def reached(rest: Array, players: list[int]) -> Array:
        """Reach [L] of the players under their joint distribution."""
        if not players:
            return jnp.full((tree.num_leaves,), rest)
        along = jnp.tensordot(rest, weights[players[-1]], axes=1, precision="highest")  # [..., L]
        for player in reversed(players[:-1]):
            along = _sum("...kl,kl->...l", along, weights[player])
        return along

    everyone = list(range(tree.num_players))
    everywhere = tree.chance * reached(joint, everyone)
    gains = [
        tree.chance * tree.payoff[:, player] * reached(joint.sum(axis=player), [p for p in everyone if p != player])
        for player in everyone
    ]
    return MeanPlay(jnp.stack(gains), _sum("l,lp->p", everywhere, tree.payoff), jnp.int32(1))


def _reaches(tree: GameTree, tables: Array) -> list[Array]:
    """Reaches [K, L] of every player's policies at the leaves."""
    weights = all_reaches(tree, tables)
    return [leaf_reach(tree, weights[owner], player) for player, owner in enumerate(tree.population_of_player)]


def _sum(subscripts: str, *operands: Array) -> Array:
    return jnp.einsum(subscripts, *operands, precision="highest")
