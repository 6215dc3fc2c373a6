"""Adaptive budgets on Kuhn poker: the same episodes, moved each iteration to the phase whose error dominates."""

from experiments.meta_rules import SMALL
from gems_jax.run.spec import Arm, Experiment

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
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
