"""Budgets of GEMS: steps are divided by hand, fitted numbers count to the budget, and runs play it."""

import jax
import numpy as np
import pytest

from gems_jax import make_game, make_solver, preset
from gems_jax.gems.env_steps import LEAST, Division, divide_steps, fit_budget, planned_steps
from gems_trails import RPS, TINY

NOTHING = Division(0.0, 0.0, 0.0, 0.0)
KUHN = make_game("kuhn_poker")


def counted(game, config, length, env_steps, monkeypatch):
    """Steps by phase of the settings fitted to a budget, if episodes have that length."""
    monkeypatch.setattr("gems_jax.gems.env_steps.mean_length", lambda game, config: length)
    fitted = fit_budget(game, config, env_steps).validate()
    return planned_steps(game, fitted, length)


def test_proportions_are_kept_within_bounds():
    assert divide_steps(Division(10, 20, 10, 60), NOTHING, 1000) == (100, 200, 100, 600)
    # training gets 40 %, and the others, 60 : 20 : 10 before, share the rest
    found = divide_steps(Division(60, 20, 10, 10), NOTHING, 900)
    np.testing.assert_allclose(found, (360, 120, 60, 360))
    # a phase that plays nothing gets nothing
    np.testing.assert_allclose(divide_steps(Division(0, 40, 10, 50), NOTHING, 100), (0, 40, 10, 50))


def test_every_phase_gets_what_it_takes_at_least():
    """First 50 of 100 for the trust region, which leaves the others theirs; then so much that the bounds give way."""
    np.testing.assert_allclose(divide_steps(Division(10, 10, 10, 70), Division(1, 1, 50, 1), 100), (5, 5, 50, 40))
    found = divide_steps(Division(10, 10, 10, 70), Division(1, 1, 90, 1), 108)
    np.testing.assert_allclose(found, (2, 2, 90, 14))


def test_phases_by_hand():
    """Rock-paper-scissors, two iterations with one and two anchors per player; see test_budget.py for the units."""
    found = planned_steps(RPS, TINY, 1.0, iterations=2)
    assert found == ((2 * 6 + 8 + 4 * 6 + 8) / 2, 16, 12, 2 * 16)
    assert planned_steps(RPS, TINY.replace(abr_segment=5), 2.0, iterations=2).training == 2 * 16 * 5


@pytest.mark.parametrize("name", ["paper", "tuned"])
@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_holdem", "connect_four", "simple_tag"])
@pytest.mark.parametrize("env_steps", [700, 2_500, 25_750, 10**6, 10**7])
def test_fitted_numbers_count_to_the_budget(game, name, env_steps, monkeypatch):
    """Within 10 %, no phase below its bound, or the message says what is possible, and that is."""
    config, game = preset(game, name), make_game(game)
    length = {"kuhn_poker": 2.2, "leduc_holdem": 4.0, "connect_four": 22.0, "simple_tag": 25.0}[game.name]
    try:
        steps = counted(game, config, length, env_steps, monkeypatch)
    except ValueError as error:
        assert env_steps < 10_000 and "too small" in str(error)
        env_steps = int(str(error).split("expected at least ")[1].split(" for ")[0])
        steps = counted(game, config, length, env_steps, monkeypatch)
    assert abs(sum(steps) / env_steps - 1) < 0.1
    assert all(each > 0 for each in steps)
    if env_steps >= 250_000:
        assert all(each > 0.8 * share * env_steps for each, share in zip(steps, LEAST, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"estimator": "importance"}, {"estimator": "self_normalised", "meta_steps": 7}, {"estimator": "exact"},
        {"mixture": "bootstrap"}, {"mixture_samples": 0}, {"adaptive": True, "oracle_rounds": 4},
        {"pool_anchors": True}, {"mutations": 0, "randoms": 0}, {"oracle_period": 3}, {"abr_segment": 2},
        {"abr_steps": 0}, {"anchors_per_call": 3},
    ],
)  # fmt: skip
def test_every_estimator_and_oracle_is_fitted(changes, monkeypatch):
    config = preset("kuhn_poker", "paper").replace(**changes)
    for env_steps in (1_500, 40_000, 10**6):
        steps = counted(KUHN, config, 2.2, env_steps, monkeypatch)
        assert abs(sum(steps) / env_steps - 1) < 0.1, (env_steps, steps)
        assert (steps.estimating == 0) == (changes.get("estimator") == "exact")
        assert (steps.oracle == 0) == (changes.get("mutations") == 0)


def test_settings_at_their_own_budget_stay(monkeypatch):
    """The preset `paper` keeps every number of the table when it is given what it plays anyway."""
    config = preset("kuhn_poker", "paper")
    monkeypatch.setattr("gems_jax.gems.env_steps.mean_length", lambda game, config: 2.25)
    assert fit_budget(KUHN, config, round(sum(planned_steps(KUHN, config, 2.25))) + 1) == config


def test_more_iterations_have_more_anchors_and_fewer_opponents(monkeypatch):
    monkeypatch.setattr("gems_jax.gems.env_steps.mean_length", lambda game, config: 2.2)
    config = preset("kuhn_poker", "tuned")
    short, long = (fit_budget(KUHN, config, 25_750, iterations) for iterations in (4, 40))
    assert short.num_opponents * short.meta_steps > 2 * long.num_opponents * long.meta_steps


@pytest.mark.parametrize(
    ("name", "changes", "env_steps"),
    [
        ("paper", {"estimator": "importance"}, 2_500),
        pytest.param("paper", {}, 500, marks=pytest.mark.slow),
        pytest.param("tuned", {}, 25_750, marks=pytest.mark.slow),
        pytest.param("tuned", {"adaptive": True, "oracle_rounds": 2}, 25_750, marks=pytest.mark.slow),
    ],
)
def test_runs_play_the_budget(name, changes, env_steps):
    """Six iterations of Kuhn poker, within 15 %: policies learn, and the length of episodes changes."""
    config = preset("kuhn_poker", name).replace(iterations=6, critic_hidden=(4,), generator_widths=(8,), **changes)
    solver = make_solver("gems", KUHN, config, budget=env_steps)
    keys = jax.random.split(jax.random.key(0), 6)
    _, rows = jax.jit(lambda key: jax.lax.scan(solver.step, solver.init(key), keys))(jax.random.key(1))
    assert abs(np.mean(rows.env_steps) / env_steps - 1) < 0.15, rows.env_steps
