"""The information sets of an enumerable game as a lookup table for tabular policies."""

from __future__ import annotations

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.walk import as_bytes
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Array, Game, InfosetTable, NotEnumerableError, num_populations, num_slots, supports

# The logit of an action that is never played: a softmax gives it exactly 0. A small positive probability would not do:
# the slightest chance of getting somewhere tells what is best there, and actions no longer tie.
_NEVER = -1e4


def infoset_policy(game: Game) -> TabularPolicy:
    """The policy network with one row of logits per information set of `game`. Works inside a trace.

    A game may list its information sets itself, `infosets() -> (observation [I, ...], legal [I, A])`; otherwise they
    are read off the tree. Raises NotEnumerableError for games that are too large.
    """
    if supports(game, InfosetTable):
        return TabularPolicy(*game.infosets())
    hashable: Any = game  # value-hashed by contract, which a Protocol cannot say
    return _from_tree(hashable)


@functools.lru_cache(maxsize=64)
def _from_tree(game: Any) -> TabularPolicy:
    tree = build_tree(game)
    # Information sets of different seats that look alike are one row: a policy could not tell them apart.
    rows = np.unique(np.asarray(tree.twin))
    numbers = None if tree.number is None or len(rows) < tree.num_infosets else np.asarray(tree.number)[rows]
    return TabularPolicy(np.asarray(tree.observation)[rows], np.asarray(tree.legal)[rows], numbers)


@functools.lru_cache(maxsize=64)
def _rows(game: Any) -> tuple[np.ndarray, np.ndarray]:
    """The row of `infoset_policy` that each information set is [I]; the set that fills each row, by population [P, R].

    Of information sets that look alike, a population fills the row with the one of a seat that it plays.
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
                f"In {game.name!r} two information sets of seats that share population {population} look the same: a "
                "policy table per information set cannot be played there. Put the seat into the observation."
            )
        source[population, row_of] = np.arange(tree.num_infosets)
        source[population, row_of[own]] = own
    return row_of, source


def find_infoset(tree: GameTree, seat: int, observation: np.ndarray) -> int:
    """The information set at which a seat sees an observation, -1 for none. On the host; the tree is concrete."""
    seen = np.asarray(tree.observation).reshape(tree.num_infosets, -1)
    same = (seen == np.asarray(observation, np.float32).reshape(1, -1)).all(axis=1) & (np.asarray(tree.seat) == seat)
    return int(np.argmax(same)) if same.any() else -1


def tabular_policies(game: Game, tables: Array) -> StackedPolicies:
    """Policies that play the tables [P, K, I, A] of the game's tree: logits [P, K, R, A] for `infoset_policy`."""
    tree = build_tree(game)
    chex.assert_shape(tables, (tree.num_populations, None, *tree.legal.shape))
    hashable: Any = game
    return StackedPolicies(_logits(tables, jnp.asarray(_rows(hashable)[1])), infoset_policy(game))


@jax.jit
def _logits(tables: Array, source: Array) -> Array:
    rows = jax.vmap(lambda table, rows: table[:, rows])(tables, source)
    return jnp.where(rows > 0, jnp.log(jnp.where(rows > 0, rows, 1.0)), _NEVER)


def tables_of(game: Game, policies: StackedPolicies) -> Array:
    """Tables [P, K, I, A] of stacked policies [P, K, ...]: the inverse of `tabular_policies`, for any network.

    Where the policies are tables already their rows are only put in order, which is much quicker than looking every
    observation up.
    """
    tree = build_tree(game)
    hashable: Any = game
    if policies.apply == infoset_policy(game):
        return _probabilities(policies.params, jnp.asarray(_rows(hashable)[0]), tree.legal)
    return _looked_up(tree, policies)


@jax.jit
def _probabilities(logits: Array, row_of: Array, legal: Array) -> Array:
    return jax.nn.softmax(jnp.where(legal[None, None], logits[:, :, row_of], -jnp.inf), axis=-1)


@jax.jit
def _looked_up(tree: GameTree, policies: StackedPolicies) -> Array:
    return policy_tables(tree, policies, num_slots(jax.tree.map(lambda leaf: leaf[0], policies.params)))
