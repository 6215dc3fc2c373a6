"""Chess: GEMS from scratch against random play."""

from experiments.harness.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="chess",
    title="GEMS on chess",
    game="chess",
    options={"shared": True},
    arms=(Arm("gems", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=1000,
    seeds=(0,),
    exact=False,
    evaluation_every=20,
    metrics=("score_random", "win_random", "draw_random", "decisive", "centre", "length", "seconds"),
    panels=("score_random", "win_random"),
    over_time=True,
    pictures=("boards", "outcomes_of_sides"),
    report=(1, 4, 20, 100, 500, 1000),
    convention="score = wins + draws / 2",
    unit="fraction of games",
    notes=("Play is measured after iterations 1, 20, 40, ... and the last one.",),
    checks=(Check("score_random", at_least=0.53, arms=("gems",), at_the_end=True),),
    # no check: four iterations learn too little to be visible in 128 games
    quick={"iterations": 4, "evaluation_every": 4, "evaluation_episodes": 128, "checks": ()},
)
