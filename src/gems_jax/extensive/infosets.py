"""The information sets of an enumerable game as a lookup table for tabular policies."""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.state_graph import build_state_graph
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.walk import as_bytes
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import (
    Array,
    Game,
    ImperfectRecallError,
    InfosetTable,
    NotEnumerableError,
    num_populations,
    num_slots,
    supports,
)

# The logit of an action that is never played: its softmax is exactly 0. A small positive probability would break ties
# between actions, because sets behind it would be reached and have a best action.
_NEVER = -1e4


def infoset_policy(game: Game) -> TabularPolicy:
    """Makes the policy network with one row of logits per information set of the game. Works inside a trace.

    A game may list its information sets itself, `infosets() -> (observation [I, ...], legal [I, A])`. Otherwise they
    are read from the tree, or are the positions of a board that shows them whole (`state_graph`).

    Args:
      game: an enumerable game, or one of perfect information whose positions can be listed.

    Returns:
      The tabular policy.

    Raises:
      NotEnumerableError: if the game cannot be enumerated.
    """
    if supports(game, InfosetTable):
        return TabularPolicy(*game.infosets())
    hashable: Any = game  # hashed by value; a Protocol cannot declare that
    return _policy_from_tree(hashable)


@functools.lru_cache(maxsize=64)
def _policy_from_tree(game: Any) -> TabularPolicy:
    try:
        tree = build_tree(game)
    except ImperfectRecallError:
        graph = build_state_graph(game)
        return TabularPolicy(np.asarray(graph.observation), np.asarray(graph.view_legal))
    # Information sets with equal observations share one row: a policy cannot distinguish them.
    rows = np.unique(np.asarray(tree.twin))
    numbers = None if tree.number is None or len(rows) < tree.num_infosets else np.asarray(tree.number)[rows]
    return TabularPolicy(np.asarray(tree.observation)[rows], np.asarray(tree.legal)[rows], numbers)


@functools.lru_cache(maxsize=64)
def _rows(game: Any) -> tuple[np.ndarray, np.ndarray]:
    """Maps information sets to rows of `infoset_policy` [I], and rows to the set that fills them, by population [P, R].

    If information sets have equal observations, a population fills their row from the set of its own seat.
    """
    tree, network = build_tree(game), infoset_policy(game)
    observation = np.asarray(tree.observation).reshape(tree.num_infosets, -1)
    ours, theirs = (
        [row.tobytes() for row in np.concatenate([as_bytes(seen + 0.0), as_bytes(may)], axis=1)]
        for seen, may in ((observation, np.asarray(tree.legal)), (network.observations, network.legal))
    )
    place = {look: row for row, look in enumerate(theirs)}
    row_of = np.array([place[look] for look in ours])
    seat_population = np.asarray(game.population_of_player)[np.asarray(game.player_of_seat)]
    owner = seat_population[np.asarray(tree.seat)]
    source = np.zeros((num_populations(game), len(theirs)), int)
    for population in range(num_populations(game)):
        own = np.nonzero(owner == population)[0]
        if len(np.unique(row_of[own])) < len(own):
            raise NotEnumerableError(
                f"cannot play tables in {game.name!r}: two information sets of seats that share population "
                f"{population} have the same observation. Add the seat to the observation."
            )
        source[population, row_of] = np.arange(tree.num_infosets)
        source[population, row_of[own]] = own
    return row_of, source


def find_infoset(tree: GameTree, seat: int, observation: np.ndarray) -> int:
    """Finds the information set at which a seat observes an array, on the host.

    Args:
      tree: a concrete tree.
      seat: the seat to move.
      observation: what it observes, [*obs].

    Returns:
      The index, or -1 if there is none.
    """
    seen = np.asarray(tree.observation).reshape(tree.num_infosets, -1)
    same = (seen == np.asarray(observation, np.float32).reshape(1, -1)).all(axis=1) & (np.asarray(tree.seat) == seat)
    return int(np.argmax(same)) if same.any() else -1


def tabular_policies(game: Game, tables: Array) -> StackedPolicies:
    """Makes policies that play given tables.

    Args:
      game: an enumerable game.
      tables: action probabilities at the information sets of its tree, [P, K, I, A].

    Returns:
      Policies with logits [P, K, R, A] for `infoset_policy`.

    Raises:
      NotEnumerableError: if two information sets of one population have the same observation.
    """
    tree = build_tree(game)
    chex.assert_shape(tables, (tree.num_populations, None, *tree.legal.shape))
    hashable: Any = game
    return StackedPolicies(_logits(tables, jnp.asarray(_rows(hashable)[1])), infoset_policy(game))


@jax.jit
def _logits(tables: Array, source: Array) -> Array:
    rows = jax.vmap(lambda table, rows: table[:, rows])(tables, source)
    return jnp.where(rows > 0, jnp.log(jnp.where(rows > 0, rows, 1.0)), _NEVER)


def tables_of(game: Game, policies: StackedPolicies) -> Array:
    """Computes the tables [P, K, I, A] of stacked policies, the inverse of `tabular_policies` for any network.

    Tabular policies are only reordered, which is much faster than evaluating a network at every observation.

    Args:
      game: an enumerable game.
      policies: stacked policies, [P, K, ...].

    Returns:
      Action probabilities, [P, K, I, A].
    """
    tree = build_tree(game)
    hashable: Any = game
    if policies.apply == infoset_policy(game):
        return _probabilities(policies.params, jnp.asarray(_rows(hashable)[0]), tree.legal)
    return _evaluate_tables(tree, policies)


@jax.jit
def _probabilities(logits: Array, row_of: Array, legal: Array) -> Array:
    return jax.nn.softmax(jnp.where(legal[None, None], logits[:, :, row_of], -jnp.inf), axis=-1)


@jax.jit
def _evaluate_tables(tree: GameTree, policies: StackedPolicies) -> Array:
    return policy_tables(tree, policies, num_slots(jax.tree.map(lambda leaf: leaf[0], policies.params)))
