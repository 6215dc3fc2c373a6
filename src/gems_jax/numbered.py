"""Play between tables that are called by number, all episodes along one axis.

XLA's CPU kernels take several times as long for the same numbers in seven axes (seeds, populations, policies,
opponents, episodes, ...) as in one. Networks need the axes apart, so that a policy's weights meet its episodes in one
matrix product; a table is looked up, and an episode then only has to know the numbers of its policies. An outer `vmap`,
over seeds or over populations, makes the one axis longer instead of adding another.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.distributions import mask_logits
from gems_jax.population import StackedPolicies
from gems_jax.tabular import TabularPolicy, ready
from gems_jax.types import Array, Game, Policy, PolicyOutput, PyTree, num_players

Tables = tuple[Array, Array]  # logits [n, I, A] and their CDFs [n, I, A]


@dataclasses.dataclass(frozen=True)
class Numbered:
    """One of many tables: phi is its number, and all of them."""

    table: TabularPolicy

    def __call__(self, phi: tuple[Array, Array, Array], observation: Array, legal: Array) -> PolicyOutput:
        number, logits, cdfs = phi
        row = self.table.place(observation)
        return PolicyOutput(mask_logits(logits[number, row], legal), cdf=cdfs[number, row], row=row)


def play_numbered(
    play: Callable[..., PyTree],
    keys: Array,
    game: Game,
    params: Array,
    opponents: StackedPolicies,
    indices: Array,
    lanes: tuple[PyTree, ...],
) -> PyTree:
    """`rollout.play_groups` of tables. keys: consumed.

    keys [C, N, M]; params [C, I, A]; opponents [P, K, I, A]; indices [C, N, players]; lanes [C, N, M, ...].
    """
    table = opponents.apply
    assert isinstance(table, TabularPolicy)
    apply, players, shape = Numbered(table), num_players(game), keys.shape
    own = np.arange(players).reshape(1, 1, 1, -1) == 0  # not of jax: `longer` runs in traces of its own
    first = np.asarray([population * opponents.params.shape[1] for population in game.population_of_player])
    others = indices[:, :, None] + first.reshape(own.shape)
    numbers = jnp.where(own, jnp.arange(shape[0]).reshape(-1, 1, 1, 1), others)  # [C, N, 1, players]

    def episode(
        key: Array, game: Game, number: Array, lane: tuple[PyTree, ...], mine: Tables, theirs: Tables
    ) -> PyTree:
        policies = (Policy((number[player], *(theirs if player else mine)), apply) for player in range(players))
        return play(key, game, tuple(policies), *lane)

    @jax.custom_batching.custom_vmap
    def all_of(
        keys: Array, game: Game, numbers: Array, lanes: tuple[PyTree, ...], mine: Tables, theirs: Tables
    ) -> PyTree:
        return jax.vmap(episode, in_axes=(0, 0, 0, 0, None, None))(keys, game, numbers, lanes, mine, theirs)

    @all_of.def_vmap
    def longer(size: int, batched: PyTree, *arguments: PyTree) -> tuple[PyTree, PyTree]:
        def each(leaf: Array, has: bool) -> Array:
            return leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape))

        keys, game, numbers, lanes, mine, theirs = jax.tree.map(each, arguments, tuple(batched))
        tables = np.where(own[0], mine[0].shape[1], theirs[0].shape[1])  # [1, 1, players]
        numbers = numbers + jnp.arange(size).reshape(-1, 1, 1) * tables
        played = all_of(*jax.tree.map(_joined, (keys, game, numbers, lanes, mine, theirs)))
        played = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), played)
        return played, jax.tree.map(lambda leaf: True, played)

    numbers = jnp.broadcast_to(numbers, (*shape, players))
    alike = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (math.prod(shape), *leaf.shape)), game)
    flat = jax.tree.map(lambda leaf: _joined(_joined(leaf)), (keys, numbers, lanes))
    mine, _ = ready(params, table)
    theirs, _ = ready(_joined(opponents.params), table)
    played = all_of(flat[0], alike, *flat[1:], mine, theirs)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _joined(leaf: Array) -> Array:
    """The first two axes as one."""
    return leaf.reshape(-1, *leaf.shape[2:])
