"""Self-Play PSRO on Kuhn poker, exact: both policies that join, and how soon it is solved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import build_tree, nash_conv_of_tables, uniform_table
from gems_jax.psro.sp_psro import SpPsroConfig, self_play_average

KUHN = make_game("kuhn_poker")


@pytest.fixture(scope="module")
def run():
    solver = make_solver("sp_psro", KUHN, SpPsroConfig(capacity=16))
    state = solver.init(jax.random.key(0))
    values, rows = [float(nash_conv(KUHN, solver.profile(state)))], []
    for key in jax.random.split(jax.random.key(1), 6):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(KUHN, solver.profile(state))))
        rows.append(metrics)
    return np.array(values), solver, state, rows


def test_kuhn_is_solved_within_six_iterations(run):
    """Reference with other ties: 0.9167, 0.1624, 0.0689, 0.0526, 0. What is played can only get better."""
    values, _, _, rows = run
    assert values[1] < 0.25 and (np.diff(values) <= 1e-6).all() and values[-1] < 1e-6
    assert [metrics.num_active.tolist() for metrics in rows[:2]] == [[3, 3], [5, 5]]
    assert all(int(metrics.tree_walks) == 2 + 2 * 2 * 300 and int(metrics.env_steps) == 0 for metrics in rows)


def test_a_mixed_policy_and_a_response_join(run):
    _, solver, state, _ = run
    tables = np.asarray(tables_of(KUHN, solver.profile(state).population))
    own = np.asarray(build_tree(KUHN).seat) == 0
    mixes = ((tables[0] > 0.01) & (tables[0] < 0.99))[:, own].any(axis=(1, 2))
    assert mixes[1] and not mixes[2]  # nu's average, then beta


def test_the_average_is_worth_more_than_its_parts():
    """From uniform play alone, whose NashConv is 11/12: averages that lose a quarter at most, and are mixed in."""
    tree = build_tree(KUHN)
    tables, active = uniform_table(tree)[None], jnp.ones(1, bool)
    found = [self_play_average(tree, tables, active, p, 300) for p in range(2)]
    seats = np.asarray(tree.seat)[:, None]
    profile = jnp.where(seats == 0, found[0][0], found[1][0])
    assert float(nash_conv_of_tables(tree, jnp.stack([profile, profile]))) < 0.25
    assert all(0.4 < mixture[1] < 0.6 for _, mixture in found)


def test_what_is_refused():
    with pytest.raises(ValueError, match="two-player zero-sum games: 'prisoners_dilemma'"):
        make_solver("sp_psro", make_game("prisoners_dilemma"))
    jax.eval_shape(make_solver("sp_psro", KUHN).init, jax.random.key(0))
