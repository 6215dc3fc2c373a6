"""The work model: counts by hand, and how estimates behave at their limits. Seconds: benchmarks/cost_model.py."""

import math

import pytest

from benchmarks.predictions import FLOPS_SHARE, Machine, at_best, carried_over
from benchmarks.work_model import (
    Lengths,
    Work,
    env_steps,
    meta_work,
    network_operations,
    oracle_work,
    seconds,
    traffic,
    training_work,
    work,
)
from gems_jax.config import GemsConfig
from gems_jax.games import make_game
from gems_jax.profiling.peak_memory import array_bytes, peak_bytes

KUHN = make_game("kuhn_poker")
CONFIG = GemsConfig(
    capacity=4, num_opponents=3, episodes=2, mixture_samples=5, meta_steps=7, mutations=1, randoms=2,
    oracle_opponents=2, oracle_episodes=3, abr_steps=6, abr_anchors=2, abr_opponents=4, abr_episodes=1, abr_epochs=2,
    kl_opponents=5, critic_hidden=(8,), generator_widths=(8,),
)  # fmt: skip
THREE = Lengths(2.2, 3.0)


def test_work_by_hand() -> None:
    # 2 players x 4 anchors x 3 opponents x 2 episodes and 5 x 2 joint ones, all of 3 turns, 7 times
    assert meta_work(KUHN, CONFIG, THREE) == Work(turns=7 * (3 + 3), played=7 * (48 + 10) * 3)
    # 2 players x 3 candidates x 2 x 3
    assert oracle_work(KUHN, CONFIG, THREE) == Work(turns=3, played=36 * 3)
    # protected: 2 players x 4 anchors x 5 episodes x 3 steps; a step: 2 players x 2 x 4 x 1 lanes x 3 steps
    once = Work(turns=3, recorded=120, learned=240)
    assert training_work(KUHN, CONFIG, 0) == once
    each = Work(turns=3, recorded=48, updates=2, learned=2 * (48 + 120))
    assert training_work(KUHN, CONFIG) == Work(*(6 * a + b for a, b in zip(each, once, strict=True)))
    whole = work(KUHN, CONFIG, THREE)
    assert whole.played == 7 * 58 * 3 + 108 and whole.turns == 42 + 3 + 18 + 3
    assert seconds(Work(turns=2, learned=3), Work(turns=10, learned=100)) == 320


def test_env_steps_count_active_anchors_and_whole_episodes() -> None:
    episodes = 7 * (2 * 1 * 3 * 2 + 10) + 36 + 40 + 6 * 16
    assert env_steps(KUHN, CONFIG, THREE, anchors=1) == pytest.approx(2.2 * episodes)


def test_sizes_are_those_of_the_arrays() -> None:
    one = array_bytes(KUHN, CONFIG)
    assert one.policy == 4 * 12 * 2  # logits of two actions in twelve information sets
    assert network_operations(KUHN, CONFIG).judging > 0 and traffic(KUHN, CONFIG).bytes.played == 4 * one.position
    larger = CONFIG.replace(abr_episodes=100)
    assert peak_bytes(KUHN, larger) > 10 * peak_bytes(KUHN, CONFIG) > 10 * one.state


def test_estimates_at_their_limits() -> None:
    amount, unit = work(KUHN, CONFIG, THREE), traffic(KUHN, CONFIG)
    endless = Machine("", 8, math.inf, math.inf, 1e-3)
    assert at_best(amount, unit, endless) == carried_over(amount, 5.0, 1e10, endless) == amount.turns * 1e-3
    slow = Machine("", 2, math.inf, 1.0, 0.0)
    expected = sum(a * b for a, b in zip(amount, unit.flops, strict=True)) / (2 * FLOPS_SHARE)
    assert at_best(amount, unit, slow) == pytest.approx(expected)
    assert carried_over(amount, 5.0, 1e10, Machine("", 1, 1e10, 1.0, 0.0)) == 5.0
