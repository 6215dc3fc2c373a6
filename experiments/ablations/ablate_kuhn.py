"""The 30 configurations of the paper's ablation on Kuhn poker (tab:khun-1, tab:khun-2), with exact values."""

from experiments.harness.spec import Arm, Experiment

# row: eta, schedule, EMA, ABR steps, learning rate, beta_KL, mutations, randoms, replacement; * is bold in the paper
ROWS = """
1a  .08 harmonic .2  0 1e-4    0 0 0 least_mass | 1b  .12 const    .5  0 1e-4    0 1 0 worst_ev
1c  .06 harmonic .5  0 1e-4    0 2 1 least_mass | 1d  .04 harmonic  0 20 5e-4 1e-2 1 0 worst_ev
1e  .06 sqrt     .8  0 1e-4    0 1 0 worst_ev   | 1f  .06 sqrt     .2  0 1e-4    0 1 0 worst_ev
1g    0 const     0  0 1e-4    0 1 0 least_mass | 1h  .12 harmonic .5 10 3e-4 5e-3 1 0 worst_ev
1i*   0 const     0  0 1e-4    0 0 0 least_mass | 1j  .08 harmonic .5  0 1e-4    0 0 0 least_mass
1k* .06 sqrt     .2  0 1e-4    0 0 0 worst_ev   | 1l  .10 harmonic .8  0 1e-4    0 1 0 least_mass
1m  .12 const     0  0 1e-4    0 2 1 worst_ev   | 1n  .08 const    .8 20 5e-4 1e-2 2 1 least_mass
1o  .06 harmonic  0 20 5e-4 1e-2 1 0 least_mass | 1p  .10 harmonic  0 20 5e-4 1e-2 1 0 least_mass
1q  .12 sqrt     .5  0 1e-4    0 0 0 least_mass | 1r  .10 harmonic .8 20 5e-4 1e-2 2 1 worst_ev
1s  .06 sqrt     .8 20 5e-4 1e-2 1 0 worst_ev   | 1t  .12 sqrt     .8 10 3e-4 5e-3 2 1 least_mass
2a*   0 const     0  0 1e-4    0 0 0 worst_ev   | 2b  .12 harmonic  0 20 5e-4 1e-2 1 0 least_mass
2c  .10 const    .2  0 1e-4    0 2 1 worst_ev   | 2d* .06 harmonic  0 20 5e-4 1e-2 0 0 worst_ev
2e* .06 harmonic .5  0 1e-4    0 0 0 worst_ev   | 2f  .08 const    .8  0 1e-4    0 0 0 worst_ev
2g  .06 sqrt     .2  0 1e-4    0 1 0 least_mass | 2h  .06 sqrt     .2  0 1e-4    0 2 1 least_mass
2i    0 const     0  0 1e-4    0 1 0 least_mass | 2j  .04 sqrt      0 10 3e-4 5e-3 0 0 least_mass
"""
FIELDS = ("eta", "schedule", "ema", "abr_steps", "learning_rate", "beta_kl", "mutations", "randoms", "replacement")
KINDS = (float, str, float, int, float, float, int, int, str)


def arm(row: str) -> Arm:
    name, *values = row.split()
    settings = {field: kind(value) for field, kind, value in zip(FIELDS, KINDS, values, strict=True)}
    changes = {**settings, "anchors_per_call": 1, "estimator": "exact"}
    return Arm(f"{name} {' '.join(values[:4])} {'+'.join(values[6:8])}", preset="paper", overrides=changes)


ARMS = tuple(arm(row) for line in ROWS.strip().splitlines() for row in line.split("|"))
FIRST, SECOND = (tuple(arm.label for arm in ARMS if arm.label.startswith(number)) for number in "12")
EXPERIMENT = Experiment(
    name="ablate_kuhn",
    title="The paper's ablation on Kuhn poker",
    game="kuhn_poker",
    arms=(
        *ARMS,
        Arm("preset paper", preset="paper"),
        Arm("preset paper, exact values", preset="paper", overrides={"estimator": "exact"}),
    ),
    groups=(
        ("tab:khun-1", FIRST),
        ("tab:khun-2", SECOND),
        ("for comparison", ("preset paper", "preset paper, exact values")),
    ),
    iterations=40,
    seeds=(0, 1, 2, 3, 4),
    metrics=("exploitability", "exploitability_average"),
    report=(1, 40),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    references=(("uniform play", 11 / 24),),
    notes=(
        "A row's name is its table and letter, * if the paper prints it bold (the lowest of its panel), then eta, "
        "schedule, EMA, ABR steps, and mutations + randoms of the pool. Settings that the table does not name are "
        "those of the preset `paper`; values are exact, as the paper's text says of this ablation "
        "(`meta_estimate_exact`).",
        "With an empty pool no anchor is ever added, and the mixture over one anchor cannot change. Without ABR steps "
        "the generator cannot change either. Such a row shows the exploitability of its first random policy.",
    ),
    quick={"seeds": (0, 1), "iterations": 10, "arms": ARMS[:4] + ARMS[8:10], "groups": ()},
)
