"""Simple Spread of MPE: a team of three covers three landmarks, GEMS against PSRO."""

from experiments.harness.spec import Check
from experiments.specs.particles import against_psro

EXPERIMENT = against_psro(
    budget=160_000,
    policy_hidden=(32,),
    name="spread",
    title="GEMS and PSRO on Simple Spread",
    game="simple_spread",
    metrics=("return_team", "covered", "distinct", "collisions", "seconds"),
    panels=("return_team", "covered", "distinct", "collisions"),
    convention="mean return per agent of an episode of 25 steps",
    unit="return per agent",
    checks=(Check("return_team", at_least=-11.0, arms=("gems",), at_the_end=True),),
)
