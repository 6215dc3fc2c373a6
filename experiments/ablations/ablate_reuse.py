"""Which ingredient of the preset `replay` pays: reused returns, control variates, responses on stored episodes.

All arms play about 25,000 environment steps an iteration on Kuhn poker, 40 iterations. An arm differs by one ingredient
from the one before it, or from the whole.
"""

from experiments.harness.spec import Arm, Experiment

BUDGET = 25_000
# ABR-TR on fresh episodes with the step size and trust region of the preset `replay`.
FRESH = {
    "mutations": 0, "randoms": 8, "oracle_opponents": 32, "abr_steps": 30, "abr_opponents": 128,
    "learning_rate": 0.01, "beta_kl": 3.0,
}  # fmt: skip
PAIRS = {
    **FRESH, "estimator": "pairs", "mixture_samples": 2500, "sigma_floor": 0.5, "meta_rule": "rm_plus",
    "meta_steps": 300,
}  # fmt: skip
TRAJECTORIES = {**PAIRS, "estimator": "trajectories", "buffer_episodes": 65_536}


def arm(label: str, preset: str, **overrides: object) -> Arm:
    """One arm at the common budget."""
    return Arm(label, preset=preset, overrides=overrides, budget=BUDGET)


EXPERIMENT = Experiment(
    name="ablate_reuse",
    title="Reused returns on Kuhn poker: which ingredient pays, at equal environment steps",
    game="kuhn_poker",
    arms=(
        arm("nothing reused", "tuned", **FRESH),
        arm("pairs", "tuned", **PAIRS),
        arm("pairs, control variate", "tuned", **PAIRS, control_variate="critic"),
        arm("trajectories", "tuned", **TRAJECTORIES),
        arm("trajectories, OMWU", "tuned", **{**TRAJECTORIES, "meta_rule": "omwu"}),
        arm("trajectories, live opponents", "tuned", **TRAJECTORIES, live_opponents=True, self_play_fraction=0.5),
        arm("replay", "replay"),
        arm("replay, no entropy", "replay", entropy_weight=0.0),
        arm("replay, live opponents", "replay", live_opponents=True, self_play_fraction=0.5),
        arm("replay, codes of constant norm", "replay", constant_norm=True),
    ),
    iterations=40,
    seeds=(0, 1, 2, 3, 4),
    chunk=10,
    metrics=("exploitability", "exploitability_average", "budget_meta_regret", "budget_best_response"),
    panels=("monte_carlo_error",),
    report=(5, 10, 20, 40),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    notes=(
        "Settings were chosen on seeds 1000 and up, about 45 of them on this game; these seeds were not looked at.",
        "`nothing reused` estimates every anchor anew before each meta update, as Algorithm 1 does.",
    ),
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
