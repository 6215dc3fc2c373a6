"""Settings that fit a time: arithmetic with known answers, and both commands end to end."""

import pytest

from cli import call
from gems_jax import GemsConfig
from gems_jax.profiling.planner import Rates, fit_to_seconds, iteration_seconds, scale_work

CONFIG = GemsConfig(
    capacity=4, num_opponents=8, episodes=2, mixture_samples=32, meta_steps=5, mutations=16, randoms=16,
    oracle_opponents=8, oracle_period=2, abr_steps=10,
)  # fmt: skip
RATES = Rates(estimate=0.1, oracle=0.4, protect=0.3, step=0.05)


def test_seconds_of_an_iteration_by_hand():
    assert iteration_seconds(RATES, CONFIG, CONFIG) == pytest.approx(5 * 0.1 + 0.4 / 2 + 0.3 + 10 * 0.05)
    # twice the opponents of the anchors: (4 * 16 + 32) / (4 * 8 + 32) times an estimate
    assert iteration_seconds(RATES, CONFIG, CONFIG.replace(num_opponents=16)) == pytest.approx(5 * 0.15 + 1.0)
    assert iteration_seconds(RATES, CONFIG, CONFIG.replace(randoms=0)) == pytest.approx(1.5 - 0.1)


def test_work_is_scaled_in_every_phase():
    four = scale_work(CONFIG, 4.0)
    assert (four.num_opponents, four.mixture_samples, four.abr_steps) == (32, 128, 40)
    assert (four.mutations, four.randoms, four.oracle_opponents) == (32, 32, 16)  # four times the candidates' episodes
    least = scale_work(CONFIG.replace(mixture_samples=0, oracle_rounds=2, anchors_per_call=3), 1e-6)
    assert (least.num_opponents, least.mixture_samples, least.abr_steps) == (1, 0, 1)
    assert least.oracle_opponents == 2 and least.mutations + least.randoms == 3
    least.validate()


@pytest.mark.parametrize("seconds", [1.0, 1.5, 6.0, 60.0])
def test_planned_settings_fit_and_leave_little_over(seconds):
    planned = fit_to_seconds(RATES, CONFIG, seconds)
    assert 0.85 * seconds < iteration_seconds(RATES, CONFIG, planned) <= seconds


@pytest.mark.slow
def test_profile_of_a_run(trained, tmp_path):
    done = call("profile", trained[0], "--repeats", 1, "--output", tmp_path)
    assert done.code == 0, done.err
    assert "best response" in done.out and "gems_step, in one program" in done.out
    assert (tmp_path / "phases.txt").read_text().splitlines()[0].startswith("phase")
    assert list(tmp_path.rglob("*.trace.json.gz"))


@pytest.mark.slow
def test_plan_of_a_game():
    done = call("plan", "biased_rps", "--minutes", 0.5, "--iterations", 10, "--measure", 0.1)
    assert done.code == 0, done.err
    line = done.out.splitlines()[-1]
    assert line.startswith("gems train biased_rps") and "--iterations 10" in line
