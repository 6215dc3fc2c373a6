"""Hanabi with two players and the full deck; losing the last life takes all points back."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="hanabi",
    title="GEMS on Hanabi, two players",
    game="hanabi",
    options={"teams": True},
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=60,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=10,
    metrics=("return_team", "length", "seconds"),
    panels=("return_team", "length"),
    over_time=True,
    report=(1, 10, 20, 40, 60),
    convention="mean score of 25, no credit when lives run out; one policy plays both hands",
    unit="points",
    checks=(Check("return_team", at_least=8.0, arms=("tuned",), at_the_end=True),),
    quick={"seeds": (0,)},
)
