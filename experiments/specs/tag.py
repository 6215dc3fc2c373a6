"""Simple Tag of MPE: three pursuers against a faster evader, GEMS and PSRO, and each side against random play."""

from experiments.harness.spec import Arm, Check
from experiments.specs.particles import against_psro

# The evader learns late: its check is for the episodes of the preset itself, which are twice as many (`full`).
PURSUERS = Check("pursuers_vs_random", at_least=35.0, arms=("gems",), at_the_end=True)
EXPERIMENT = against_psro(
    budget=170_000,
    policy_hidden=(64,),
    # half of the preset's episodes: 100 iterations learn as much as 50 of those
    gems={"num_opponents": 16, "abr_steps": 32},
    name="tag",
    title="GEMS and PSRO on Simple Tag",
    game="simple_tag",
    metrics=(
        "pursuers_vs_random", "random_vs_evader", "return_pursuers", "captures", "encirclement", "pursuer_spread",
        "seconds",
    ),
    panels=("pursuers_vs_random", "random_vs_evader", "return_pursuers", "encirclement"),
    convention="return per pursuer of an episode of 25 steps, 10 per touch by any of them",
    unit="return per pursuer",
    checks=(PURSUERS,),
    full={
        "arms": (Arm("gems", preset="tuned"), Arm("random", method="random", iterations=1)),
        "iterations": 120,
        "seeds": (0,),
        "checks": (PURSUERS, Check("random_vs_evader", at_most=1.5, arms=("gems",), at_the_end=True)),
    },
)  # fmt: skip
