"""Two thousand policies from one generator per player: Kuhn poker, 1,000 iterations, no anchor is replaced."""

from experiments.harness.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="two_thousand",
    title="Two thousand policies on Kuhn poker",
    game="kuhn_poker",
    arms=(Arm("gems", preset="paper", overrides={"capacity": 1001}, quick={"capacity": 101}),),
    iterations=1000,
    seeds=(0, 1, 2),
    chunk=50,
    metrics=("exploitability", "active_anchors", "seconds"),
    panels=("active_anchors",),
    pictures=("embeddings",),
    report=(1, 10, 100, 1000),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    notes=("The paper counts 2,002 anchors of chess after as many iterations, which would take days on two cores.",),
    checks=(Check("active_anchors", at_least=2002, at_the_end=True),),
    quick={
        "iterations": 100,
        "seeds": (0,),
        "report": (1, 10, 100),
        "checks": (Check("active_anchors", at_least=202, at_the_end=True),),
    },
)
