"""Anytime and Efficient PSRO on Kuhn poker, exact: what is reported never gets worse."""

import jax
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import build_tree, player_gains_of_mixture
from gems_jax.psro.anytime import APSRO, EPSRO

KUHN = make_game("kuhn_poker")


def curve(game, method, config=None, iterations=10, seed=0):
    solver = make_solver(method, game, config)
    state = solver.init(jax.random.key(seed))
    values, rows = [float(nash_conv(game, solver.profile(state)))], []
    for key in jax.random.split(jax.random.key(seed + 1), iterations):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(game, solver.profile(state))))
        rows.append(metrics)
    return np.array(values), state, rows


def non_increasing(values, slack=1e-6):
    return (np.diff(values) <= slack).all()


@pytest.mark.parametrize(("ties", "seed"), [("robust", 0), ("novel", 0), ("random", 1)])
def test_anytime_double_oracle_solves_kuhn(ties, seed):
    """Non-increasing, and 0 within 16 iterations: enumerating ties and vertices gives 5 to 16."""
    values, _, rows = curve(KUHN, "apsro", APSRO.replace(ties=ties), 16, seed)
    np.testing.assert_allclose(values[:2], [11 / 12, 7 / 12], atol=1e-6)
    assert non_increasing(values) and values[-1] < 1e-6
    assert all(abs(float(metrics.restricted_gap)) < 1e-5 for metrics in rows)


def test_lowest_ties_stall():
    """Copies of policies that are there already change nothing: the reason for preferring novel ones."""
    values, state, _ = curve(KUHN, "apsro", APSRO.replace(ties="lowest"), 12)
    assert non_increasing(values) and values[-1] == pytest.approx(values[-4], abs=1e-6) and values[-1] > 0.05
    assert state.store.active.sum(axis=1).tolist() == [13, 13]


@pytest.mark.parametrize(("inner", "bar"), [("rm_plus", 0.06), ("mwu", 0.08)])
def test_anytime_with_a_no_regret_rule(inner, bar):
    """Non-increasing up to the gap of the inner games, and close to the exact form."""
    values, _, rows = curve(KUHN, "apsro", APSRO.replace(inner=inner), 8)
    assert non_increasing(values, slack=max(float(metrics.restricted_gap) for metrics in rows))
    assert values[-1] <= bar


def test_efficient_psro():
    """At most 0.04 by iteration 8 with multiplicative weights, 0.1 x 1000 steps; exact inner games reach 0."""
    values, state, rows = curve(KUHN, "epsro", iterations=8)
    assert values[8] <= 0.04
    assert non_increasing(values, slack=max(float(metrics.restricted_gap) for metrics in rows))
    exact, _, _ = curve(KUHN, "epsro", EPSRO.replace(inner="lp"), 10)
    assert non_increasing(exact) and exact[-1] < 1e-4
    tables = np.asarray(tables_of(KUHN, make_solver("epsro", KUHN).profile(state).population))
    assert ((tables[:, 2:9] > 0.01) & (tables[:, 2:9] < 0.99)).any()  # whole strategies join, not pure responses


def test_the_learner_of_the_last_meta_game_joins():
    solver = make_solver("epsro", KUHN)
    state, _ = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
    after, _ = solver.step(state, jax.random.key(2))
    np.testing.assert_array_equal(after.store.params[:, 2], state.learner)
    tables = tables_of(KUHN, solver.profile(after).population)
    assert (np.abs(tables[:, 2] - 0.5) < 0.45).any()  # it mixes: an average, not a best response


def test_what_is_reported_is_the_least_that_the_populations_allow():
    """No other mixture of the same policies is less exploitable: 2,000 random ones are not."""
    solver = make_solver("apsro", KUHN)
    state = solver.init(jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), 3):
        state, _ = solver.step(state, key)
    tables, tree = tables_of(KUHN, solver.profile(state).population), build_tree(KUHN)
    best = float(nash_conv(KUHN, solver.profile(state)))
    draws = np.random.default_rng(0).dirichlet(np.full(4, 0.5), (2000, 2))
    sigma = np.zeros((2000, 2, state.store.capacity), np.float32)
    sigma[:, :, :4] = draws
    others = jax.jit(jax.vmap(lambda mixture: player_gains_of_mixture(tree, tables, mixture).sum()))(sigma)
    assert float(others.min()) >= best - 1e-6


def test_merge_populations_for_both_players():
    values, state, _ = curve(make_game("kuhn_poker", shared=True), "apsro", iterations=6)
    assert non_increasing(values) and values[-1] < 0.2 and state.sigma.shape[0] == 1


def test_memory_is_linear_and_counts_are_honest():
    _, state, rows = curve(KUHN, "epsro", iterations=9)
    assert all(float(metrics.payoff_bytes) == 0 and int(metrics.episodes) == 0 for metrics in rows)
    assert state.store.capacity == 16
    per_slot = 2 * 16 * (4 + 4 + 1)
    assert float(rows[-1].meta_bytes) == per_slot
    assert float(rows[-1].parameter_bytes) == state.store.params.nbytes + state.learner.nbytes
    assert int(rows[0].tree_walks) == 2 + 4 + 2 * 1000 and int(rows[1].tree_walks) == 6 + 2 * 1000


def test_what_is_refused():
    with pytest.raises(ValueError, match="two-player zero-sum games: 'prisoners_dilemma'"):
        make_solver("apsro", make_game("prisoners_dilemma"))
    with pytest.raises(ValueError, match="inner must be one of lp, mwu, rm_plus: got 'simplex'"):
        make_solver("epsro", KUHN, EPSRO.replace(inner="simplex"))
    solver = make_solver("apsro", KUHN)
    jax.eval_shape(solver.init, jax.random.key(0))
    with pytest.raises(ValueError, match="unknown profile 'best'"):
        solver.profile(solver.init(jax.random.key(0)), "best")
