"""How far the joint play of a whole run is from a coarse correlated equilibrium, exactly, on games that can be walked.

The players of iteration t draw independently from sigma_t; over the run that makes the joint play

    mu(i_1, ..., i_n) = 1/T sum_t prod_p sigma_t^p(i_p)                     (eq:n_player_cce_omwu and before)

which is correlated by time. A player's *regret* is what one policy of its own, kept throughout, would have earned more
than what it earned, and the CCE gap is the sum over players of the regrets that are positive. Two readings, because
the generator changes while the anchors' names stay:

    as played    the policies as they were in their iteration. `MeanPlay` keeps the mean over time of what multiplies a
                 player's own reach at every leaf, [players, L]: all that regrets need, whatever the number of players
    by id        mu over anchor ids, [K, ..., K], with the policies that the generator of today makes of them

Deviations are any policy of the game, or the anchors of today.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.sequence_form import leaf_reach
from gems_jax.extensive.tree import GameTree
from gems_jax.extensive.values import all_reaches, anchor_values, best_values, exact_mixture_returns, mixture_gains
from gems_jax.meta.cce import joint_of
from gems_jax.types import Array, Struct

MAX_JOINT = 2**20  # entries of a joint distribution over anchors that is kept


class MeanPlay(Struct):
    """The time average of play so far: enough to say what any deviation would have earned."""

    gains: Array  # [players, L], chance times the others' reach times the player's payoff
    values: Array  # [players], what they earned
    count: Array  # [] int32, iterations

    @classmethod
    def none(cls, tree: GameTree) -> MeanPlay:
        players = tree.num_players
        return cls(jnp.zeros((players, tree.num_leaves)), jnp.zeros(players), jnp.int32(0))


@jax.jit
def add_play(tree: GameTree, play: MeanPlay, tables: Array, sigma: Array) -> MeanPlay:
    """One iteration more, in which everybody drew from sigma [P, K] over tables [P, K, I, A]."""
    count = play.count + 1
    gains = play.gains + (mixture_gains(tree, tables, sigma) - play.gains) / count
    values = play.values + (exact_mixture_returns(tree, tables, sigma) - play.values) / count
    return MeanPlay(gains, values, count)


@jax.jit
def regrets(tree: GameTree, play: MeanPlay) -> Array:
    """[players]: the best policy of the game, kept throughout, against what the player earned."""
    return best_values(tree, play.gains) - play.values


@jax.jit
def anchor_regrets(tree: GameTree, play: MeanPlay, tables: Array, active: Array) -> Array:
    """[players]: the same for the best of the active anchors, tables [P, K, I, A]."""
    chex.assert_shape(tables, (*active.shape, *tree.legal.shape))
    weights = _reaches(tree, tables)
    rows = [
        jnp.max(jnp.where(active[owner], _sum("kl,l->k", weights[player], play.gains[player]), -jnp.inf))
        for player, owner in enumerate(tree.population_of_player)
    ]
    return jnp.stack(rows) - play.values


@jax.jit
def restricted_gains(tree: GameTree, tables: Array, sigma: Array, active: Array) -> Array:
    """[players]: max_i v_i - sigma . v over the active anchors (eq:exploit_revised), 0 at restricted equilibria."""
    values, owner = anchor_values(tree, tables, sigma), jnp.array(tree.population_of_player)
    best = jnp.where(active[owner], values, -jnp.inf).max(axis=1)
    return jnp.maximum(best - (sigma[owner] * values).sum(axis=1), 0.0)


def sum_positive_regrets(regret: Array) -> Array:
    """sum_p max(0, regret_p), []."""
    return jnp.maximum(regret, 0.0).sum()


# --- the joint play by anchor id


def can_hold(tree: GameTree, num_slots: int) -> bool:
    """Whether a joint distribution over anchors is small enough to be kept."""
    return num_slots**tree.num_players <= MAX_JOINT


def add_joint(tree: GameTree, joint: Array, count: Array, sigma: Array, fresh: Array) -> Array:
    """mu [K, ..., K] after one iteration more. fresh [P, K]: slots whose anchor is new, which take nothing over.

    count: iterations in `joint` already. What was played by anchors that are gone is left out, and the rest counts in
    its place; where nothing is left the average begins anew.
    """
    kept = joint
    for player, owner in enumerate(tree.population_of_player):
        shape = [1] * joint.ndim
        shape[player] = joint.shape[player]
        kept = jnp.where(fresh[owner].reshape(shape), 0.0, kept)
    total = kept.sum()
    now = joint_of(sigma[jnp.array(tree.population_of_player)])
    past = jnp.where(total > 0.0, kept / jnp.where(total > 0.0, total, 1.0), now)
    return past + (now - past) / (count + 1)


@jax.jit
def play_of_joint(tree: GameTree, tables: Array, joint: Array) -> MeanPlay:
    """What `add_play` gives, of mu [K, ..., K] over tables [P, K, I, A]: the policies of today under the old ids."""
    weights = _reaches(tree, tables)  # [players][K, L]

    def reached(rest: Array, players: list[int]) -> Array:
        """[L]: how often the players lead there, from their joint distribution."""
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
    """[K, L] for every player: how far each policy of its population leads."""
    weights = all_reaches(tree, tables)
    return [leaf_reach(tree, weights[owner], player) for player, owner in enumerate(tree.population_of_player)]


def _sum(subscripts: str, *operands: Array) -> Array:
    return jnp.einsum(subscripts, *operands, precision="highest")
