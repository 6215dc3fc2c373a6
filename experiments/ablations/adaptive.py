"""Adaptive budgets on Kuhn poker: the same episodes, moved each iteration to the phase whose error dominates."""

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
        "At equal episodes adaptive budgets are ahead early and not at the end: 0.107 and 0.161 after 10 iterations, "
        "0.057 and 0.076 after 20, and 0.055 and 0.045 in the mean of the last 10 of 40. No difference is larger than "
        "its interval. Of the mean over all iterations they take off 14 % (0.098 and 0.113).",
        "What moves the shares is measured by the run itself: the meta term follows the exact one closely, the "
        "oracle's is far too large late in a run (its exact gap is below 0.002 there, and it still gets a fifth).",
        "Two other rules for the oracle's error, its standard error and a wider cap, were tried before on other random "
        "numbers, and ended at 0.067 and 0.086 where fixed budgets ended at 0.056.",
    ),
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
