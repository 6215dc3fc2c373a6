"""Connect Four: GEMS from scratch against whoever plays at random and a one-ply tactician."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="connect4",
    title="GEMS on Connect Four",
    game="connect_four",
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    options={"shared": True},
    iterations=800,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=20,
    metrics=("win_tactician", "win_random", "seconds"),
    panels=("win_random", "win_tactician"),
    over_time=True,
    report=(1, 20, 60, 120, 240, 400, 800),
    unit="share of games",
    checks=(
        Check("win_random", at_least=0.97, arms=("tuned",), at_the_end=True),
        Check("win_tactician", at_least=0.5, arms=("tuned",), at_the_end=True),
    ),
    notes=("Both places are filled from one population (`shared=True`): what is learned in one helps in the other.",),
    quick={"seeds": (0,)},
)
