"""Connect Four: GEMS and self-play by the same learner at equal environment steps, 17 million in all."""

from experiments.specs.equal_steps import against_self_play

EXPERIMENT = against_self_play(
    "connect_four",
    steps=1_043_000,
    name="connect4_equal",
    title="GEMS and self-play on Connect Four at equal steps",
    options={"shared": True},
    iterations=16,
    evaluation_episodes=2000,
    evaluation_every=4,
    metrics=("win_tactician", "win_random", "score_tactician", "decisive", "seconds"),
    panels=("win_tactician", "win_random"),
    report=(1, 4, 8, 12, 16),
    unit="fraction of games",
)
