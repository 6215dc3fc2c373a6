"""Which ingredient of the preset `replay` helps on Kuhn poker, at 1M environment steps."""

from experiments.ablations.reuse_arms import reuse_experiment

KUHN_WHOLE = {
    "half live opponents": {"live_opponents": True, "self_play_fraction": 0.5},
    "nothing annealed": {"learning_rate_decay": 0.0, "entropy_decay": 0.0},
    "codes of constant norm": {"constant_norm": True},
}

EXPERIMENT = reuse_experiment(
    "ablate_reuse",
    "Reused returns on Kuhn poker, 1M environment steps",
    "kuhn_poker",
    1_000_000,
    "tuned",
    KUHN_WHOLE,
    60,
)
