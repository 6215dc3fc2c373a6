"""Mixtures against fixed opponents: scripted positions, known shares, and the monitor's columns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head, measure_against
from gems_jax.evaluate.sampled import headlines, random_profile, sampled_row
from gems_jax.opponents.connect_four import tactician
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import cheap_opponents
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.runner.driver import run
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.types import Policy, Profile, Solver
from toy_games import constant, pure, team_game

RPS = make_game("rock_paper_scissors")


def profile_of(*rows):
    """Two populations with the same policies; sigma gives the second one a quarter."""
    stacked = StackedPolicies(jnp.stack([jnp.stack(rows)] * 2), constant)
    return Profile(stacked, jnp.asarray([[0.75, 0.25]] * 2))


def test_mixture_against_a_fixed_opponent():
    """Rock three times in four, otherwise paper, against scissors: wins 3/4, loses 1/4; draws are stratified."""
    mixture = profile_of(pure(3, 0)[0], pure(3, 1)[0])
    scissors = Policy(pure(3, 2)[0], constant)
    found = jax.jit(lambda k: head_to_head(k, RPS, mixture, scissors, 1, 128))(jax.random.key(0))
    assert found.win == 0.75 and found.draw == 0.0 and found.mean == 0.5 and found.episodes == 128 and found.length == 1
    np.testing.assert_allclose(found.interval, 1.96 * np.sqrt(0.75) / np.sqrt(128), rtol=1e-5)
    rock = Policy(pure(3, 0)[0], constant)
    pooled = jax.jit(lambda k: measure_against(k, RPS, mixture, rock, 256))(jax.random.key(0))
    assert pooled.win == 0.25 and pooled.draw == 0.75 and pooled.episodes == 256
    np.testing.assert_allclose(pooled.interval, 1.96 * np.sqrt(0.1875) / np.sqrt(256), rtol=1e-5)


def test_random_play_is_uniform_over_legal_actions():
    policy = random_policy(make_game("connect_four"))
    legal = jnp.asarray([True, False, True, True, False, False, True])
    chance = jax.nn.softmax(policy.apply(policy.params, jnp.zeros((6, 7, 2)), legal).logits)
    np.testing.assert_allclose(chance, legal / 4.0)


def board(*rows):
    """Six rows of seven, x the tactician's stones, o the other's."""
    cells = np.asarray([list(row) for row in rows])
    return jnp.asarray(np.stack([cells == "x", cells == "o"], axis=-1), jnp.float32)


EMPTY = "......."


@pytest.mark.parametrize(
    ("position", "columns"),
    [
        ([EMPTY] * 5 + ["xxx.ooo"], [3]),  # wins, though it could block in the same place
        ([EMPTY] * 5 + [".ooo..."], [0, 4]),  # blocks
        ([EMPTY] * 2 + ["o......", "o.....x", "o.....x", "x.....x"], [6]),  # wins rather than blocks
        ([EMPTY] * 4 + ["..x....", ".xo.ooo"], [3]),
        ([EMPTY] * 3 + ["..xo...", ".xoo...", "xooxoxo"], [3]),  # a diagonal, completed on top
        ([EMPTY] * 4 + ["xxx....", "oox..oo"], list(range(7))),  # a stone in column 3 would land below the three
        ([EMPTY] * 6, list(range(7))),
    ],
)
def test_the_tactician_wins_blocks_or_does_not_care(position, columns):
    policy = tactician()
    seen = board(*position)
    legal = seen.sum(axis=(0, 2)) < 6
    chance = jax.nn.softmax(policy.apply(policy.params, seen, legal).logits)
    assert list(np.flatnonzero(np.asarray(chance) > 1e-6)) == columns
    np.testing.assert_allclose(chance.sum(), 1.0, rtol=1e-6)


def test_the_tactician_beats_random_play():
    """Random play wins about 4 % against it; 0.85 is 7 standard errors from 0.96 with 200 episodes."""
    game = make_game("connect_four")
    assert set(cheap_opponents(game)) == {"random", "tactician"} and set(cheap_opponents(RPS)) == {"random"}
    profile = fixed_profile(game, tactician())
    found = jax.jit(lambda k: measure_against(k, game, profile, random_policy(game), 200))(jax.random.key(0))
    assert found.win > 0.85


class Counts(NamedTuple):
    """What a solver reports."""

    episodes: jax.Array
    env_steps: jax.Array
    entropy: jax.Array


def test_columns_of_a_game_that_cannot_be_walked():
    """Both seats play the square with their number if they may, from a solver that learns nothing."""
    game = make_game("tic_tac_toe")
    squares = StackedPolicies(100.0 * jnp.eye(9)[:2, None], constant)
    profile = Profile(squares, jnp.ones((2, 1)))
    metrics = Counts(jnp.int32(1), jnp.int32(2), jnp.asarray([0.25, 0.75]))
    solver = Solver(lambda key: (), lambda state, key: (state, metrics), lambda state, which="iterate": profile)
    monitor = make_monitor(game, solver, RunOptions(chunk=2, exact=False, evaluation_episodes=8, evaluation_every=2))
    result = run(solver, iterations=5, monitor=monitor, options=RunOptions(chunk=2))
    rows = {name: values[0] for name, values in result.rows.items()}
    assert monitor.highest and "iterations 1, 2, 4, ... and the last" in monitor.note
    assert {"score_random", "score_random_interval", "win_random", "draw_random", "length", "entropy"} <= set(rows)
    assert not any(name.startswith("return_") for name in rows)
    np.testing.assert_allclose(rows["score_random"], rows["win_random"] + rows["draw_random"] / 2, rtol=1e-6)
    np.testing.assert_allclose(rows["entropy"], 0.5)
    # the first, every second and the last are measured, each on episodes of its own; the third is missing
    np.testing.assert_array_equal(np.isnan(rows["length"]), [False, False, True, False, False])
    there = rows["length"][~np.isnan(rows["length"])]
    assert len(set(there)) > 1 and (there >= 5).all() and (there <= 9).all()


def test_columns_of_a_team_game():
    """Seats 0 and 1 choose 1 and so does seat 2: the team earns the mean of 7 and 0, the other -3.5."""
    game = team_game()
    stacked = StackedPolicies(jnp.stack([pure(2, 1), pure(2, 1)]), constant)
    row = sampled_row(jax.random.key(0), game, Profile(stacked, jnp.ones((2, 1))), 4)
    assert row["return_player_0"] == 3.5 and row["return_player_1"] == -3.5 and row["return_player_0_interval"] == 0.0
    assert 3.0 <= row["player_0_vs_random"] <= 3.5 and "score_random" not in row


def test_random_play_against_itself():
    """Noughts and crosses at random: the first player wins 0.585, the second 0.288, and 0.127 are drawn."""
    game = make_game("tic_tac_toe")
    row = jax.jit(lambda key: sampled_row(key, game, random_profile(game), 4000))(jax.random.key(3))
    np.testing.assert_allclose(row["win_random"], (0.585 + 0.288) / 2, atol=0.025)
    np.testing.assert_allclose(row["draw_random"], 0.127, atol=0.02)
    np.testing.assert_allclose(row["score_random"], 0.5, atol=2 * float(row["score_random_interval"]))
    for column, share in (("first_wins", 0.585), ("second_wins", 0.288), ("self_draws", 0.127), ("decisive", 0.873)):
        np.testing.assert_allclose(row[column], share, atol=2 * float(row[f"{column}_interval"]))
    np.testing.assert_allclose(row["first_wins_interval"], 1.96 * np.sqrt(0.585 * 0.415 / 1000), rtol=0.05)
    assert headlines(game) == ("score_random",)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("connect_four", ("score_tactician", "score_random")),
        ("simple_spread", ("return_team",)),
        ("simple_tag", ("pursuers_vs_random", "evader_vs_random")),
        ("hanabi", ("return_player_0", "return_player_1")),
    ],
)
def test_what_a_game_is_measured_by(name, expected):
    assert headlines(make_game(name)) == expected
