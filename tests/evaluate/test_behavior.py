"""Behaviour in numbers: places with known angles and distances, scripted episodes, and a run's row."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate import behavior
from gems_jax.evaluate.sampled import random_profile, sampled_row
from gems_jax.rollout.episode import watch_episode
from gems_jax.types import Policy
from toy_games import constant

TAG, SPREAD = make_game("simple_tag"), make_game("simple_spread")


def around(*degrees, distance=0.5):
    angles = np.deg2rad(degrees)
    return distance * np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize(
    ("degrees", "gap"),
    [
        ((0, 120, 240), 120),
        ((170, 290, 50), 120),  # in any order, across the cut of the arctangent
        ((40, 40, 40), 360),
        ((0, 90, 180), 180),
        ((0, 180, 180), 180),
        ((350, 0, 10), 340),
    ],
)
def test_the_largest_gap_between_pursuers(degrees, gap):
    evader = np.asarray([0.3, -0.7])
    places = jnp.asarray(evader + around(*degrees, distance=0.4))
    np.testing.assert_allclose(behavior.largest_gap(places, jnp.asarray(evader)), gap, rtol=1e-4)


def test_distances_coverage_and_assignment():
    marks = jnp.asarray([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(behavior.mean_distance(marks), 4.0)  # 3, 4 and 5
    agents = jnp.asarray([[0.0, 0.09], [3.0, 0.11], [0.05, 0.0]])
    np.testing.assert_allclose(behavior.covered_fraction(agents, marks), 1 / 3)
    assert not behavior.all_distinct(agents, marks)  # the first and the last stand at the same one
    assert behavior.all_distinct(marks[::-1] + 0.3, marks)


def test_the_centre_of_a_chess_board():
    from pgx._src.games.chess import INIT_BOARD

    assert behavior.center_fraction(INIT_BOARD) == 0.0
    pawn = INIT_BOARD.at[4 * 8 + 1].set(0).at[4 * 8 + 3].set(1)  # e2 to e4
    assert behavior.center_fraction(pawn) == 0.25
    assert behavior.center_fraction(pawn.at[3 * 8 + 4].set(-1)) == 0.5  # and d7 to d5


def watched(watch, states):
    seen = watch.start(states[0])
    for state in states[1:]:
        seen = watch.add(seen, state)
    return {name: float(t / w) for name, (t, w) in watch.columns(seen, jnp.int32(len(states) - 1)).items()}


def at(position):
    return SimpleNamespace(inner=SimpleNamespace(position=jnp.asarray(position, jnp.float32)))


def test_captures_are_touches_that_begin():
    """The evader is touched from the start on, let go, touched by one and then another as well, let go, and touched.

    Pursuers stand in a triangle of side 0.5 sqrt 3; who touches comes to 0.1 in the same direction, of 0.125."""
    far, obstacles = around(0, 120, 240), np.full((2, 2), 5.0)

    def moment(*touching):
        pursuers = far * np.where(np.isin(np.arange(3), touching), 0.2, 1.0)[:, None]
        return at(np.concatenate([pursuers, np.zeros((1, 2)), obstacles]))

    states = [moment(0), moment(0), moment(), moment(1), moment(1, 2), moment(), moment(2)]
    found = watched(behavior.make_watch(TAG), states)
    assert found["captures"] == 2.0
    np.testing.assert_allclose(found["encirclement"], 120.0, rtol=1e-4)
    alone = watched(behavior.make_watch(TAG), [moment(0), moment(), moment()])
    assert alone["captures"] == 0.0
    np.testing.assert_allclose(alone["pursuer_spread"], np.sqrt(0.75), rtol=1e-5)


def test_collisions_begin_and_the_end_is_what_counts():
    marks = np.asarray([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])

    def moment(*x):
        return at(np.concatenate([np.stack([x, np.zeros(3)], axis=1), marks]))

    states = [moment(0.0, 0.2, 1.0), moment(0.0, 0.2, 1.0), moment(0.0, 0.5, 0.7), moment(0.0, 0.2, 0.4)]
    found = watched(behavior.make_watch(SPREAD), states)
    # touching within 0.3: 0-1 at the start (not counted); 1-2 begins; 0-1 begins again while 1-2 goes on
    assert found["collisions"] == 2.0 and found["distinct"] == 0.0
    np.testing.assert_allclose(found["covered"], 1 / 3)
    assert watched(behavior.make_watch(SPREAD), [*states, moment(1.0, -1.0, 0.05)])["distinct"] == 1.0


def test_positions_of_the_opening_count_for_the_centre():
    def after(moves, pieces):
        board = jnp.zeros(64, jnp.int32).at[jnp.asarray(behavior.CENTER[:pieces], int)].set(1)
        return SimpleNamespace(
            inner=SimpleNamespace(state=SimpleNamespace(_step_count=jnp.int32(moves), _x=SimpleNamespace(board=board)))
        )

    watch = behavior.make_watch(SimpleNamespace(name="chess", max_steps=512))
    assert watched(watch, [after(0, 0), after(15, 4), after(16, 1), after(40, 2), after(41, 4)]) == {"centre": 0.375}
    assert behavior.make_watch(SimpleNamespace(name="chess", max_steps=16)) is behavior.NOTHING


def test_ratios_with_their_intervals():
    values = jnp.asarray([1.0, 2.0, 3.0, 6.0])
    mean, half = behavior.mean_and_interval((values, jnp.ones(4)))
    np.testing.assert_allclose((mean, half), (3.0, 1.96 * np.std(values) / 2), rtol=1e-6)
    mean, half = behavior.mean_and_interval((jnp.asarray([1.0, 3.0, 0.0]), jnp.asarray([2.0, 6.0, 0.0])))
    np.testing.assert_allclose((mean, half), (0.5, 0.0))  # an episode that has nothing to say says nothing


def test_nothing_is_seen_after_the_end():
    """Kuhn poker is laid out straight, and ends after two or three steps: steps that are seen are steps of the game."""
    game = make_game("kuhn_poker")
    both = (Policy(jnp.zeros(game.num_actions), constant),) * 2

    def count(key):
        return watch_episode(key, game, both, lambda state: jnp.int32(0), lambda seen, state: seen + 1)

    episode, seen = jax.jit(jax.vmap(count))(jax.random.split(jax.random.key(0), 64))
    np.testing.assert_array_equal(seen, episode.length)
    assert set(np.unique(seen)) == {2, 3}


def test_rows_of_the_particle_worlds():
    """Random play: nobody surrounds anybody, three random directions leave a gap of 220 degrees (11/18 of a circle)."""
    row = jax.jit(lambda key: sampled_row(key, TAG, random_profile(TAG), 512))(jax.random.key(0))
    assert {"captures", "encirclement", "pursuer_spread"} <= set(row)
    assert 220 < row["encirclement"] < 300  # wider still, since an evader near a wall has nobody beyond it
    assert 0 < row["captures"] < row["return_pursuers"] / 10 + row["captures_interval"]  # which pays for every step
    assert all(float(row[f"{name}_interval"]) > 0 for name in ("captures", "encirclement", "pursuer_spread"))
