"""Go on 9x9 points: GEMS from scratch against random play."""

from experiments.harness.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="go",
    title="GEMS on Go 9x9",
    game="go_9x9",
    options={"shared": True},
    arms=(Arm("gems", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=200,
    seeds=(0,),
    exact=False,
    evaluation_every=15,
    metrics=("win_random", "decisive", "length", "seconds"),
    panels=("win_random", "length"),
    over_time=True,
    pictures=("embeddings", "boards"),
    report=(1, 15, 30, 60, 90, 200),
    unit="fraction of games",
    checks=(Check("win_random", at_least=0.95, arms=("gems",), at_the_end=True),),
    quick={"iterations": 30},
)
