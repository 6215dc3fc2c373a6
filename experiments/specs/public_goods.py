"""The Public Goods Game: cooperation must converge to the dominant action, 0 in the dilemma and 1 in the control."""

from experiments.harness.spec import Arm, Check, Experiment

EXPERIMENT = Experiment(
    name="public_goods",
    title="GEMS on the Public Goods Game, 5 players",
    game="public_goods",
    arms=(
        Arm("dilemma paper", preset="paper"),
        Arm("dilemma tuned", preset="tuned"),
        Arm("control paper", preset="paper", options={"r": 6.0}),
        Arm("control tuned", preset="tuned", options={"r": 6.0}),
    ),
    iterations=10,
    seeds=(0, 1, 2, 3, 4),
    metrics=("nash_conv", "coop", "welfare", "coop_auc", "welfare_auc"),
    panels=("coop", "welfare"),
    report=(1, 2, 5, 10),
    convention="NashConv, in rewards per game",
    unit="reward per game",
    checks=(
        Check("coop", at_most=0.05, arms=("dilemma tuned",), at_the_end=True),
        Check("coop", at_least=0.95, arms=("control tuned",), at_the_end=True),
    ),
    notes=(
        "Dilemma: r = 3, c = 1. Control: r = 6, c = 1. High welfare in the dilemma means distance from equilibrium.",
        "`tuned` was chosen by hand among 8 settings, with other random numbers than those of these seeds.",
    ),
    quick={"seeds": (0, 1)},
)
