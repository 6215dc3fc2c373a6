"""Play between tables that are called by number, all episodes along one axis.

XLA's CPU kernels take several times as long for the same numbers in seven axes (seeds, populations, policies,
opponents, episodes, ...) as in one. Networks need the axes apart, so that a policy's weights meet its episodes in one
matrix product; a table is looked up, and an episode then only has to know the numbers of its policies. An outer `vmap`,
over seeds or over populations, makes the one axis longer instead of adding another.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile import once
from gems_jax.policies.distributions import mask_logits
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy, ready
from gems_jax.types import Array, Game, Policy, PolicyOutput, PyTree, num_players

Tables = tuple[Array, Array]  # logits [n, I, A] and their CDFs [n, I, A - 1], rows as `Numbered.place` counts them


@dataclasses.dataclass(frozen=True)
class Numbered:
    """One of many tables: phi is its number, and all of them.

    Where the game numbers what is seen, `by_infoset`, that number comes in place of the observation, which then need
    not be made and found among the table's rows.
    """

    table: TabularPolicy

    @property
    def by_infoset(self) -> bool:
        return self.table.row_of_infoset is not None

    def ready(self, params: Array) -> Tables:
        """Tables [n, I, A] as they are best played from."""
        tables, _ = ready(params, self.table)
        rows = self.table.row_of_infoset
        return tables if rows is None else jax.tree.map(lambda leaf: leaf[:, rows], tables)

    def place(self, seen: Array) -> Array:
        """The row of the tables for what is seen."""
        return seen if self.by_infoset else self.table.place(seen)

    def __call__(self, phi: tuple[Array, Array, Array], seen: Array, legal: Array) -> PolicyOutput:
        number, logits, cdfs = phi
        place, rows = self.place(seen), self.table.row_of_infoset
        row = place if rows is None else jnp.asarray(rows)[place]
        return PolicyOutput(mask_logits(logits[number, place], legal), cdf=cdfs[number, place], row=row)


def in_turns(game: Game, policies: tuple[Policy, ...]) -> bool:
    """Whether one seat moves at a time, and all are played by tables of one set."""
    numbered = all(isinstance(policy.apply, Numbered) for policy in policies)
    return numbered and not game.simultaneous and game.player_of_seat == tuple(range(game.num_seats))


def mover_action(policies: tuple[Policy, ...], seen: Array, to_move: Array, noise: Array) -> Array:
    """The action [] of the seat that is to move: one look-up, whoever that is."""

    def movers(of_seats: Sequence[Array] | Array) -> Array:
        found = of_seats[0]
        for seat in range(1, len(policies)):
            found = jnp.where(to_move[seat], of_seats[seat], found)
        return found

    _, _, cdfs = policies[0].params
    apply = policies[0].apply
    assert isinstance(apply, Numbered)
    cdf = cdfs[movers([policy.params[0] for policy in policies]), apply.place(movers(seen))]
    return jnp.sum(once(cdf <= movers(noise)), dtype=jnp.int32)  # all that follows is made of it


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
    others = shape[0] + indices[:, :, None] + first.reshape(own.shape)
    numbers = jnp.where(own, jnp.arange(shape[0]).reshape(-1, 1, 1, 1), others)  # [C, N, 1, players]
    # apart: where the others stay as they are, theirs are made once
    mine, theirs = apply.ready(params), apply.ready(_joined(opponents.params))
    tables = jax.tree.map(lambda *both: jnp.concatenate(both), mine, theirs)

    def episode(key: Array, game: Game, number: Array, lane: tuple[PyTree, ...], tables: Tables) -> PyTree:
        policies = (Policy((number[player], *tables), apply) for player in range(players))
        return play(key, game, tuple(policies), *lane)

    @jax.custom_batching.custom_vmap
    def all_of(keys: Array, game: Game, numbers: Array, lanes: tuple[PyTree, ...], tables: Tables) -> PyTree:
        return jax.vmap(episode, in_axes=(0, 0, 0, 0, None))(keys, game, numbers, lanes, tables)

    @all_of.def_vmap
    def longer(size: int, batched: PyTree, *arguments: PyTree) -> tuple[PyTree, PyTree]:
        def each(leaf: Array, has: bool) -> Array:
            return leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape))

        keys, game, numbers, lanes, tables = jax.tree.map(each, arguments, tuple(batched))
        numbers = numbers + jnp.arange(size).reshape(-1, 1, 1) * tables[0].shape[1]
        played = all_of(*jax.tree.map(_joined, (keys, game, numbers, lanes, tables)))
        played = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), played)
        return played, jax.tree.map(lambda leaf: True, played)

    numbers = jnp.broadcast_to(numbers, (*shape, players))
    alike = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (math.prod(shape), *leaf.shape)), game)
    flat = jax.tree.map(lambda leaf: _joined(_joined(leaf)), (keys, numbers, lanes))
    played = all_of(flat[0], alike, *flat[1:], tables)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _joined(leaf: Array) -> Array:
    """The first two axes as one."""
    return leaf.reshape(-1, *leaf.shape[2:])
