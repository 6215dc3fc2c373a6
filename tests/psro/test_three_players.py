"""Three players end to end: every method that takes them is measured by exact NashConv and by its CCE gap."""

import jax
import numpy as np
import pytest

from gems_jax import make_solver
from gems_jax.games import make_game
from gems_jax.presets import KUHN_TUNED
from gems_jax.runner.measuring import make_monitor
from gems_jax.solvers import DEFAULTS

UNIFORM = 2.0625  # NashConv of uniform play, by OpenSpiel


def settings(method):
    if method == "gems":
        return KUHN_TUNED.replace(iterations=2, capacity=3, meta_steps=2, abr_steps=2, abr_opponents=8, num_opponents=4)
    return DEFAULTS[method]


@pytest.mark.parametrize(
    "method",
    ["random", *(pytest.param(name, marks=pytest.mark.slow) for name in ("jpsro", "self_play", "gems"))],
)
def test_nash_conv_and_cce_gap_are_measured(method):
    game = make_game("kuhn_poker_3p")
    solver = make_solver(method, game, settings(method))
    monitor = make_monitor(game, solver)
    state = solver.init(jax.random.key(0))
    after, metrics = solver.step(state, jax.random.key(1))
    _, row = monitor.measure(monitor.init(state), state, metrics, after, 1)
    assert monitor.headlines[0] == "nash_conv"
    assert {"regret_0", "regret_1", "regret_2"} <= set(row)
    gaps = np.asarray([row["nash_conv"], row["nash_conv_average"], row["cce_gap"]])
    assert (gaps > 0).all() and (gaps < 10).all()
    # What was played once is a product of mixtures: its regrets are the gains of its best responses.
    np.testing.assert_allclose(row["cce_gap"], row["nash_conv"], atol=1e-5)
    if method == "random":
        np.testing.assert_allclose(row["nash_conv"], UNIFORM, atol=1e-5)
