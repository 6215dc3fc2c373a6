"""Arms that differ in numbers alone share one program, and each is what it is alone."""

from pathlib import Path

import numpy as np
import pytest

from experiments.harness.experiment import run_experiment
from experiments.harness.spec import Arm, Experiment, make_plan
from gems_jax import solvers
from gems_trails import TINY

SPEC = Experiment(
    name="etas",
    title="Etas",
    game="rock_paper_scissors",
    arms=(
        Arm("slow", config=TINY),
        Arm("fast", config=TINY, overrides={"eta": 5.0, "learning_rate": 0.1}),
        Arm("longer", config=TINY, overrides={"abr_steps": 1}),
    ),
    iterations=3,
    seeds=(0, 1),
    metrics=("nash_conv",),
    chunk=3,
)


def test_programs_are_equal_where_only_numbers_differ():
    plan = make_plan(SPEC)
    slow, fast, longer = (plan.program(arm.label) for arm in SPEC.arms)
    assert slow == fast != longer


def test_the_second_of_two_arms_compiles_nothing_and_is_what_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    traced, step = [], solvers.gems_step

    def count(state, key, game, config):
        traced.append(config)
        return step(state, key, game, config)

    monkeypatch.setattr(solvers, "gems_step", count)
    both = run_experiment(Experiment(**{**vars(SPEC), "arms": SPEC.arms[:2]}), root=tmp_path)
    of_two = len(traced)
    alone = run_experiment(Experiment(**{**vars(SPEC), "arms": SPEC.arms[1:2]}), root=tmp_path)
    assert 0 < of_two == len(traced) - of_two  # two arms are traced as often as one
    slow, fast = both.arms
    assert not np.allclose(slow.rows["nash_conv"], fast.rows["nash_conv"], rtol=1e-2)
    # rounding differs between a number that is compiled in and one that is not
    np.testing.assert_allclose(fast.rows["nash_conv"], alone.arms[0].rows["nash_conv"], rtol=1e-3)
