"""Response oracles.

An *oracle* makes policies. Its main part is a function

    respond(key, mixture, start=None, rounds=...) -> Response(params [P, ...], gain [P], cost, learner)

that gives every population one policy against the others' mixtures. `start` is a learner to continue from, `rounds` the
length of learning. This module contains exact oracles, for enumerable games; `psro/ppo.py` trains networks.

Best responses often tie: at information sets where the player is indifferent or which the others' play never reaches. A
response that is new to the population must win, or methods stall on copies: anytime double oracle never solves Kuhn
poker if the lowest action always wins. The next criterion matters as much: at unreached sets any action is a best
response, but later mixtures may reach them. Rules, after novelty:

    robust   best action against the uniform mixture of the opponents' policies, then the lowest action
    random   best action against a random mixture of them
    novel    the lowest action
    lowest   the lowest action, without novelty

Exploitability of PSRO on Leduc after 25 iterations is 0.59 with `robust`, and 0.84 if such actions are random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.infosets import infoset_policy, tables_of, tabular_policies
from gems_jax.extensive.sequence_form import group_by_infoset
from gems_jax.extensive.values import (
    GameTree,
    best_response_values,
    build_tree,
    mixture_to_behavior,
    player_gains_of_mixture,
    population_mean,
    reach,
    reply_values,
    tied_actions,
    uniform_table,
    values_against,
)
from gems_jax.meta.simplex import masked_normalize
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost
from gems_jax.psro.payoffs import PayoffTable
from gems_jax.types import Apply, Array, Game, Profile, PyTree

TIES = ("robust", "random", "novel", "lowest")


class Mixture(NamedTuple):
    """Stored policies and their mixture."""

    policies: StackedPolicies  # [P, K, ...]
    active: Array  # [P, K]
    sigma: Array  # [P, K]
    table: PayoffTable | None = None  # of the policies, if the method has one


class Response(NamedTuple):
    """One new policy per population, and its cost."""

    params: PyTree  # [P, ...], one policy per population
    gain: np.ndarray  # [P], gain over the population's own mixture, or over `start`
    cost: Cost
    learner: PyTree = None  # [P, ...], learner that a later response may continue from


Respond = Callable[..., Response]  # (key, mixture, start=None, rounds=...)


class Oracle(NamedTuple):
    """Functions that initialize, run and train policies."""

    network: Apply
    first: Callable[[Array], PyTree]  # first(key) -> an untrained learner [P, ...]
    policy: Callable[[PyTree], PyTree]  # policy(learner) -> params [P, ...]
    respond: Respond

    def population(self, params: PyTree) -> StackedPolicies:
        """Makes the policies with params [P, K, ...]."""
        return StackedPolicies(params, self.network)

    def profile(self, state: Any, sigma: Array) -> Profile:
        """Makes the profile of the policies in `state.store`, mixed by sigma [P, K]."""
        return Profile(self.population(state.store.params), sigma)


def tabular_oracle(game: Game, respond: Respond) -> Oracle:
    """Makes an oracle of tabular policies with uniform initial play. A learner is the policy itself."""

    def first(key: Array) -> PyTree:
        del key
        tree = build_tree(game)
        return policy_params(game, jnp.broadcast_to(uniform_table(tree), (tree.num_populations, *tree.legal.shape)))

    return Oracle(infoset_policy(game), first, lambda learner: learner, respond)


def infosets_of(game: Game, population: int) -> np.ndarray:
    """Marks the information sets [I] of the population's seats."""
    seats = [s for s, player in enumerate(game.player_of_seat) if game.population_of_player[player] == population]
    return np.isin(np.asarray(build_tree(game).seat), seats)


@jax.jit
def _reaches(tree: GameTree, tables: Array) -> Array:
    """Computes own reach probabilities [..., I, A], including the action, of tables [..., I, A]."""
    return group_by_infoset(tree, jnp.vectorize(lambda table: reach(tree, table), signature="(i,a)->(q)")(tables))


def pure_plans(weights: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Lists the distinct deterministic plans among policies; policies that mix at reached sets are left out.

    Args:
      weights: reach probabilities [K, I, A] of the policies.
      own: the population's information sets, [I] bool.

    Returns:
      Actions [m, I] of the plans; -1 at sets that a plan does not reach and at those of others.
    """
    pure = (np.minimum(weights, 1 - weights)[:, own] < 1e-3).all(axis=(1, 2))
    reached = (weights[pure].sum(axis=2) > 0.5) & own[None, :]
    return np.unique(np.where(reached, weights[pure].argmax(axis=2), -1), axis=0)


def count_plans(tree: GameTree, tied: np.ndarray, own: np.ndarray) -> tuple[list[int], list[list[int]]]:
    """Counts the plans of tied actions that begin at each information set, and lists own sets below sequences.

    The counts are Python integers, because they may have hundreds of digits.
    """
    actions, parent = tree.num_actions, np.asarray(tree.parent)
    below: list[list[int]] = [[] for _ in range(tree.num_infosets * actions + tree.num_seats)]
    for infoset in np.nonzero(own)[0]:
        below[parent[infoset]].append(int(infoset))
    count = [1] * tree.num_infosets
    for infoset in np.nonzero(own)[0][::-1]:  # sets below come later in the order of levels
        count[infoset] = sum(_product(count, below[infoset * actions + a]) for a in np.nonzero(tied[infoset])[0])
    return count, below


def _product(count: list[int], infosets: list[int]) -> int:
    return math.prod(count[infoset] for infoset in infosets)


def novel_plan(tree: GameTree, tied: np.ndarray, own: np.ndarray, plans: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Finds the first plan of tied actions, in a given order, that is not among old plans.

    At each set it takes the first action after which more plans remain than old ones to avoid, so that no search is
    needed. If all plans are old, and at sets that the plan does not reach, it takes the first tied action.

    Args:
      tree: the game tree.
      tied: mask [I, A] of tied actions.
      own: the population's information sets, [I] bool.
      plans: old plans [m, I], see `pure_plans`.
      order: actions [I, A] in order of preference.

    Returns:
      Actions [I] of the plan.
    """
    ranked = np.take_along_axis(tied, order, axis=1)
    chosen = np.take_along_axis(order, ranked.argmax(axis=1)[:, None], axis=1)[:, 0]
    best = np.where(plans >= 0, tied[np.arange(tree.num_infosets)[None], plans], True)
    old, (count, below) = plans[best.all(axis=1)], count_plans(tree, tied, own)
    pending = sorted(sum(below[tree.num_infosets * tree.num_actions :], []))  # the roots of all seats
    if _product(count, pending) <= len(old):
        return chosen
    while pending:
        infoset, *others = pending
        for action in order[infoset][ranked[infoset]]:
            pending = sorted(others + below[infoset * tree.num_actions + action])
            same = old[old[:, infoset] == action]
            if _product(count, pending) > len(same):
                break
        chosen[infoset], old = action, same
    return chosen


def _order_actions(key: Array, tree: GameTree, tables: Array, active: Array, ties: str) -> np.ndarray:
    """Sorts actions [I, A] by preference."""
    lowest = np.broadcast_to(np.arange(tree.num_actions), tree.legal.shape)
    if ties in ("novel", "lowest"):
        return lowest
    draws = jax.random.exponential(key, active.shape) if ties == "random" else jnp.ones(active.shape)
    values = reply_values(tree, tables, jax.vmap(masked_normalize)(draws, active))
    scale = jnp.max(jnp.where(tree.legal, jnp.abs(values), 0.0), axis=1, keepdims=True)
    relative = np.asarray(values / jnp.where(scale > 0, scale, 1.0))
    return np.lexsort((lowest, -np.round(relative, 5)), axis=1)  # rounded: float errors must not decide


def exact_replies(key: Array, game: Game, tables: Array, active: Array, sigma: Array, ties: str = "robust") -> Array:
    """Computes a deterministic best response of every population to the others' mixture.

    Args:
      key: typed PRNG key; consumed.
      game: an enumerable game.
      tables: policies [P, K, I, A].
      active: mask of the policies, [P, K].
      sigma: mixtures [P, K].
      ties: tie-breaking rule of `TIES`.

    Returns:
      Tables [P, I, A].
    """
    return choose_replies(key, game, tables, active, tied_actions(build_tree(game), tables, sigma), ties)


def choose_replies(key: Array, game: Game, tables: Array, active: Array, tied_best: Array, ties: str) -> Array:
    """Chooses deterministic best responses, tables [P, I, A], among tied best actions [I, A]. key: consumed."""
    if ties not in TIES:
        raise ValueError(f"unknown tie-breaking rule {ties!r}; known: {', '.join(TIES)}")
    tree = build_tree(game)
    tied, order = np.asarray(tied_best), _order_actions(key, tree, tables, active, ties)
    weights, rows = np.asarray(_reaches(tree, tables)), []
    for population in range(tree.num_populations):
        own = infosets_of(game, population)
        held = np.asarray(active)[population] & (ties != "lowest")
        chosen = novel_plan(tree, tied, own, pure_plans(weights[population][held], own), order)
        rows.append(jnp.where(own[:, None], jax.nn.one_hot(chosen, tree.num_actions), uniform_table(tree)))
    return jnp.stack(rows)


def population_gains(game: Game, tables: Array, sigma: Array) -> np.ndarray:
    """Computes the exact gain BR - u(sigma) of every population, [P]."""
    tree = build_tree(game)
    return np.asarray(population_mean(tree, player_gains_of_mixture(tree, tables, sigma)))


def policy_params(game: Game, tables: Array) -> PyTree:
    """Converts tables [P, I, A] to parameters [P, ...] of tabular policies."""
    return tabular_policies(game, tables[:, None]).params[:, 0]


def exact_oracle(game: Game, ties: str = "robust") -> Respond:
    """Makes exact deterministic best responses as tabular policies."""

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        del start, rounds
        tables = tables_of(game, mixture.policies)
        replies = exact_replies(key, game, tables, mixture.active, mixture.sigma, ties)
        gain = population_gains(game, tables, mixture.sigma)
        return Response(policy_params(game, replies), gain, Cost(tree_walks=len(gain)))

    return respond


def lowest_replies(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes best responses [I, A] of all seats to sigma [P, K] over tables [P, K, I, A]; lowest action first."""
    return jax.nn.one_hot(jnp.argmax(tied_actions(tree, tables, sigma), axis=1), tree.num_actions)


def move_towards(tree: GameTree, table: Array, reply: Array, rate: float | Array) -> Array:
    """Mixes two policies [I, A]: `reply` is played with probability `rate`, drawn once per game, else `table`."""
    weights = jnp.stack([1.0 - jnp.float32(rate), jnp.float32(rate)])
    return mixture_to_behavior(tree, jnp.stack([table, reply]), weights)


def exact_learner(game: Game, rate: float) -> Respond:
    """Makes responses that move `start` by `rate` towards an exact best response to the mixture.

    On enumerable games this replaces a learner that needs many calls. `gain` is the gap of `start` to a best response.
    """
    tree = build_tree(game)

    @jax.jit
    def move(policies: StackedPolicies, sigma: Array, start: PyTree) -> tuple[PyTree, Array]:
        tables = tables_of(game, policies)
        here = tables_of(game, StackedPolicies(start[:, None], policies.apply))[:, 0]
        best = lowest_replies(tree, tables, sigma)
        earned = values_against(tree, here[:, None], tables, sigma)[:, 0]
        gain = population_mean(tree, best_response_values(tree, tables, sigma) - earned)
        return policy_params(game, jax.vmap(lambda table: move_towards(tree, table, best, rate))(here)), gain

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        del key, rounds
        if start is None:
            raise ValueError("a gradual learner needs policies to start from, got start=None")
        params, gain = move(mixture.policies, mixture.sigma, start)
        return Response(params, np.asarray(gain), Cost(tree_walks=len(gain)), params)

    return respond
