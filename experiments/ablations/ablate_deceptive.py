"""Deceptive Messages: settings of the trust region and the generator, one factor at a time around `paper`."""

from experiments.harness.ablation import levels, one_at_a_time
from experiments.harness.spec import Arm, Experiment

FACTORS = one_at_a_time(
    Arm("paper", preset="paper"),
    {
        "abr_lr (paper: 2e-4)": levels("learning_rate", 1e-4, 3e-4, 1e-3),
        "abr_steps (30)": levels("abr_steps", 0, 10, 60),
        "beta_kl (0.05)": levels("beta_kl", 0.0, 0.01, 0.2),
        "zdim (8)": levels("latent_dim", 16),
        "lambda_jac (1e-4)": levels("lambda_jacobian", 0.0, 1e-3, 1e-2),
    },
)
EXPERIMENT = Experiment(
    name="ablate_deceptive",
    title="Ablation on Deceptive Messages, one factor at a time",
    game="deceptive_messages",
    arms=FACTORS.arms,
    groups=FACTORS.groups,
    ablation=True,
    iterations=6,
    seeds=(0, 1, 2, 3, 4),
    metrics=("nash_conv", "value_sender", "value_receiver"),
    report=(1, 6),
    convention="NashConv, in rewards per game",
    unit="reward per game",
    notes=("The paper's table of this ablation is empty, so the grid around the printed settings is ours.",),
    quick={"seeds": (0, 1), "arms": FACTORS.arms[:4], "groups": FACTORS.groups[:1]},
)
