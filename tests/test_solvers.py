"""Every method behind one interface: what the driver may rely on."""

import jax
import numpy as np
import pytest

from gems_jax import GemsConfig, make_game, make_solver
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.gems.step import GemsMetrics, GemsState
from gems_jax.solvers import DEFAULTS, METHODS, apply_budget
from gems_jax.types import Profile, Solver

RPS = make_game("biased_rps")
SMALL = GemsConfig(capacity=2, latent_dim=2, generator_widths=(4,), critic_hidden=(4,), mutations=1, randoms=1)


def test_gems_as_a_solver():
    solver = make_solver("gems", RPS, SMALL)
    assert isinstance(solver, Solver) and solver.jittable
    state = solver.init(jax.random.key(0))
    assert isinstance(state, GemsState) and state.anchors.shape == (2, 2, 2)
    after, metrics = jax.eval_shape(solver.step, state, jax.random.key(1))
    assert isinstance(metrics, GemsMetrics) and metrics.episodes.shape == metrics.env_steps.shape == ()
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )


def test_profiles_of_a_solver():
    solver = make_solver("gems", RPS, SMALL)
    state = solver.init(jax.random.key(0))
    state = state.replace(sigma_average=state.sigma[:, ::-1])
    for which, sigma in [("iterate", [[1, 0], [1, 0]]), ("average", [[0, 1], [0, 1]])]:
        profile = solver.profile(state, which=which)
        assert isinstance(profile, Profile)
        np.testing.assert_array_equal(profile.sigma, sigma)
    assert solver.profile(state).sigma is state.sigma
    with pytest.raises(ValueError, match="unknown profile 'best'; known: 'iterate', 'average'"):
        solver.profile(state, which="best")


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("gmes", None, "unknown method 'gmes'; did you mean 'gems'. known: .*gems"),
        ("gems", {"eta": 1.0}, "takes a GemsConfig: got dict; see gems_jax.preset"),
        ("gems", GemsConfig(eta=-1.0), "eta must be a finite number, at least 0: got -1.0"),
        ("gems", GemsConfig(policy="film"), "modulates hidden layers"),
    ],
)
def test_bad_names_and_settings_are_refused_at_once(name, config, message):
    with pytest.raises(ValueError, match=message):
        make_solver(name, RPS, config)


def test_the_table_of_methods():
    assert "gems" in METHODS
    for name in METHODS:
        assert isinstance(make_solver(name, RPS), Solver)


def test_profile_takes_which_by_position_or_name():
    game = make_game("rock_paper_scissors")
    solver = make_solver("gems", game, GemsConfig(capacity=2, latent_dim=2))
    state = solver.init(jax.random.key(0))
    np.testing.assert_array_equal(solver.profile(state, "average").sigma, solver.profile(state, which="average").sigma)


# --- budgets


def test_episodes_of_gems_are_counted_beforehand():
    """The count of `gems/budget.py` is what two iterations report, one with the oracle and one without."""
    config = SMALL.replace(abr_steps=2, abr_anchors=2, kl_opponents=3, meta_steps=2, oracle_period=2)
    solver = make_solver("gems", RPS, config)
    state, step = solver.init(jax.random.key(0)), jax.jit(solver.step)
    for done in range(2):
        anchors = int(state.active.sum(axis=1)[0])
        expected = episodes_per_phase(RPS, config, anchors)
        state, metrics = step(state, jax.random.key(done + 1))
        assert int(metrics.episodes) == expected.sum_without_training(config, done == 0) + 2 * expected.abr_step
        assert int(metrics.env_steps) == int(metrics.episodes)  # one step each
    assert float(metrics.payoff_bytes) == 0 and float(metrics.parameter_bytes) > 0
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    assert float(metrics.parameter_bytes + metrics.meta_bytes) == held


def test_with_budget():
    """Settings that leave room stay; payoffs of 5 x 5 policies in 4 iterations of 800 steps get a quarter: 32 episodes.

    A round of two players may take half of the rest, 600 steps: 150 opponents, and there are 128.
    """
    few = DEFAULTS["psro"].replace(iterations=4)
    assert apply_budget("psro", RPS, few, 20_000) == few.replace(env_steps=20_000, oracle="ppo")
    fitted = few.replace(env_steps=800, oracle="ppo", entry_episodes=32)
    assert apply_budget("psro", RPS, few, 800) == fitted
    assert apply_budget("psro", RPS, DEFAULTS["psro"], 800, iterations=4) == fitted.replace(iterations=40)
    assert apply_budget("self_play", RPS, DEFAULTS["self_play"], 200) == DEFAULTS["self_play"].replace(
        env_steps=200, opponents=50
    )
    assert make_solver("os_mccfr", RPS, budget=50).step(make_solver("os_mccfr", RPS).init(None), jax.random.key(0))[
        1
    ].env_steps in range(50, 53)
    for name, settings, steps, message in (
        (
            "gems",
            SMALL,
            3,
            "a budget of 3 env steps per iteration is too small: expected at least [0-9]+ for .* Raise the budget",
        ),
        ("cfr", DEFAULTS["cfr"], 10, "method cfr does not learn from episodes"),
        ("psro", DEFAULTS["psro"].replace(oracle="exact"), 10, "exact responses take no env steps"),
        ("psro", DEFAULTS["psro"], 0, "positive number of env steps per iteration: got 0"),
        (
            "psro",
            few,
            20,
            "one episode per payoff and round needs 25 env steps per iteration \\(mean over 4 iterations\\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            apply_budget(name, RPS, settings, steps)


@pytest.mark.parametrize("method", ["gems", "cfr", "xfp", "os_mccfr", "es_mccfr"])
def test_compiled_methods_declare_their_columns(method):
    solver = make_solver(method, make_game("kuhn_poker"))
    state = jax.eval_shape(solver.init, jax.random.key(0))
    _, metrics = jax.eval_shape(solver.step, state, jax.random.key(0))
    assert set(solver.columns) == {name for name, value in vars(metrics).items() if getattr(value, "shape", None) == ()}
