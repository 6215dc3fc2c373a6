"""Kuhn poker: GEMS with the paper's settings and tuned ones, PSRO and Double Oracle.

`make kuhn` runs two seeds; `make kuhn FULL=1` runs five, and GEMS that generates the weights of an MLP.
"""

from experiments.harness.spec import Arm, Check, Experiment

FIRST = (
    Arm("paper", preset="paper"),
    Arm("tuned", preset="tuned"),
    Arm("psro", method="psro", overrides={"oracle": "ppo", "rounds": 300, "opponents": 128, "capacity": 41}),
    Arm("double oracle, exact", method="double_oracle"),
)

EXPERIMENT = Experiment(
    name="kuhn",
    title="GEMS on Kuhn poker",
    game="kuhn_poker",
    arms=FIRST,
    iterations=40,
    seeds=(0, 1),
    metrics=("exploitability", "nash_conv", "exploitability_average"),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    references=(
        ("uniform play", 11 / 24),
        ("the paper's figure at iteration 40", 0.09),
        ("OpenSpiel's PSRO with exact best responses at iteration 40", 0.0069),
    ),
    checks=(Check("budget_violation", at_most=1e-5),),
    notes=(
        "`paper` is the best of three: the paper does not print the generator's width; 64 (0.182), 32 (0.142) and 16 "
        "(chosen) were tried on these same seeds, while other code changed too. It was not checked on other seeds.",
        "Rounding alone changes the results of `tuned`: with 100 meta updates per iteration instead of 200, two builds "
        "of the same code gave 0.0113 ± 0.0049 and 0.0224 ± 0.0263.",
        "`psro` learns its responses by PPO from about 77 thousand episodes per iteration and measures payoffs with "
        "1,000 episodes each. `double oracle, exact` uses the game tree and plays no episodes.",
    ),
    quick={"iterations": 8},
    full={"arms": (*FIRST[:2], Arm("tuned-mlp", preset="tuned-mlp"), *FIRST[2:]), "seeds": (0, 1, 2, 3, 4)},
)
