"""Which ingredient of the preset `replay` helps on Kuhn poker, at 10M environment steps."""

from experiments.ablations.ablate_reuse import KUHN_WHOLE
from experiments.ablations.reuse_arms import reuse_experiment

EXPERIMENT = reuse_experiment(
    "ablate_reuse_10m", "Reused returns on Kuhn poker, 10M environment steps", "kuhn_poker", 10_000_000, "tuned",
    KUHN_WHOLE, 60,
)  # fmt: skip
