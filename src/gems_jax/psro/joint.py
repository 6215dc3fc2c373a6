"""Responses to a joint distribution over profiles: the others' choices may be correlated.

A player who considers deviating meets the others as they are distributed together, mu summed over its own choice. Of
two players that is a mixture like any other. With more, exact responses walk the tree with mu itself, and learned ones
play against profiles that are drawn from it: slot m of every population then holds its part of profile m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.joint_play import play_of_joint, regrets
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import build_tree, population_mean, tied_by_gains
from gems_jax.meta.cce import marginals_of, regret_matching_joint
from gems_jax.meta.max_gini import max_gini_cce
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.cost import Cost
from gems_jax.psro.responses import Mixture, Oracle, Response, chosen_replies, policy_params
from gems_jax.types import Array, Game, num_players, num_populations


class JointPlay(NamedTuple):
    """Stored policies and how often each profile of them is played."""

    policies: StackedPolicies  # [P, K, ...]
    active: Array  # [P, K]
    joint: Array  # [K, ..., K], mu


RespondJointly = Callable[[Array, JointPlay, int], Response]  # (key, play, rounds)


def solve_joint(name: str, payoffs: Array, active: Array) -> Array:
    """mu [K, ..., K] over the active slots [players, K] of payoffs [players, K, ..., K]."""
    if name == "regret_matching":
        return jax.jit(regret_matching_joint)(payoffs, active)
    slots = [np.nonzero(row)[0] for row in np.asarray(active)]
    inside = np.ix_(np.arange(len(slots)), *slots)
    joint = np.zeros(payoffs.shape[1:], np.float32)
    joint[np.ix_(*slots)] = max_gini_cce(np.asarray(payoffs, np.float64)[inside])
    return jnp.asarray(joint)


def own_marginals(game: Game, joint: Array) -> Array:
    """sigma [P, K]: what each population plays on its own, the mean over its players."""
    sigma, owners = marginals_of(joint), np.asarray(game.population_of_player)
    return jnp.stack([sigma[np.nonzero(owners == p)[0]].mean(axis=0) for p in range(num_populations(game))])


def joint_gains(game: Game, play: JointPlay) -> tuple[Array, np.ndarray]:
    """Leaf gains [players, L] against mu, and what the best deviations gain over it [players], exact."""
    tree = build_tree(game)
    seen = play_of_joint(tree, tables_of(game, play.policies), play.joint)
    return seen.gains, np.asarray(regrets(tree, seen))


def exact_joint_oracle(game: Game, ties: str) -> RespondJointly:
    """Exact best responses to mu, deterministic, as tabular policies. `gain` may be slightly negative by rounding."""
    tree = build_tree(game)

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        del rounds
        tables = tables_of(game, play.policies)
        gains, gained = joint_gains(game, play)
        replies = chosen_replies(key, game, tables, play.active, tied_by_gains(tree, gains), ties)
        gain = np.asarray(population_mean(tree, jnp.asarray(gained)))
        return Response(policy_params(game, replies), gain, Cost(tree_walks=len(gain)))

    return respond


def draw_profiles(key: Array, game: Game, play: JointPlay, count: int) -> Mixture:
    """`count` profiles drawn from mu, a slot each, all alike: sigma [count] is joint. key: consumed."""
    chosen = jax.random.categorical(key, jnp.log(play.joint.reshape(-1)), shape=(count,))
    slots = jnp.stack(jnp.unravel_index(chosen, play.joint.shape))  # [players, count]
    params = jax.tree.map(lambda leaf: jax.vmap(lambda own, at: own[at])(leaf, slots), play.policies.params)
    every = jnp.ones((num_populations(game), count), bool)
    return Mixture(StackedPolicies(params, play.policies.apply), every, jnp.full(count, 1.0 / count))


def opponents_of(key: Array, game: Game, play: JointPlay, profiles: int) -> Mixture:
    """What learners meet: the other's mixture, or of three or more players `profiles` drawn from mu. key: consumed."""
    if num_players(game) == 2:
        return Mixture(play.policies, play.active, own_marginals(game, play.joint))
    return draw_profiles(key, game, play, profiles)


def learned_joint_oracle(game: Game, oracle: Oracle, profiles: int) -> RespondJointly:
    """Learned responses to mu."""

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        key_draw, key_learn = jax.random.split(key)
        return oracle.respond(key_learn, opponents_of(key_draw, game, play, profiles), rounds=rounds)

    return respond
