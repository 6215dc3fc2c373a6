"""PSRO and its settings on Kuhn poker with exact responses: bounds from enumeration, then what each one adds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.evaluate.monitor import exact_monitor
from gems_jax.extensive.values import build_tree, uniform_table
from gems_jax.psro.oracle_variants import advantage
from gems_jax.psro.payoffs import solve_payoffs
from gems_jax.psro.psro import ALPHA_PSRO, DOUBLE_ORACLE, PsroConfig, psro_solver
from gems_jax.psro.responses import exact_oracle
from gems_jax.runner.driver import run
from gems_jax.runner.engine import Monitor
from gems_jax.runner.options import RunOptions

KUHN = make_game("kuhn_poker")
SHARED = make_game("kuhn_poker", shared=True)


def curve(game, method, config=None, iterations=10, seed=0):
    """NashConv before the first and after every iteration, the last state, the rows of metrics."""
    solver = make_solver(method, game, config)
    state = solver.init(jax.random.key(seed))
    values, rows = [float(nash_conv(game, solver.profile(state)))], []
    for key in jax.random.split(jax.random.key(seed + 1), iterations):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(game, solver.profile(state))))
        rows.append(metrics)
    return np.array(values), state, rows


@pytest.mark.parametrize(("ties", "seed"), [("robust", 0), ("novel", 0), ("lowest", 0), ("random", 0), ("random", 1)])
def test_double_oracle_solves_kuhn(ties, seed):
    """Below 1e-6 within 10 iterations, however ties go, and no policy is added after that."""
    values, state, rows = curve(KUHN, "double_oracle", DOUBLE_ORACLE.replace(ties=ties), 12, seed)
    np.testing.assert_allclose(values[0], 11 / 12, atol=1e-6)
    assert values[10:].max() < 1e-6
    solved = int(np.argmax(values < 1e-6))
    for metrics in rows[solved:]:
        np.testing.assert_array_equal(metrics.num_active, rows[solved].num_active)
    value = state.sigma[0] @ state.table.values[0] @ state.sigma[1]
    np.testing.assert_allclose(value, -1 / 18, atol=1e-6)


def test_double_oracle_with_merge_populations():
    """Both players draw from one population: within 15 iterations by any ties."""
    values, state, _ = curve(SHARED, "double_oracle", iterations=15)
    assert values[-1] < 1e-6 and state.sigma.shape[0] == 1


def test_uniform_mixtures_are_fictitious_play():
    """After one iteration uniform play and the best responses to it, half and half: NashConv 5/8."""
    values, state, _ = curve(KUHN, "psro", PsroConfig(meta_solver="uniform"), 14)
    np.testing.assert_allclose(values[1], 0.625, atol=1e-6)
    np.testing.assert_allclose(state.sigma[:, :15], 1 / 15, atol=1e-6)
    assert values[-1] < 0.15  # as slow as fictitious play


def test_prd_and_nash():
    """At most 0.03 by iteration 10 with PRD; regret matching+ gets as far as its gap."""
    assert curve(KUHN, "psro", PsroConfig(meta_solver="prd"))[0][-1] <= 0.03
    values, state, rows = curve(KUHN, "psro")
    assert values[-1] < 1e-3
    assert all(0 <= float(metrics.restricted_gap) <= 1e-4 * 2 for metrics in rows)
    assert state.store.capacity == 16 and int(state.step) == 10


def test_alpha_psro():
    """Its mixtures are alpha-Rank's marginals, which stay off the equilibrium though the population holds one."""
    values, state, rows = curve(KUHN, "alpha_psro", iterations=14)
    assert 1e-3 < values[-1] < 0.2
    sigma, _ = solve_payoffs(KUHN, "alpha_rank", state.table, state.store.active)
    np.testing.assert_allclose(state.sigma, sigma, atol=1e-6)
    nash, gap = solve_payoffs(KUHN, "nash_lp", state.table, state.store.active)
    assert float(gap) < 1e-5 < float(rows[-1].restricted_gap)
    solver = psro_solver(KUHN, ALPHA_PSRO)
    assert float(nash_conv(KUHN, solver.profile(state.replace(sigma=nash)))) < 0.06


def test_advantages_by_hand():
    rps = build_tree(make_game("rock_paper_scissors", shared=True))
    for theta, worst in (([1, 0, 0], -1), ([0.5, 0.25, 0.25], -0.25), ([0.5, 0.5, 0], -0.5), ([1 / 3] * 3, 0)):
        table = jnp.broadcast_to(jnp.array(theta, jnp.float32), (1, 2, 3))
        np.testing.assert_allclose(advantage(rps, table, table, jnp.float32(0.3)), [worst], atol=1e-6)
    kuhn = build_tree(KUHN)
    uniform = jnp.stack([uniform_table(kuhn)] * 2)
    np.testing.assert_allclose(advantage(kuhn, uniform, uniform, jnp.float32(0.0)), [-5 / 12, -1 / 2], atol=1e-6)
    # half rock, half paper, as one mixture of the two
    rock, paper = (jnp.broadcast_to(jnp.eye(3)[a], (1, 2, 3)) for a in (0, 1))
    np.testing.assert_allclose(advantage(rps, rock, paper, jnp.float32(0.5)), [-0.5], atol=1e-6)


@pytest.mark.parametrize("ordinary", [0.0, 0.5])
def test_a_psro_solves_kuhn(ordinary):
    values, _, rows = curve(KUHN, "a_psro", PsroConfig(meta_solver="nash_lp", ordinary=ordinary), 15)
    assert values[-1] < 1e-6
    assert int(rows[0].tree_walks) > 2 * 64 * 10  # the expensive one


def test_measured_payoffs():
    """Entries from episodes: the same method on a noisy table, with honest counts."""
    config = PsroConfig(payoffs="episodes", entry_episodes=256)
    values, state, rows = curve(KUHN, "psro", config, 6)
    entries = [(k + 1) ** 2 - k**2 for k in range(1, 7)]
    entries[0] += 1  # the two first policies meet in the first iteration
    assert [int(metrics.episodes) for metrics in rows] == [256 * count for count in entries]
    assert all(2 <= float(metrics.env_steps) / float(metrics.episodes) <= 3 for metrics in rows)
    assert int(np.asarray(state.table.episodes).sum()) == 49 * 256
    assert values[-1] < 0.6 and not np.asarray(rows[-1].gradient_steps)


def test_bytes_are_those_of_the_arrays():
    solver = make_solver("psro", KUHN, PsroConfig(capacity=2, meta_solver="uniform"))
    state = solver.init(jax.random.key(0))
    held = []
    for key in jax.random.split(jax.random.key(1), 5):
        state, metrics = solver.step(state, key)
        assert metrics.num_active.tolist() == [int(state.step) + 1] * 2
        held.append((state.store.capacity, float(metrics.parameter_bytes), float(metrics.payoff_bytes)))
        assert float(metrics.meta_bytes) == 2 * state.store.capacity * (4 + 4 + 1)
    for capacity, parameters, payoffs in held:  # logits [2, K, 12, 2]; payoffs [2, K, K] and counts [K, K]
        assert parameters == 2 * capacity * 12 * 2 * 4 and payoffs == 3 * capacity**2 * 4
    assert [capacity for capacity, _, _ in held] == [2, 4, 4, 8, 8]


def test_any_oracle_fits():
    """An oracle is a function: here the exact one with a price of its own."""
    exact = exact_oracle(KUHN)
    calls = []

    def oracle(key, mixture, start=None, rounds=1):
        response = exact(key, mixture)
        calls.append(mixture.sigma.shape)
        return response._replace(cost=response.cost._replace(episodes=7, gradient_steps=3))

    solver = psro_solver(KUHN, PsroConfig(meta_solver="uniform"), oracle)
    _, metrics = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
    assert calls == [(2, 8)] and int(metrics.episodes) == 7 and int(metrics.gradient_steps) == 3


def test_under_the_driver():
    """Rows of two seeds, exact columns included."""
    solver = make_solver("double_oracle", KUHN)
    init_monitor, measure = exact_monitor(KUHN, solver)
    result = run(
        solver, iterations=9, seeds=(0, 1), options=RunOptions(chunk=3), monitor=Monitor(init_monitor, measure)
    )
    np.testing.assert_array_equal(result.rows["nash_conv"][0], result.rows["nash_conv"][1])
    assert result.rows["exploitability"][0, -1] < 1e-6
    assert {"parameter_bytes", "payoff_bytes", "meta_bytes", "episodes", "env_steps", "gradient_steps",
            "tree_walks", "restricted_gap", "active_anchors"} <= result.rows.keys()  # fmt: skip


def test_three_players_with_uniform_and_cce():
    """Everybody likes its second action best: one best response each, and all the mass of a CCE on it."""
    payoffs = np.stack([np.moveaxis(np.broadcast_to([0.0, 1.0], (2, 2, 2)), 2, p) for p in range(3)])
    game = make_game("matrix", payoffs=payoffs)
    for name, mass in (("uniform", 1 / 2), ("cce", 1.0)):
        _, state, _ = curve(game, "psro", PsroConfig(meta_solver=name), 1)
        np.testing.assert_allclose(state.sigma[:, 1], mass, atol=1e-2)


def test_profiles_and_what_is_refused():
    solver = make_solver("psro", KUHN)
    state = solver.init(jax.random.key(0))
    jax.eval_shape(solver.init, jax.random.key(0))  # the command line asks for the shapes of the start
    with pytest.raises(ValueError, match="unknown profile 'last'; known: 'iterate', 'average'"):
        solver.profile(state, "last")
    with pytest.raises(ValueError, match="meta_solver must be one of nash, .*: got 'nahs'; did you mean 'nash'"):
        make_solver("psro", KUHN, PsroConfig(meta_solver="nahs"))
    with pytest.raises(ValueError, match="two-player zero-sum"):
        make_solver("a_psro", make_game("prisoners_dilemma"))
    state, _ = solver.step(state, jax.random.key(1))
    once = state.sigma
    state, _ = solver.step(state, jax.random.key(2))
    np.testing.assert_allclose(solver.profile(state, "average").sigma, (once + state.sigma) / 2, atol=1e-6)


@pytest.mark.slow
def test_leduc():
    """Exploitability at most 0.75 at iteration 25, mean of 3 seeds."""
    leduc = make_game("leduc_holdem")
    ends = [curve(leduc, "psro", PsroConfig(ties="random"), 25, seed)[0][-1] / 2 for seed in range(3)]
    print("exploitability at 25:", ends)
    assert np.mean(ends) <= 0.75
