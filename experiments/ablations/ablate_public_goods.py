"""Public Goods, 5 players: every setting that the paper's appendix Q names, one factor at a time around `paper`."""

from experiments.harness.ablation import levels, one_at_a_time
from experiments.harness.spec import Arm, Experiment

FACTORS = one_at_a_time(
    Arm("paper", preset="paper", overrides={"capacity": 22}),  # slots for two anchors per call
    {
        "eta (paper: 0.08)": levels("eta", 0.03, 0.12),
        "eta_sched (const)": levels("schedule", "sqrt", "harmonic"),
        "ema (0)": levels("ema", 0.2, 0.5),
        "mwu_grad_cap (none)": levels("gradient_cap", 0.25, 0.05),
        "temperature (1)": levels("temperature", 2.0),
        "oracle_nz (1)": levels("anchors_per_call", 2),
        "oracle_period (1)": levels("oracle_period", 2, 5),
        "pools (32 + 32)": [
            {"mutations": 8, "randoms": 8},
            {"mutations": 64, "randoms": 0},
            {"mutations": 0, "randoms": 64},
        ],
        "zdim (8)": levels("latent_dim", 16),
        "abr_lr (2e-4)": levels("learning_rate", 1e-4, 3e-4, 1e-3),
        "abr_steps (30)": levels("abr_steps", 0, 10, 60),
        "beta_kl (0.05)": levels("beta_kl", 0.0, 0.01, 0.2),
    },
)
EXPERIMENT = Experiment(
    name="ablate_public_goods",
    title="Ablation on Public Goods, one factor at a time",
    game="public_goods",
    arms=FACTORS.arms,
    groups=FACTORS.groups,
    ablation=True,
    iterations=10,
    seeds=(0, 1, 2, 3, 4),
    metrics=("nash_conv", "coop", "welfare", "coop_auc", "welfare_auc"),
    report=(1, 10),
    convention="NashConv, in rewards per game",
    unit="reward per game",
    notes=(
        "The paper's table of this ablation is empty, so the grid around the printed settings is ours. The game is the "
        "dilemma (r = 3, c = 1), whose only equilibrium is defection. High cooperation and welfare therefore mean "
        "distance from equilibrium and are not an advantage of a setting.",
    ),
    quick={"seeds": (0, 1), "arms": FACTORS.arms[:3], "groups": FACTORS.groups[:1]},
)
