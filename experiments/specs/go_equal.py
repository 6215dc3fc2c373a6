"""Go on 9x9 points: GEMS and self-play by the same learner at equal environment steps, 3 million in all."""

from experiments.specs.equal_steps import against_self_play

EXPERIMENT = against_self_play(
    "go_9x9",
    steps=500_000,
    name="go_equal",
    title="GEMS and self-play on Go 9x9 at equal steps",
    options={"shared": True},
    iterations=6,
    evaluation_every=2,
    metrics=("win_random", "decisive", "length", "seconds"),
    panels=("win_random", "length"),
    report=(1, 2, 4, 6),
    unit="fraction of games",
)
