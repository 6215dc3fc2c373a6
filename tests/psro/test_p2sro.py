"""Pipeline PSRO on Kuhn poker with gradual exact learners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.infosets import tables_of, tabular_policies
from gems_jax.extensive.values import best_response_values, build_tree, uniform_table, values_against
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.p2sro import P2sroConfig, p2sro_solver
from gems_jax.psro.payoffs import exact_payoffs
from gems_jax.psro.responses import Mixture, exact_learner

KUHN = make_game("kuhn_poker")


@pytest.fixture(scope="module")
def runs():
    """{workers: (NashConv after every 10 ticks, states, metrics)}"""
    found = {}
    for workers in (1, 2, 4):
        solver = make_solver("p2sro", KUHN, P2sroConfig(ticks=10, workers=workers, rate=0.2, capacity=4))
        state = solver.init(jax.random.key(0))
        values, states, rows = [float(nash_conv(KUHN, solver.profile(state)))], [state], []
        for key in jax.random.split(jax.random.key(1), 6):
            state, metrics = solver.step(state, key)
            values.append(float(nash_conv(KUHN, solver.profile(state))))
            states.append(state)
            rows.append(metrics)
        found[workers] = (np.array(values), states, rows)
    return found


def test_more_workers_are_not_slower(runs):
    """In ticks: the same point is reached at the same time or earlier, and four of them are nearly done."""
    one, two, four = (runs[workers][0] for workers in (1, 2, 4))
    # 0.8 to the power of 18 of a gap of a half is a hundredth: nobody is fixed within 10 ticks, somebody within 20
    np.testing.assert_allclose([one[1], two[1], four[1]], 11 / 12, atol=1e-6)
    np.testing.assert_allclose([one[2], two[2], four[2]], one[2], atol=1e-6)
    assert one[2] < 0.7
    assert one[-1] >= two[-1] - 1e-6 and two[-1] >= four[-1] - 1e-6
    assert four[-1] < 0.02 < one[-1]


def test_policies_are_fixed_in_order_and_for_good(runs):
    for workers, (_, states, rows) in runs.items():
        counts = [int(state.store.active.sum(axis=1)[0]) for state in states]
        assert counts == sorted(counts) and counts[-1] > counts[0], workers
        assert all(metrics.num_active.tolist() == [count] * 2 for metrics, count in zip(rows, counts[1:], strict=True))
        for before, after, count in zip(states, states[1:], counts, strict=False):
            np.testing.assert_array_equal(before.store.params[:, :count], after.store.params[:, :count])
            np.testing.assert_array_equal(np.asarray(after.store.active)[:, :count], True)


def test_the_lowest_learner_becomes_the_next_fixed_policy():
    """Ticks one by one until somebody is fixed: a best response to uniform play; a fresh learner starts on top."""
    solver = make_solver("p2sro", KUHN, P2sroConfig(ticks=1, workers=2, rate=0.5))
    state = solver.init(jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), 20):
        state, _ = solver.step(state, key)
        if int(state.store.active.sum()) > 2:
            break
    tree, fixed = build_tree(KUHN), solver.profile(state).population
    uniform = jnp.stack([uniform_table(tree)] * 2)
    learners = tables_of(KUHN, StackedPolicies(state.learners, fixed.apply))
    np.testing.assert_allclose(learners[:, 1], uniform, atol=1e-6)
    assert float(jnp.abs(learners[:, 0] - uniform).max()) > 0.1
    mixture = (uniform[:, None], jnp.ones((2, 1)))
    earned = values_against(tree, tables_of(KUHN, fixed)[:, 1:2], *mixture)[:, 0]
    assert float((best_response_values(tree, *mixture) - earned).max()) <= 0.01


def test_payoffs_of_fixed_policies_are_exact(runs):
    _, states, _ = runs[2]
    state = states[-1]
    solver = p2sro_solver(KUHN, P2sroConfig(workers=2))
    tables = tables_of(KUHN, solver.profile(state).population)
    count = int(state.store.active.sum(axis=1)[0])
    expected = exact_payoffs(build_tree(KUHN), (tables[0, :count], tables[1, :count]))
    np.testing.assert_allclose(state.table.values[:, :count, :count], expected, atol=1e-5)


def test_a_gradual_learner():
    """One tenth of all games are played by the best response: the gap shrinks by exactly that."""
    tree = build_tree(KUHN)
    uniform = jnp.stack([uniform_table(tree)] * 2)
    policies = tabular_policies(KUHN, uniform[:, None])
    mixture = Mixture(policies, jnp.ones((2, 1), bool), jnp.ones((2, 1)))
    learn = exact_learner(KUHN, rate=0.1)
    first = learn(jax.random.key(0), mixture, start=policies.params[:, 0])
    np.testing.assert_allclose(first.gain, [3 / 8, 13 / 24], atol=1e-6)
    second = learn(jax.random.key(0), mixture, start=first.params)
    np.testing.assert_allclose(second.gain, 0.9 * first.gain, atol=1e-5)
    with pytest.raises(ValueError, match="start=None"):
        learn(jax.random.key(0), mixture)


def test_bytes_and_refusals(runs):
    _, states, rows = runs[4]
    state, metrics = states[-1], rows[-1]
    assert float(metrics.parameter_bytes) == state.store.params.nbytes + state.learners.nbytes
    assert float(metrics.payoff_bytes) == 3 * (state.store.capacity + 4) ** 2 * 4
    solver = make_solver("p2sro", KUHN)
    jax.eval_shape(solver.init, jax.random.key(0))
    with pytest.raises(ValueError, match="unknown profile 'best'"):
        solver.profile(solver.init(jax.random.key(0)), "best")
    with pytest.raises(ValueError, match="workers must be an integer, at least 1: got 0"):
        make_solver("p2sro", KUHN, P2sroConfig(workers=0))
