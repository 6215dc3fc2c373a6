"""Play between policies that are looked up by index, with all episodes along one axis.

XLA's CPU kernels take several times as long for the same numbers in seven axes (seeds, populations, policies,
opponents, episodes, ...) as in one. Networks need the axes, so that a policy's weights meet its episodes in one matrix
product; a table is looked up, and an episode only has to know the indices of its policies. An outer `vmap`, over seeds
or over populations, makes the one axis longer instead of adding another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.policies.networks import IndexedNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game, Policy, PyTree, num_players


def play_indexed(
    play: Callable[..., PyTree],
    keys: Array,
    game: Game,
    policies: StackedPolicies,
    opponents: StackedPolicies,
    indices: Array,
    lanes: tuple[PyTree, ...],
) -> PyTree:
    """Plays as `rollout.groups.play_groups` does. keys: consumed.

    keys [C, N, M]; policies [C, ...]; opponents [P, K, ...]; indices [C, N, players]; lanes [C, N, M, ...].
    """
    network = opponents.apply
    assert isinstance(network, IndexedNetwork)
    players, shape = num_players(game), keys.shape
    own = np.arange(players).reshape(1, 1, 1, -1) == 0  # numpy: `lengthen` runs in traces of its own
    first = np.asarray([population * opponents.params.shape[1] for population in game.population_of_player])
    others = shape[0] + indices[:, :, None] + first.reshape(own.shape)
    numbers = jnp.where(own, jnp.arange(shape[0]).reshape(-1, 1, 1, 1), others)  # [C, N, 1, players]
    # Prepared separately: where the opponents stay the same, theirs is hoisted out of a loop.
    mine, theirs = (
        network.prepare_stack(params) for params in (policies.params, _merge_leading_axes(opponents.params))
    )
    stack = jax.tree.map(lambda *both: jnp.concatenate(both), mine, theirs)

    def episode(key: Array, game: Game, number: Array, lane: tuple[PyTree, ...], stack: PyTree) -> PyTree:
        policies = (Policy((number[player], stack), network.indexed) for player in range(players))
        return play(key, game, tuple(policies), *lane)

    @jax.custom_batching.custom_vmap
    def play_all(keys: Array, game: Game, numbers: Array, lanes: tuple[PyTree, ...], stack: PyTree) -> PyTree:
        return jax.vmap(episode, in_axes=(0, 0, 0, 0, None))(keys, game, numbers, lanes, stack)

    @play_all.def_vmap
    def lengthen(size: int, batched: PyTree, *arguments: PyTree) -> tuple[PyTree, PyTree]:
        def broadcast(leaf: Array, has: bool) -> Array:
            return leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape))

        keys, game, numbers, lanes, stack = jax.tree.map(broadcast, arguments, tuple(batched))
        numbers = numbers + jnp.arange(size).reshape(-1, 1, 1) * jax.tree.leaves(stack)[0].shape[1]
        played = play_all(*jax.tree.map(_merge_leading_axes, (keys, game, numbers, lanes, stack)))
        played = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), played)
        return played, jax.tree.map(lambda leaf: True, played)

    numbers = jnp.broadcast_to(numbers, (*shape, players))
    games = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (math.prod(shape), *leaf.shape)), game)
    keys, numbers, lanes = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), (keys, numbers, lanes))
    played = play_all(keys, games, numbers, lanes, stack)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _merge_leading_axes(leaf: Array) -> Array:
    """[a, b, ...] -> [a b, ...]."""
    return leaf.reshape(-1, *leaf.shape[2:])
