"""Simple Spread of MPE: a team of three covers three landmarks."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="spread",
    title="GEMS on Simple Spread",
    game="simple_spread",
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=200,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=10,
    metrics=("return_team", "seconds"),
    panels=("return_team",),
    over_time=True,
    report=(1, 20, 50, 100, 200),
    convention="mean return per agent of an episode of 25 steps",
    unit="return per agent",
    checks=(Check("return_team", at_least=-11.0, arms=("tuned",), at_the_end=True),),
    quick={"seeds": (0,)},
)
