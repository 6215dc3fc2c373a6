"""Which ingredient of the preset `replay` helps on Leduc hold'em, at 10M environment steps."""

from experiments.ablations.ablate_reuse_leduc import LEDUC_WHOLE
from experiments.ablations.reuse_arms import reuse_experiment

EXPERIMENT = reuse_experiment(
    "ablate_reuse_leduc_10m", "Reused returns on Leduc hold'em, 10M environment steps", "leduc_holdem", 10_000_000,
    "replay", LEDUC_WHOLE, 60,
)  # fmt: skip
