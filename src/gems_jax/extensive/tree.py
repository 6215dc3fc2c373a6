"""An enumerable game, walked once on the host into arrays.

The arrays are those of the sequence form. A *sequence* of a seat is an information set of its own and an action there,
numbered `infoset * A + action`; the empty sequence of seat s is number `I * A + s`. With perfect recall the last
sequence of a seat says all that it has done, so a leaf needs one number per seat, and the reach of any leaf is a
product over seats of one looked-up number each.

Information sets are ordered by level, the number of moves that the seat has made before: then a sweep over the levels
is a sweep over contiguous slices, and the same one serves every seat at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.walk import Positions, Walk, as_bytes, registered
from gems_jax.types import Array, Game, KnownSize, NotEnumerableError, Struct, num_players, static_field, supports

MAX_NODES = 200_000  # of games that do not know how large they are


class GameTree(Struct):
    """A finite game in sequence form. Trees of games with the same shape (matrix games) stack and vmap.

    A player that owns several seats earns the mean of their returns: `payoff` is per player.
    """

    observation: Array  # [I, *obs] float32
    legal: Array  # [I, A] bool
    seat: Array  # [I] int32, who moves there
    parent: Array  # [I] int32, the seat's sequence that leads there
    twin: Array  # [I] int32, first information set that looks the same to a policy (observation and legal), any seat
    chance: Array  # [L] float32, probability of the deal that the leaf belongs to
    payoff: Array  # [L, players] float32, sums of the rewards on the way
    leaf_sequence: Array  # [L, S] int32, last sequence of each seat
    level_ends: tuple[int, ...] = static_field()  # level d is the information sets level_ends[d-1]:level_ends[d]
    player_of_seat: tuple[int, ...] = static_field()
    population_of_player: tuple[int, ...] = static_field()
    number: Array | None = None  # [I] int32, what the game itself calls it, where it numbers what is seen

    @property
    def num_infosets(self) -> int:
        return self.legal.shape[-2]

    @property
    def num_actions(self) -> int:
        return self.legal.shape[-1]

    @property
    def num_leaves(self) -> int:
        return self.chance.shape[-1]

    @property
    def num_seats(self) -> int:
        return len(self.player_of_seat)

    @property
    def num_players(self) -> int:
        return len(self.population_of_player)

    @property
    def num_populations(self) -> int:
        return max(self.population_of_player) + 1

    @property
    def levels(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip((0, *self.level_ends[:-1]), self.level_ends, strict=True))

    def seats_of(self, player: int) -> tuple[int, ...]:
        return tuple(seat for seat, owner in enumerate(self.player_of_seat) if owner == player)


def node_limit(game: Game) -> int:
    """Returns the number of positions up to which a game is walked: `MAX_NODES`, or its own `num_positions`."""
    return max(MAX_NODES, game.num_positions) if supports(game, KnownSize) else MAX_NODES


def build_tree(game: Game, max_nodes: int | None = None) -> GameTree:
    """Walks `game` from every one of its `deals` to every end, and remembers the tree (by the value of the game).

    Seats that move at once are expanded jointly; none of them sees what the others choose. `step` must not draw at
    random: a game with noisy rewards may offer `expected_step(state, actions)`, its step with mean rewards.
    Works inside a trace, as long as the game itself is concrete. Numbers are float32, or float64 where that is enabled.

    Raises NotEnumerableError when the game is continuous, random after the deal, larger than `max_nodes` positions (by
    default its `node_limit`), or forgetful (a seat that cannot tell apart two positions before which it acted
    differently).
    """
    max_nodes = node_limit(game) if max_nodes is None else max_nodes
    if max_nodes < 1:
        raise ValueError(f"max_nodes must be positive, got {max_nodes}.")
    return _cached_build(_Key((_value_of(game), jnp.result_type(float)), game), max_nodes)


def walkable(game: Game) -> bool:
    """Whether the game's tree can be built."""
    try:
        build_tree(game)
    except NotEnumerableError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class _Key:
    """Games compared by value, those that hold arrays (matrix games) too."""

    value: Hashable
    game: Game = dataclasses.field(compare=False)


def _value_of(game: Any) -> Hashable:
    if not registered(game):
        return game  # then it must hash by itself
    leaves, structure = jax.tree.flatten(game)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise ValueError(
            f"The game {game.name!r} is traced, but its tree is walked on the host: build the tree outside of jit "
            "and vmap (build_tree), and pass it in. Trees of games with the same shape stack and vmap."
        )
    return structure, tuple(map(_value_of_array, leaves))


def _value_of_array(leaf: Any) -> Hashable:
    array = np.asarray(leaf)
    return array.shape, array.dtype.str, array.tobytes()


@lru_cache(maxsize=64)
def _cached_build(key: _Key, max_nodes: int) -> GameTree:
    with eager_evaluation():
        walk = Walk(key.game, max_nodes)
        return _arrays(walk, walk.run())


def eager_evaluation() -> contextlib.AbstractContextManager[None]:
    """Return the context in which a walk runs now, also inside a trace. Outside, it would only make the walk slow."""
    tracing = isinstance(jnp.zeros(()), jax.core.Tracer)
    return jax.ensure_compile_time_eval() if tracing else contextlib.nullcontext()


def sort_infosets(walk: Walk) -> tuple[np.ndarray, np.ndarray]:
    """Sort the information sets of a finished walk by (level, seat, discovery).

    Returns:
        The discovered information set at each index of the tree [I], and the levels in the order of discovery [I].
    """
    parent, total = np.asarray(walk.parent, int), len(walk.seat)
    level = np.zeros(total, int)
    for infoset in range(total):  # parents were discovered before
        level[infoset] = 0 if parent[infoset] < 0 else level[parent[infoset] // walk.game.num_actions] + 1
    return np.lexsort((np.arange(total), np.asarray(walk.seat, int), level)), level


def _arrays(walk: Walk, leaves: list[Positions]) -> GameTree:
    """Sorts the information sets and renumbers the sequences accordingly."""
    actions, total, seats = walk.game.num_actions, len(walk.seat), walk.game.num_seats
    parent, seat = np.asarray(walk.parent, int), np.asarray(walk.seat, int)
    order, level = sort_infosets(walk)
    place = np.argsort(order)

    def renumber(sequence: np.ndarray, owner: np.ndarray) -> Array:
        moved = place[np.maximum(sequence, 0) // actions] * actions + sequence % actions
        return jnp.asarray(np.where(sequence < 0, total * actions + owner, moved), jnp.int32)

    observation, legal = np.stack(walk.observation)[order], np.stack(walk.legal)[order]
    looks = np.concatenate([as_bytes(observation), as_bytes(legal)], axis=1)
    _, firsts, inverse = np.unique(looks, axis=0, return_index=True, return_inverse=True)
    dtype, ends = jnp.result_type(float), Positions.join(leaves)
    owners = np.asarray(walk.game.player_of_seat)
    payoff = [ends.returns[:, owners == player].mean(axis=1) for player in range(num_players(walk.game))]
    return GameTree(
        observation=jnp.asarray(observation, jnp.float32),
        legal=jnp.asarray(legal),
        seat=jnp.asarray(seat[order], jnp.int32),
        parent=renumber(parent[order], seat[order]),
        twin=jnp.asarray(firsts[inverse.ravel()], jnp.int32),
        chance=jnp.asarray(ends.chance, dtype),
        payoff=jnp.asarray(np.stack(payoff, axis=1), dtype),
        leaf_sequence=renumber(ends.last, np.arange(seats)),
        level_ends=tuple(np.cumsum(np.bincount(level)).tolist()),
        player_of_seat=tuple(walk.game.player_of_seat),
        population_of_player=tuple(walk.game.population_of_player),
        number=jnp.asarray(np.asarray(walk.number)[order], jnp.int32) if walk.number else None,
    )
