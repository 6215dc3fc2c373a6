"""Simple Tag: GEMS and self-play by the same learner at equal environment steps, 8 million in all."""

from experiments.specs.equal_steps import against_self_play

EXPERIMENT = against_self_play(
    "simple_tag",
    steps=500_000,
    name="tag_equal",
    title="GEMS and self-play on Simple Tag at equal steps",
    iterations=16,
    evaluation_every=4,
    metrics=("pursuers_vs_random", "random_vs_evader", "return_pursuers", "captures", "seconds"),
    panels=("pursuers_vs_random", "random_vs_evader"),
    report=(1, 4, 8, 12, 16),
    convention="return per pursuer of an episode of 25 steps, 10 per touch by any of them",
    unit="return per pursuer",
)
