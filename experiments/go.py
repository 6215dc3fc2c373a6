"""Go on 9x9 points: GEMS from scratch against whoever plays at random."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="go",
    title="GEMS on Go 9x9",
    game="go_9x9",
    options={"shared": True},
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=90,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=15,
    metrics=("win_random", "length", "seconds"),
    panels=("win_random", "length"),
    over_time=True,
    report=(1, 15, 30, 60, 90),
    unit="share of games",
    checks=(Check("win_random", at_least=0.95, arms=("tuned",), at_the_end=True),),
    quick={"seeds": (0,)},
)
