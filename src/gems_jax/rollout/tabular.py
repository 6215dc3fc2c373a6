"""Play between policies that are looked up by index, with all episodes along one axis.

XLA's CPU kernels take several times as long for an array of seven axes (seeds, populations, policies, opponents,
episodes, ...) as for one axis of the same size. Networks need the axes, so that one matrix product applies a policy's
weights to its episodes. A table is looked up, and an episode needs only the indices of its policies. An outer `vmap`,
over seeds or over populations, makes the one axis longer instead of adding another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile import prune
from gems_jax.policies.networks import IndexedNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game, Policy, PyTree

_LARGE = 1_000_000  # logits of all populations; see `_lay_out_stacks`


def play_indexed(
    play: Callable[..., PyTree],
    keys: Array,
    game: Game,
    populations: StackedPolicies,
    indices: Array,
    own: PyTree | None = None,
    lanes: tuple[PyTree, ...] = (),
) -> PyTree:
    """Plays episodes between policies of an `IndexedNetwork`.

    Args:
      play: play(key, game, policies, *lane), which plays one episode or a part of one. A function must not close over
        traced arrays; a callable pytree, such as a `Struct`, holds them as leaves.
      keys: typed PRNG keys [..., M], consumed; M episodes for every row of `indices`.
      game: the game.
      populations: materialized populations, [P, K, ...].
      indices: the players' slots, [..., players].
      own: parameters of player 0's policies, which replace its slots, [C, ...]; `indices` is then [C, ..., players].
      lanes: further arguments of `play`, one per episode, leaves [..., M, ...].

    Returns:
      The results of `play`, leaves [..., M, ...].
    """
    network = populations.apply
    assert isinstance(network, IndexedNetwork)
    shape, players = keys.shape, indices.shape[-1]
    stacks, stack_of_player, numbers = _lay_out_stacks(game, populations, own, indices)
    held, structure = jax.tree.flatten(play)
    arrays = [leaf if isinstance(leaf, jax.Array) else None for leaf in held]  # a function has none

    opaque = any(leaf is game for leaf in jax.tree.leaves(game))  # not a pytree: equal in all episodes

    def episode(
        key: Array, own_game: PyTree, number: Array, lane: tuple[PyTree, ...], stacks: PyTree, arrays: PyTree
    ) -> PyTree:
        policies = (Policy((number[p], stacks[stack_of_player[p]]), network.indexed) for p in range(players))
        leaves = [leaf if array is None else array for leaf, array in zip(held, arrays, strict=True)]
        return jax.tree.unflatten(structure, leaves)(key, game if opaque else own_game, tuple(policies), *lane)

    play_flat = prune(jax.vmap(episode, in_axes=(0, 0, 0, 0, None, None)))
    play_all = jax.custom_batching.custom_vmap(lambda *arguments: play_flat(*arguments))

    @play_all.def_vmap
    def lengthen(size: int, batched: PyTree, *arguments: PyTree) -> tuple[PyTree, PyTree]:
        def broadcast(leaf: Array, has: bool) -> Array:
            return leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape))

        if any(jax.tree.leaves(batched[-1])):  # episodes with the same arrays of `play` stay on one axis
            axes = jax.tree.map(lambda has: 0 if has else None, tuple(batched))
            played = jax.vmap(play_flat, in_axes=axes)(*arguments)
            return played, jax.tree.map(lambda leaf: True, played)
        keys, game, numbers, lanes, stacks = jax.tree.map(broadcast, arguments[:-1], tuple(batched[:-1]))
        sizes = [jax.tree.leaves(stacks[of_player])[0].shape[1] for of_player in stack_of_player]
        step = sizes[0] if len(stacks) == 1 else np.reshape(sizes, (1, 1, -1))
        numbers = numbers + jnp.arange(size).reshape(-1, 1, 1) * step
        played = play_all(*jax.tree.map(_merge_leading_axes, (keys, game, numbers, lanes, stacks)), arguments[-1])
        played = jax.tree.map(lambda leaf: leaf.reshape(size, len(leaf) // size, *leaf.shape[1:]), played)
        return played, jax.tree.map(lambda leaf: True, played)

    numbers = jnp.broadcast_to(numbers[..., None, :], (*shape, players))
    games = () if opaque else jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (math.prod(shape), *leaf.shape)), game)
    flat = jax.tree.map(lambda leaf: leaf.reshape(math.prod(shape), *leaf.shape[len(shape) :]), (keys, numbers, lanes))
    played = play_all(flat[0], games, *flat[1:], stacks, arrays)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _merge_leading_axes(leaf: Array) -> Array:
    """[a, b, ...] -> [a b, ...]."""
    return leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:])  # not -1: a leaf may be empty


def _lay_out_stacks(
    game: Game, populations: StackedPolicies, own: PyTree | None, indices: Array
) -> tuple[tuple[PyTree, ...], list[int], Array]:
    """Prepares the policies of `play_indexed` as one stack, or as two if the populations are large.

    Returns:
      The stacks, the stack of each player, and the players' policies in their stacks, shaped as `indices`.
    """
    network, players = populations.apply, indices.shape[-1]
    assert isinstance(network, IndexedNetwork)
    first = (
        np.asarray(game.population_of_player) * populations.params.shape[1]
    )  # first slot of each population in the stack
    numbers = indices + np.broadcast_to(first, indices.shape)
    # Large populations are read as they are: preparing or copying them in every round costs more than the play.
    is_large = max(leaf.size for leaf in jax.tree.leaves(populations.params)) > _LARGE
    stack = network.prepare_stack(_merge_leading_axes(populations.params), lazily=is_large)
    if own is None:
        return (stack,), [0] * players, numbers
    mine = jnp.arange(len(own)).reshape(-1, *(1,) * (indices.ndim - 1))
    first_other = 0 if is_large else len(own)
    numbers = jnp.where(np.broadcast_to(np.arange(players) == 0, indices.shape), mine, numbers + first_other)
    # Prepared separately: XLA hoists the stack of unchanged populations out of a loop.
    prepared = network.prepare_stack(own, lazily=is_large)
    if is_large:
        return (prepared, stack), [0] + [1] * (players - 1), numbers
    return (jax.tree.map(lambda *both: jnp.concatenate(both), prepared, stack),), [0] * players, numbers
