"""What play looks like, in numbers: encirclement in tag, coverage in spread, the centre of the board in chess.

A `Watch` is carried along an episode (`rollout.watch_episode`), so that it costs no episodes of its own. Positions are
those after every step; the start counts for nothing, since nobody chose it. A touch counts once, when it begins.
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

COVERED = 0.1  # from a landmark to the agent that covers it, as mpe2 counts
OPENING = (16, 40)  # moves of both sides, in chess, after which positions begin and cease to count for the centre
CENTRE = (27, 28, 35, 36)  # d4, d5, e4, e5, whoever is to move

Ratio = tuple[Array, Array]  # what is summed in an episode and by how much it counts: columns are ratios of the sums


class Watch(NamedTuple):
    """start(state) -> seen; add(seen, state after a step) -> seen; columns(seen, steps) -> ratios of one episode."""

    start: Callable[[GameState], PyTree]
    add: Callable[[PyTree, GameState], PyTree]
    columns: Callable[[PyTree, Array], dict[str, Ratio]]


NOTHING = Watch(lambda state: (), lambda seen, state: (), lambda seen, steps: {})


def watch_of(game: Game) -> Watch:
    """What a game's episodes are watched for; nothing in most."""
    if game.name == "simple_tag":
        return _tag(game)
    if game.name == "simple_spread":
        return _spread(game)
    return _chess() if game.name == "chess" and game.max_steps > OPENING[0] else NOTHING


def mean_and_interval(ratio: Ratio) -> tuple[Array, Array]:
    """Ratio of the sums over all episodes, and half of its 95 % interval; with weights of one a plain mean's."""
    total, weight = ratio
    count = jnp.maximum(weight.sum(), 1.0)
    mean = total.sum() / count
    return mean, normal_half_width(jnp.sqrt(jnp.sum((total - mean * weight) ** 2)), count)


def largest_gap(places: Array, seen_from: Array) -> Array:
    """Largest angle in degrees, [], between two neighbours among places [n, 2] as seen from a point [2].

    120 when three stand in an equal-sided triangle around it, 360 when all are in one direction.
    """
    away = places - seen_from[None, :]
    angles = jnp.sort(jnp.arctan2(away[:, 1], away[:, 0]))
    around = jnp.concatenate([angles[1:], angles[:1] + 2 * jnp.pi])
    return jnp.rad2deg(jnp.max(around - angles))


def mean_distance(places: Array) -> Array:
    """Between every two of places [n, 2], []."""
    return jnp.mean(_distances(places))


def covered_share(agents: Array, landmarks: Array) -> Array:
    """Share of landmarks [m, 2] with an agent [n, 2] within `COVERED`, []."""
    return jnp.mean(_between(agents, landmarks).min(axis=0) < COVERED)


def all_distinct(agents: Array, landmarks: Array) -> Array:
    """Whether the landmarks nearest to the agents are all different ones, [] bool."""
    nearest = jnp.argmin(_between(agents, landmarks), axis=1)
    same = nearest[:, None] == nearest[None, :]
    return ~jnp.any(same & ~np.eye(len(agents), dtype=bool))


def centre_share(board: Array) -> Array:
    """Share of the four central squares of a chess board [64] with a piece on them, of either colour, []."""
    return jnp.mean(board[jnp.asarray(CENTRE)] != 0)


def _between(ours: Array, theirs: Array) -> Array:
    return jnp.linalg.norm(ours[:, None, :] - theirs[None, :, :], axis=-1)


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = zip(*itertools.combinations(range(count), 2), strict=True)
    return np.asarray(first), np.asarray(second)


def _distances(places: Array) -> Array:
    """[pairs]"""
    first, second = _pairs(len(places))
    return jnp.linalg.norm(places[first] - places[second], axis=-1)


def _begun(before: Array, now: Array) -> Array:
    """How many of the touches [...] that there are now were none before, []."""
    return jnp.sum(now & ~before, dtype=jnp.float32)


def _once(values: dict[str, Array]) -> dict[str, Ratio]:
    """Columns of which an episode has one value."""
    return {name: (value, jnp.ones(())) for name, value in values.items()}


def _tag(game: Any) -> Watch:
    """Columns captures, encirclement, pursuer_spread."""
    pursuers, evader = 3, 3
    reach = game.bodies[0].radius + game.bodies[evader].radius

    def caught(position: Array) -> Array:
        return jnp.any(_between(position[:pursuers], position[evader][None]) < reach)

    def start(state: GameState) -> PyTree:
        return caught(state.inner.position), jnp.zeros(3)

    def add(seen: PyTree, state: GameState) -> PyTree:
        before, sums = seen
        position = state.inner.position
        now, hunters = caught(position), position[:pursuers]
        found = [_begun(before, now), largest_gap(hunters, position[evader]), mean_distance(hunters)]
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
    """Columns covered, collisions, distinct."""
    agents = game.num_seats
    reach = 2 * game.bodies[0].radius

    def touching(position: Array) -> Array:
        return _distances(position[:agents]) < reach

    def start(state: GameState) -> PyTree:
        return touching(state.inner.position), jnp.zeros(()), state.inner.position

    def add(seen: PyTree, state: GameState) -> PyTree:
        before, collisions, _ = seen
        now = touching(state.inner.position)
        return now, collisions + _begun(before, now), state.inner.position

    def columns(seen: PyTree, steps: Array) -> dict[str, Ratio]:
        del steps
        _, collisions, last = seen
        ours, marks = last[:agents], last[agents:]
        distinct = all_distinct(ours, marks).astype(jnp.float32)
        return _once({"covered": covered_share(ours, marks), "collisions": collisions, "distinct": distinct})

    return Watch(start, add, columns)


def _chess() -> Watch:
    """Column centre, a mean over positions: long games count by as many as lie within `OPENING`."""
    first, last = OPENING

    def start(state: GameState) -> PyTree:
        del state
        return jnp.zeros(()), jnp.zeros(())

    def add(seen: PyTree, state: GameState) -> PyTree:
        inner = state.inner.state
        counts = ((inner._step_count >= first) & (inner._step_count <= last)).astype(jnp.float32)
        return seen[0] + counts * centre_share(inner._x.board), seen[1] + counts

    return Watch(start, add, lambda seen, steps: {"centre": seen})


def behaviour_columns(watch: Watch, seen: PyTree, steps: Array) -> dict[str, Array]:
    """Columns with their intervals, [] each, of what was seen in many episodes: leaves [n, ...], steps [n]."""
    ratios = jax.vmap(watch.columns)(seen, steps)
    row: dict[str, Array] = {}
    for name, ratio in ratios.items():
        row[name], row[f"{name}_interval"] = mean_and_interval(ratio)
    return row
