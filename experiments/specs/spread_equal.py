"""Simple Spread: GEMS and self-play by the same learner at equal environment steps, 4.7 million in all."""

from experiments.specs.equal_steps import against_self_play

EXPERIMENT = against_self_play(
    "simple_spread",
    steps=469_000,
    name="spread_equal",
    title="GEMS and self-play on Simple Spread at equal steps",
    iterations=10,
    evaluation_every=2,
    metrics=("return_team", "covered", "distinct", "collisions", "seconds"),
    panels=("return_team", "covered"),
    report=(1, 2, 4, 6, 8, 10),
    convention="mean return per agent of an episode of 25 steps",
    unit="return per agent",
)
