"""Chess: GEMS from scratch against whoever plays at random."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="chess",
    title="GEMS on chess",
    game="chess",
    options={"shared": True},
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=20,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=20,
    metrics=("score_random", "win_random", "draw_random", "length", "seconds"),
    panels=("score_random", "win_random"),
    over_time=True,
    report=(1, 20),
    convention="score = wins + draws / 2, of 1,000 games",
    unit="share of games",
    checks=(Check("score_random", at_least=0.53, arms=("tuned",), at_the_end=True),),
    quick={"seeds": (0,)},
)
