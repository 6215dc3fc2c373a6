"""Adaptive budgets on Kuhn poker: each iteration moves episodes to the phase whose error dominates."""

from experiments.ablations.meta_rules import SMALL
from experiments.harness.spec import Arm, Experiment

FIXED = {**SMALL, "oracle_rounds": 4}

EXPERIMENT = Experiment(
    name="adaptive",
    title="Fixed and adaptive budgets at equal episodes, Kuhn poker",
    game="kuhn_poker",
    arms=(
        Arm("fixed", preset="tuned", overrides=FIXED),
        Arm("adaptive", preset="tuned", overrides={**FIXED, "adaptive": True}),
    ),
    iterations=40,
    seeds=(0, 1, 2, 3, 4),
    chunk=10,
    metrics=("exploitability", "exploitability_average", "budget_meta_regret", "budget_best_response"),
    panels=("share_meta", "share_oracle", "share_abr"),
    report=(5, 10, 20, 40),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    notes=(
        "At equal episodes adaptive budgets are ahead early but not at the end (adaptive, then fixed): 0.107 and 0.161 "
        "after 10 iterations, 0.057 and 0.076 after 20, 0.055 and 0.045 in the mean of the last 10 of 40. No "
        "difference exceeds its interval. The mean over all iterations is 14 % lower (0.098 and 0.113).",
        "The run itself measures the errors that move the fractions. The meta term follows the exact one closely. The "
        "oracle's is far too large late in a run: its exact gap is below 0.002 there, and it still gets a fifth.",
        "Two other rules for the oracle's error, its standard error and a wider cap, were tried earlier with other "
        "random numbers. They ended at 0.067 and 0.086, fixed budgets at 0.056.",
    ),
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
