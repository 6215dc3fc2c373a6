"""Which ingredient of the preset `replay` helps on Leduc hold'em, at 1M environment steps."""

from experiments.ablations.reuse_arms import reuse_experiment

LEDUC_WHOLE = {
    "no live opponents": {"live_opponents": False, "self_play_fraction": 0.0},
    "codes of constant norm": {"constant_norm": True},
}

EXPERIMENT = reuse_experiment(
    "ablate_reuse_leduc", "Reused returns on Leduc hold'em, 1M environment steps", "leduc_holdem", 1_000_000, "replay",
    LEDUC_WHOLE, 60,
)  # fmt: skip
