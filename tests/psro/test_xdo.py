"""Double oracles in extensive form: known equilibria, restricted games by hand, the published bars."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.equilibrium import solve_sequence_form
from gems_jax.extensive.restricted import plan_table
from gems_jax.extensive.values import build_tree, expected_returns, nash_conv_of_tables, uniform_table
from gems_jax.psro.xdo import EDO, PDO, XDO, reached_sets, restrict_actions

KUHN = make_game("kuhn_poker")


def curve(game, config, iterations):
    """NashConv before the first and after every iteration, the last state, the rows of metrics."""
    solver = make_solver("xdo", game, config)
    state = solver.init(jax.random.key(0))
    values, rows = [float(nash_conv(game, solver.profile(state)))], []
    for key in jax.random.split(jax.random.key(1), iterations):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(game, solver.profile(state))))
        rows.append(metrics)
    return np.array(values), state, rows


@pytest.mark.parametrize(("name", "value"), [("kuhn_poker", -1 / 18), ("biased_matching_pennies", 1 / 5)])
def test_an_exact_equilibrium(name, value):
    tree = build_tree(make_game(name))
    table = plan_table(tree, jnp.asarray(solve_sequence_form(tree), jnp.float32))
    both = jnp.stack([table, table])
    assert float(nash_conv_of_tables(tree, both)) < 1e-6
    np.testing.assert_allclose(expected_returns(tree, both), [value, -value], atol=1e-6)


def test_a_restricted_game_by_hand():
    """Rock or paper against all three: paper is played twice as often as rock, and -1/3 is what it earns."""
    rps = build_tree(make_game("rock_paper_scissors"))
    first = np.asarray(rps.seat) == 0
    inside = restrict_actions(rps, jnp.asarray(~first[:, None] | np.array([True, True, False])))
    table = plan_table(inside, jnp.asarray(solve_sequence_form(inside), jnp.float32))
    np.testing.assert_allclose(np.asarray(table)[first], [[1 / 3, 2 / 3, 0]], atol=1e-6)
    np.testing.assert_allclose(np.asarray(table)[~first], [[0, 2 / 3, 1 / 3]], atol=1e-6)
    np.testing.assert_allclose(expected_returns(inside, jnp.stack([table, table])), [-1 / 3, 1 / 3], atol=1e-6)


@pytest.mark.parametrize("ties", ["robust", "novel", "lowest", "random"])
def test_xdo_solves_kuhn_by_iteration_5(ties):
    values, state, rows = curve(KUHN, XDO.replace(ties=ties), 6)
    np.testing.assert_allclose(values[0], 11 / 12, atol=1e-6)
    assert values[5:].max() < 1e-6
    assert all(float(metrics.restricted_gap) < 1e-6 for metrics in rows)
    assert bool((state.allowed <= build_tree(KUHN).legal).all()) and state.allowed.sum() < 24


def test_the_first_restricted_game_is_one_policy_each():
    """After one iteration everybody plays the best response to uniform play: nothing is mixed."""
    _, state, _ = curve(KUHN, XDO, 1)
    np.testing.assert_array_equal(state.allowed.sum(axis=1), 1)


@pytest.mark.parametrize("config", [XDO.replace(solve="threshold"), PDO, EDO])
def test_the_forms_with_regret_matching(config):
    """0.01 by iteration 10, and counts of what was walked: 50 times both players, and one look at the whole game."""
    values, state, rows = curve(KUHN, config, 10)
    assert values[-1] < 0.01 and values[-1] < values[5] + 1e-3
    assert all(int(metrics.tree_walks) % 100 == 3 and int(metrics.env_steps) == 0 for metrics in rows)
    if config.solve == "period":
        assert {int(metrics.tree_walks) for metrics in rows} == {103}
    else:
        assert float(state.threshold) < 0.1


def test_reached_sets_of_kuhn():
    """Who always bets at first never sees an answer to its own pass."""
    tree = build_tree(KUHN)
    uniform, always = uniform_table(tree), jax.nn.one_hot(jnp.zeros(tree.num_infosets, jnp.int32), tree.num_actions)
    assert bool(reached_sets(tree, uniform, uniform).all())
    later = np.asarray(tree.parent) < tree.num_infosets * tree.num_actions  # a second decision of the first player
    reached = np.asarray(reached_sets(tree, always, uniform))
    np.testing.assert_array_equal(reached, ~later)


def test_what_is_refused():
    with pytest.raises(ValueError, match="two-player zero-sum games: 'prisoners_dilemma'"):
        make_solver("xdo", make_game("prisoners_dilemma"))
    with pytest.raises(ValueError, match="solve must be one of lp, threshold, period: got 'cfr'"):
        make_solver("pdo", KUHN, PDO.replace(solve="cfr"))
    solver = make_solver("edo", KUHN)
    jax.eval_shape(solver.init, jax.random.key(0))
    with pytest.raises(ValueError, match="unknown profile 'best'"):
        solver.profile(solver.init(jax.random.key(0)), "best")


def test_leduc():
    """Exploitability at most 0.05 by outer iteration 9."""
    values, _, _ = curve(make_game("leduc_holdem"), XDO, 9)
    assert values[9] / 2 <= 0.05
