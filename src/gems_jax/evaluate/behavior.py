"""Statistics of play: encirclement in tag, coverage in spread, occupation of the center in chess.

A `Watch` is carried along an episode (`rollout.watch_episode`), so it needs no extra episodes. It sees the position
after every step, and not the initial position, which no player chose. A touch counts once, when it begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.statistics import normal_half_width
from gems_jax.types import Array, Game, GameState, PyTree

COVERED = 0.1  # largest distance from a landmark to the agent that covers it, as in mpe2
OPENING = (16, 40)  # chess: first and last ply (moves of both sides) whose position counts for the center
CENTER = (27, 28, 35, 36)  # d4, d5, e4, e5, from the view of either side

Ratio = tuple[Array, Array]  # an episode's sum and its weight: a column is the ratio of both summed over episodes


class Watch(NamedTuple):
    """Collects statistics along an episode.

    Attributes:
      start: start(state) -> seen.
      add: add(seen, state after a step) -> seen.
      columns: columns(seen, steps) -> {column: ratio of one episode}.
    """

    start: Callable[[GameState], PyTree]
    add: Callable[[PyTree, GameState], PyTree]
    columns: Callable[[PyTree, Array], dict[str, Ratio]]


NOTHING = Watch(lambda state: (), lambda seen, state: (), lambda seen, steps: {})


def make_watch(game: Game) -> Watch:
    """Returns the statistics that a game's episodes are watched for; `NOTHING` for most games."""
    if game.name == "simple_tag":
        return _tag(game)
    if game.name == "simple_spread":
        return _spread(game)
    return _chess() if game.name == "chess" and game.max_steps > OPENING[0] else NOTHING


def mean_and_interval(ratio: Ratio) -> tuple[Array, Array]:
    """Computes the ratio of sums over all episodes and half of its 95 % interval.

    Args:
      ratio: sums and weights of the episodes, [n] each. With unit weights the result is that of a plain mean.

    Returns:
      The ratio and the half width, [] each.
    """
    total, weight = ratio
    count = jnp.maximum(weight.sum(), 1.0)
    mean = total.sum() / count
    return mean, normal_half_width(jnp.sqrt(jnp.sum((total - mean * weight) ** 2)), count)


def largest_gap(positions: Array, seen_from: Array) -> Array:
    """Computes the largest angle between neighboring points as seen from a center.

    Args:
      positions: points, [n, 2].
      seen_from: the center, [2].

    Returns:
      Degrees, []: 120 for three points in an equilateral triangle around the center, 360 for one direction.
    """
    away = positions - seen_from[None, :]
    angles = jnp.sort(jnp.arctan2(away[:, 1], away[:, 0]))
    around = jnp.concatenate([angles[1:], angles[:1] + 2 * jnp.pi])
    return jnp.rad2deg(jnp.max(around - angles))


def mean_distance(positions: Array) -> Array:
    """Returns the mean distance [] between two of the positions [n, 2]."""
    return jnp.mean(_pair_distances(positions))


def covered_fraction(agents: Array, landmarks: Array) -> Array:
    """Returns the fraction [] of landmarks [m, 2] that have an agent [n, 2] within `COVERED`."""
    return jnp.mean(_cross_distances(agents, landmarks).min(axis=0) < COVERED)


def all_distinct(agents: Array, landmarks: Array) -> Array:
    """Returns whether no two agents [n, 2] have the same nearest landmark [m, 2], [] bool."""
    nearest = jnp.argmin(_cross_distances(agents, landmarks), axis=1)
    same = nearest[:, None] == nearest[None, :]
    return ~jnp.any(same & ~np.eye(len(agents), dtype=bool))


def center_fraction(board: Array) -> Array:
    """Returns the fraction [] of the four central squares of a chess board [64] that hold any piece."""
    return jnp.mean(board[jnp.asarray(CENTER)] != 0)


def _cross_distances(ours: Array, theirs: Array) -> Array:
    """Distances [n, m] between points [n, 2] and [m, 2]."""
    return jnp.linalg.norm(ours[:, None, :] - theirs[None, :, :], axis=-1)


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = zip(*itertools.combinations(range(count), 2), strict=True)
    return np.asarray(first), np.asarray(second)


def _pair_distances(positions: Array) -> Array:
    """Distances [pairs] between every two of the positions [n, 2]."""
    first, second = _pairs(len(positions))
    return jnp.linalg.norm(positions[first] - positions[second], axis=-1)


def _count_new_touches(before: Array, now: Array) -> Array:
    """Counts the touches [...] that begin now, []."""
    return jnp.sum(now & ~before, dtype=jnp.float32)


def _weigh_once(values: dict[str, Array]) -> dict[str, Ratio]:
    """Makes columns that have one value per episode."""
    return {name: (value, jnp.ones(())) for name, value in values.items()}


def _tag(game: Any) -> Watch:
    """Makes the columns captures, encirclement, pursuer_spread."""
    pursuers, evader = 3, 3
    reach = game.bodies[0].radius + game.bodies[evader].radius

    def is_caught(position: Array) -> Array:
        return jnp.any(_cross_distances(position[:pursuers], position[evader][None]) < reach)

    def start(state: GameState) -> PyTree:
        return is_caught(state.inner.position), jnp.zeros(3)

    def add(seen: PyTree, state: GameState) -> PyTree:
        before, sums = seen
        position = state.inner.position
        now, hunters = is_caught(position), position[:pursuers]
        found = [_count_new_touches(before, now), largest_gap(hunters, position[evader]), mean_distance(hunters)]
        return now, sums + jnp.stack(found)

    def columns(seen: PyTree, steps: Array) -> dict[str, Ratio]:
        captures, gap, spread = seen[1]
        one = jnp.ones(())
        return {
            "captures": (captures, one),
            "encirclement": (gap / steps, one),
            "pursuer_spread": (spread / steps, one),
        }

    return Watch(start, add, columns)


def _spread(game: Any) -> Watch:
    """Makes the columns covered, collisions, distinct."""
    agents = game.num_seats
    reach = 2 * game.bodies[0].radius

    def find_touches(position: Array) -> Array:
        return _pair_distances(position[:agents]) < reach

    def start(state: GameState) -> PyTree:
        return find_touches(state.inner.position), jnp.zeros(()), state.inner.position

    def add(seen: PyTree, state: GameState) -> PyTree:
        before, collisions, _ = seen
        now = find_touches(state.inner.position)
        return now, collisions + _count_new_touches(before, now), state.inner.position

    def columns(seen: PyTree, steps: Array) -> dict[str, Ratio]:
        del steps
        _, collisions, last = seen
        ours, marks = last[:agents], last[agents:]
        distinct = all_distinct(ours, marks).astype(jnp.float32)
        return _weigh_once({"covered": covered_fraction(ours, marks), "collisions": collisions, "distinct": distinct})

    return Watch(start, add, columns)


def _chess() -> Watch:
    """Makes the column centre, a mean over all positions within `OPENING`: long games weigh more."""
    first, last = OPENING

    def start(state: GameState) -> PyTree:
        del state
        return jnp.zeros(()), jnp.zeros(())

    def add(seen: PyTree, state: GameState) -> PyTree:
        inner = state.inner.state
        counts = ((inner._step_count >= first) & (inner._step_count <= last)).astype(jnp.float32)
        return seen[0] + counts * center_fraction(inner._x.board), seen[1] + counts

    return Watch(start, add, lambda seen, steps: {"centre": seen})


def behavior_columns(watch: Watch, seen: PyTree, steps: Array) -> dict[str, Array]:
    """Computes every column and its interval from many episodes.

    Args:
      watch: the statistics of the game.
      seen: their final values, leaves [n, ...].
      steps: lengths of the episodes, [n].

    Returns:
      `{column: mean, column_interval: half of the 95 % interval}`, [] each.
    """
    ratios = jax.vmap(watch.columns)(seen, steps)
    row: dict[str, Array] = {}
    for name, ratio in ratios.items():
        row[name], row[f"{name}_interval"] = mean_and_interval(ratio)
    return row
