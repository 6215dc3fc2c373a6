"""The sequence form of an enumerable game as arrays, built once on the host.

A *sequence* of a seat is one of its information sets and an action there, with index `infoset * A + action`; the empty
sequence of seat s has index `I * A + s`. With perfect recall the last sequence of a seat determines all its moves. A
leaf therefore needs one index per seat, and its reach is a product over seats of one lookup each.

Information sets are ordered by level, the number of earlier moves of the seat. A sweep over the levels is then a sweep
over contiguous slices, and one sweep serves all seats.
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

from gems_jax.extensive.walk import Positions, Walk, as_bytes, first_rows, is_pytree
from gems_jax.types import Array, Game, KnownSize, NotEnumerableError, Struct, num_players, static_field, supports

MAX_NODES = 200_000  # default limit on positions, for games that do not declare their size


class GameTree(Struct):
    """A finite game in sequence form. Trees of games with the same shape (matrix games) stack and vmap.

    A player that owns several seats earns the mean of their returns: `payoff` is per player.
    """

    observation: Array  # [I, *obs] float32
    legal: Array  # [I, A] bool
    seat: Array  # [I] int32, the seat to move
    parent: Array  # [I] int32, the seat's previous sequence
    twin: Array  # [I] int32, first information set of any seat with the same observation and legal actions
    chance: Array  # [L] float32, probability of the deal that the leaf belongs to
    payoff: Array  # [L, players] float32, sums of the rewards along the history
    leaf_sequence: Array  # [L, S] int32, last sequence of each seat
    level_ends: tuple[int, ...] = static_field()  # level d is the information sets level_ends[d-1]:level_ends[d]
    player_of_seat: tuple[int, ...] = static_field()
    population_of_player: tuple[int, ...] = static_field()
    number: Array | None = None  # [I] int32, the game's own index of the information set, if it has one

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
        """Returns the seats that a player owns."""
        return tuple(seat for seat, owner in enumerate(self.player_of_seat) if owner == player)


def node_limit(game: Game) -> int:
    """Returns the largest number of positions that is enumerated: `MAX_NODES`, or the game's `num_positions`."""
    return max(MAX_NODES, game.num_positions) if supports(game, KnownSize) else MAX_NODES


def build_tree(game: Game, max_nodes: int | None = None) -> GameTree:
    """Enumerates a game from all of its `deals` to all ends; the tree is cached by the value of the game.

    Seats that move simultaneously are expanded jointly; none observes the others' choice. `step` must be deterministic:
    a game with random rewards may provide `expected_step(state, actions)`, its step with mean rewards. Works inside a
    trace if the game itself is concrete. Numbers are float32, or float64 if that is enabled.

    Args:
      game: the game.
      max_nodes: largest number of positions; None for the game's `node_limit`.

    Returns:
      The tree.

    Raises:
      ImperfectRecallError: if a seat's observation forgets its own moves. `build_history_tree` then adds them.
      NotEnumerableError: if the game is continuous, random after the deal, or too large.
      ValueError: if `max_nodes` is not positive, or if the game is traced.
    """
    max_nodes = node_limit(game) if max_nodes is None else max_nodes
    if max_nodes < 1:
        raise ValueError(f"max_nodes must be positive, got {max_nodes}.")
    return _cached_build(game_key(game), max_nodes)


def is_enumerable(game: Game) -> bool:
    """Returns whether the game's tree can be built, as tabular policies, exact responses and CFR need it.

    Exact evaluation needs less: `recall.has_exact_evaluation`.
    """
    try:
        build_tree(game)
    except NotEnumerableError:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class GameKey:
    """Compares games by value, including those that hold arrays (matrix games)."""

    value: Hashable
    game: Game = dataclasses.field(compare=False)


def game_key(game: Game) -> GameKey:
    """Returns the key under which trees of a game are cached.

    Raises:
      ValueError: if the game is traced.
    """
    return GameKey((_value_of(game), jnp.result_type(float)), game)


def _value_of(game: Any) -> Hashable:
    if not is_pytree(game):
        return game  # it must be hashable
    leaves, structure = jax.tree.flatten(game)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise ValueError(
            f"cannot build the tree of {game.name!r}: expected a concrete game, got a traced one. Call "
            "build_tree outside of jit and vmap and pass the tree. Trees of games with the same shape stack and vmap."
        )
    return structure, tuple(map(_value_of_array, leaves))


def _value_of_array(leaf: Any) -> Hashable:
    array = np.asarray(leaf)
    return array.shape, array.dtype.str, array.tobytes()


@lru_cache(maxsize=64)
def _cached_build(key: GameKey, max_nodes: int) -> GameTree:
    with eager_evaluation():
        walk = Walk(key.game, max_nodes)
        leaves = walk.run()
        order, _ = sort_infosets(walk)
        tree = sequence_arrays(walk, leaves)
        return tree.replace(
            observation=jnp.asarray(np.stack(walk.observation)[order], jnp.float32),
            number=jnp.asarray(np.asarray(walk.number)[order], jnp.int32) if walk.number else None,
        )


def eager_evaluation() -> contextlib.AbstractContextManager[None]:
    """Returns the context in which a game is stepped eagerly, also inside a trace; no-op outside, where it is slow."""
    tracing = isinstance(jnp.zeros(()), jax.core.Tracer)
    return jax.ensure_compile_time_eval() if tracing else contextlib.nullcontext()


def sort_infosets(walk: Walk) -> tuple[np.ndarray, np.ndarray]:
    """Sorts the information sets of a finished walk by (level, seat, discovery).

    Returns:
      The discovered information set at each index of the tree [I], and the levels in the order of discovery [I].
    """
    levels: list[int] = []
    for parent in walk.parent:  # parents were discovered before
        levels.append(0 if parent < 0 else levels[parent // walk.game.num_actions] + 1)
    level = np.asarray(levels)
    return np.lexsort((np.arange(len(level)), np.asarray(walk.seat, int), level)), level


def sequence_arrays(walk: Walk, leaves: list[Positions]) -> GameTree:
    """Sorts the information sets of a finished walk and renumbers the sequences accordingly.

    Args:
      walk: the walk.
      leaves: what its `run` returned.

    Returns:
      The tree, with empty observations [I, 0] and without indices of the game's own.
    """
    actions, total, seats = walk.game.num_actions, len(walk.seat), walk.game.num_seats
    parent, seat = np.asarray(walk.parent, int), np.asarray(walk.seat, int)
    order, level = sort_infosets(walk)
    place = np.argsort(order)

    def renumber(sequence: np.ndarray, owner: np.ndarray) -> Array:
        moved = place[np.maximum(sequence, 0) // actions] * actions + sequence % actions
        return jnp.asarray(np.where(sequence < 0, total * actions + owner, moved), jnp.int32)

    observation, legal, view = np.stack(walk.observation), np.stack(walk.legal), np.asarray(walk.view)[order]
    look = first_rows(np.concatenate([as_bytes(observation), as_bytes(legal)], axis=1))[1][view]
    _, firsts, inverse = np.unique(look, return_index=True, return_inverse=True)
    dtype, ends = jnp.result_type(float), Positions.join(leaves)
    owners = np.asarray(walk.game.player_of_seat)
    payoff = [ends.returns[:, owners == player].mean(axis=1) for player in range(num_players(walk.game))]
    return GameTree(
        observation=jnp.zeros((total, 0), jnp.float32),
        legal=jnp.asarray(legal[view]),
        seat=jnp.asarray(seat[order], jnp.int32),
        parent=renumber(parent[order], seat[order]),
        twin=jnp.asarray(firsts[inverse.ravel()], jnp.int32),
        chance=jnp.asarray(ends.chance, dtype),
        payoff=jnp.asarray(np.stack(payoff, axis=1), dtype),
        leaf_sequence=renumber(ends.last, np.arange(seats)),
        level_ends=tuple(np.cumsum(np.bincount(level)).tolist()),
        player_of_seat=tuple(walk.game.player_of_seat),
        population_of_player=tuple(walk.game.population_of_player),
    )
