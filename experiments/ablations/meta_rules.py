"""The meta-strategy's update on Kuhn poker: optimistic against plain, and the three step-size schedules."""

from experiments.harness.spec import Arm, Experiment

# The choices of the preset `tuned` at ten times the budget of `paper` (as in kuhn_compare).
SMALL = {
    "meta_steps": 40, "num_opponents": 24, "oracle_opponents": 64, "abr_opponents": 256, "abr_steps": 115,
}  # fmt: skip
RULES = {
    "OMWU, constant": {},
    "MWU, constant": {"meta_rule": "mwu"},
    "OMWU, 1 / sqrt(t)": {"schedule": "sqrt"},
    "OMWU, harmonic": {"schedule": "harmonic"},
}

EXPERIMENT = Experiment(
    name="meta_rules",
    title="Rules and schedules of the meta-strategy on Kuhn poker",
    game="kuhn_poker",
    arms=tuple(Arm(label, preset="tuned", overrides={**SMALL, **own}) for label, own in RULES.items()),
    iterations=30,
    seeds=(0, 1, 2),
    chunk=10,
    metrics=("exploitability", "exploit_restricted", "cce_gap"),
    report=(5, 10, 20, 30),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    groups=(
        ("optimistic and plain", ("OMWU, constant", "MWU, constant")),
        ("schedules", ("OMWU, constant", "OMWU, 1 / sqrt(t)", "OMWU, harmonic")),
    ),
    notes=(
        "All arms have eta_0 = 10. t counts the updates of the whole run: the 1,200th update has a 35th of the first "
        "step size with 1 / sqrt(t), and a 600th with the harmonic schedule (alpha = 0.5).",
    ),
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
