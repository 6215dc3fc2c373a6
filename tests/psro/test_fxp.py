"""Fictitious Cross-Play: who meets whom, and fictitious play as its exact form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.psro.fxp import FxpConfig, split_opponents

KUHN = make_game("kuhn_poker")


def curve(game, config, iterations):
    solver = make_solver("fxp", game, config)
    state, values, rows = solver.init(jax.random.key(0)), [], []
    for key in jax.random.split(jax.random.key(1), iterations):
        state, metrics = solver.step(state, key)
        values.append(float(nash_conv(game, solver.profile(state))))
        rows.append(metrics)
    return solver, state, np.array(values), rows


def test_shares():
    """Three mains and two counters: mains in slots 0, 2 and 4."""
    active = jnp.array([[True] * 5 + [False]])
    main, counter = split_opponents(active, 0.6)
    np.testing.assert_allclose(main, [[0.2, 0.2, 0.2, 0.2, 0.2, 0.0]], atol=1e-6)
    np.testing.assert_allclose(counter, [[1 / 3, 0, 1 / 3, 0, 1 / 3, 0]], atol=1e-6)


def test_without_cross_play_it_is_fictitious_play():
    """Uniform play and the best responses to the average so far: XFP's NashConv, as long as no ties decide."""
    solver, state, values, rows = curve(KUHN, FxpConfig(eta=1.0, capacity=32), 10)
    np.testing.assert_allclose(values[0], 0.625, atol=1e-6)
    assert values[-1] < 0.2 and [metrics.num_active.tolist() for metrics in rows[:2]] == [[4, 4], [6, 6]]
    masses = np.asarray(solver.profile(state).sigma[0])
    np.testing.assert_allclose(masses[:22], [1 / 11, 0] * 11, atol=1e-6)


def test_exact_counters_are_the_mains():
    """Both answer uniform play first, and then, whatever eta, the same policies."""
    _, state, values, _ = curve(KUHN, FxpConfig(eta=0.5, capacity=32), 3)
    np.testing.assert_array_equal(state.store.params[:, 2:8:2], state.store.params[:, 3:8:2])
    np.testing.assert_allclose(values[0], 0.625, atol=1e-6)


def test_the_profile_of_learned_mains():
    """An equilibrium of the mains' measured meta-game: counters have no mass, and the table holds no counters."""
    rps = make_game("rock_paper_scissors")
    config = FxpConfig(oracle="ppo", rounds=4, opponents=8, entry_episodes=20, capacity=8, critic_hidden=(4,))
    solver, state, _, rows = curve(rps, config, 2)
    sigma, counts = np.asarray(solver.profile(state).sigma), np.asarray(state.table.episodes)
    np.testing.assert_allclose(sigma[:, 0::2].sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(sigma[:, 1::2], 0.0)
    np.testing.assert_array_equal(counts[:6:2, :6:2], 20)
    assert counts.sum() == 9 * 20 and [int(row.episodes) for row in rows] == [2 * 4 * 8 + 4 * 20, 2 * 4 * 8 + 5 * 20]
    alike = make_solver("fxp", rps, config.replace(meta_solver="uniform"))
    first = alike.init(jax.random.key(0))
    np.testing.assert_array_equal(alike.profile(first).sigma, [[1] + [0] * 7] * 2)
    assert first.table.values.size == 0


def test_refused_settings():
    with pytest.raises(ValueError, match="eta must be between 0 and 1: got 2.0"):
        make_solver("fxp", KUHN, FxpConfig(eta=2.0))
