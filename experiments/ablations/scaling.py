"""Seconds and bytes against iterations: GEMS and the paper's eight baselines on Kuhn poker at equal steps."""

import dataclasses

from experiments.harness.spec import Experiment
from experiments.specs.kuhn_compare import ARMS, BUDGETS, SECONDS

EXPERIMENT = Experiment(
    name="scaling",
    title="What an iteration costs as the population grows",
    game="kuhn_poker",
    arms=tuple(dataclasses.replace(arm, label=arm.label.removesuffix(" 1x")) for arm in ARMS["1x"]),
    groups=(("all methods", tuple(arm.label.removesuffix(" 1x") for arm in ARMS["1x"])),),
    iterations=100,
    seeds=(0,),
    exact=False,
    evaluation_episodes=0,
    metrics=("seconds",),
    report=(10, 50, 100),
    convention=f"seconds of all iterations so far, {BUDGETS['1x']:,} env steps each; nothing is evaluated",
    unit="seconds",
    notes=(
        SECONDS,
        "Resident memory is that of one process that runs all arms in sequence; the figure shows its growth within an "
        "arm.",
        "The machine was shared with other work during these measurements: the seconds show growth, not speed.",
    ),
    quick={"iterations": 15, "report": (5, 15)},
)
