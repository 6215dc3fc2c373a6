"""Simple Tag of MPE: three pursuers against a faster evader, each side against whoever plays at random."""

from gems_jax.run.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="tag",
    title="GEMS on Simple Tag",
    game="simple_tag",
    arms=(Arm("tuned", preset="tuned"), Arm("random", method="random", iterations=1)),
    iterations=120,
    seeds=(0, 1, 2),
    exact=False,
    evaluation_every=10,
    metrics=("pursuers_vs_random", "random_vs_evader", "return_pursuers", "seconds"),
    panels=("pursuers_vs_random", "random_vs_evader", "return_pursuers"),
    over_time=True,
    report=(1, 20, 50, 80, 120),
    convention="return per pursuer of an episode of 25 steps, 10 per touch by any of them",
    unit="return per pursuer",
    checks=(
        Check("pursuers_vs_random", at_least=35.0, arms=("tuned",), at_the_end=True),
        Check("random_vs_evader", at_most=1.5, arms=("tuned",), at_the_end=True),
    ),
    quick={"seeds": (0,)},
)
