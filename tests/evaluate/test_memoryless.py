"""Runs on games whose observations forget log their exact exploitability."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import exploitability, make_game, make_solver
from gems_jax.evaluate import memoryless
from gems_jax.evaluate.exact_gains import exact_gains
from gems_jax.evaluate.memoryless import measuring_interval, memoryless_columns
from gems_jax.extensive.recall import build_history_tree
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions

GAME = make_game("nim", heaps=(1, 2))


@pytest.fixture(scope="module")
def started():
    solver = make_solver("random", GAME)
    return solver, solver.init(jax.random.key(0))


def test_columns_are_those_of_the_profile(started):
    """Uniform play of heaps 1 and 2: u = 0, the first player can win (gain 1), the second wins 1/3 more. By hand below.

    First moves (1/3 each): take the 1 -> heap of two, where the mover has u = 0 and best reply 1; leave (1, 1) -> the
    mover loses whatever it does; take both of the 2 -> the mover wins. So the second player's best reply earns
    (1 - 1 + 1) / 3 = 1/3 over 0, and the first player's leaves (1, 1) and wins.
    """
    solver, state = started
    row = memoryless_columns(GAME, solver)(state, jnp.int32(1))
    gains = exact_gains(GAME, solver.profile(state))
    np.testing.assert_allclose(gains, [1, 1 / 3], atol=1e-6)
    np.testing.assert_allclose(row["exploitability"], exploitability(GAME, solver.profile(state)), rtol=1e-6)
    np.testing.assert_allclose([row["nash_conv"], row["exploitability_average"]], [4 / 3, 2 / 3], rtol=1e-6)


def test_a_run_measures_small_games_in_every_iteration(started):
    solver, state = started
    monitor = make_monitor(GAME, solver, RunOptions(evaluation_every=7))
    assert monitor.headlines == ("exploitability", "exploitability_average") and not monitor.highest
    assert monitor.every == 1
    row = monitor.sample(solver.step(state, jax.random.key(1))[0], jnp.int32(2))
    np.testing.assert_allclose(row["exploitability"], 2 / 3, rtol=1e-6)


def test_large_trees_are_measured_now_and_then_and_the_largest_by_episodes(started, monkeypatch):
    tree = build_history_tree(GAME)
    assert measuring_interval(tree, 7) == 1
    monkeypatch.setattr(memoryless, "_FEW_INFOSETS", 2)
    assert measuring_interval(tree, 7) == 7
    monkeypatch.setattr(memoryless, "MAX_SEQUENCES", 2)
    assert measuring_interval(tree, 7) == 0
    monitor = make_monitor(GAME, started[0], RunOptions(evaluation_episodes=8))
    assert monitor.headlines == ("score_random",) and "gems eval RUN" in monitor.note
