"""Kuhn poker at equal environment steps: GEMS, the paper's eight baselines with learned responses, and self-play.

Self-play is plain or regularized towards a magnet (MMD, NashPG).

There are two budgets: the environment steps of an iteration of the preset `paper`, and ten times that. All steps
count, for learning and for measuring payoffs.
"""

from collections.abc import Mapping
from typing import Any

from experiments.harness.spec import Arm, Experiment

STEPS = 25_750  # env steps of an iteration; the preset `paper` takes about 25,000, the mean over 40
BUDGETS = {"1x": STEPS, "10x": 10 * STEPS}

# The preset `paper`, with more training at the larger budget; and the choices of `tuned`, which itself plays 27 times
# as much, with less of everything but training. The number of ABR steps is such that a run uses its budget.
GEMS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "1x": {
        "paper": {},
        "tuned": {
            "meta_steps": 10, "num_opponents": 8, "oracle_opponents": 8, "kl_opponents": 2, "abr_opponents": 64,
            "abr_steps": 51,
        },
    },
    "10x": {
        "paper": {"abr_steps": 408},
        "tuned": {
            "meta_steps": 40, "num_opponents": 24, "oracle_opponents": 64, "abr_opponents": 256, "abr_steps": 115,
        },
    },
}  # fmt: skip
# Learners of all baselines: tables of logits, as the generator of these presets makes them, by PPO. Payoffs are
# measured with few episodes, so that most of a budget is left for learning.
LEARNING: Mapping[str, Any] = {"opponents": 64}
ENTRY = {"1x": 32, "10x": 320}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "psro": {},
    "double_oracle": {},
    "alpha_psro": {},
    "a_psro": {},
    "apsro": {},
    "epsro": {},
    "p2sro": {"ticks": 1},
    "neupl": {"entropy_weight": 0.01},
}


def arms(budget: str) -> tuple[Arm, ...]:
    """Lists the arms of one budget, GEMS first."""
    gems = [Arm(f"gems {name} {budget}", preset=name, overrides=overrides) for name, overrides in GEMS[budget].items()]
    stored = [
        Arm(
            f"{name} {budget}",
            method=name,
            # NeuPL measures all pairs of slots in every iteration, the other methods only new ones
            overrides={**LEARNING, "entry_episodes": ENTRY[budget] // (1 + (name == "neupl")), **own},
            budget=BUDGETS[budget],
        )
        for name, own in METHODS.items()
    ]
    alone = [
        Arm(f"{name} {budget}", method=name, overrides=LEARNING, budget=BUDGETS[budget])
        for name in ("self_play", "mmd", "nash_pg")
    ]
    return (*gems, *stored, *alone)


SECONDS = (
    "Seconds are those of all seeds: in sequence for the methods that store policies, in one program for the others. "
    "The column `s` includes compilation for all methods, `seconds` in the JSON excludes it for all."
)
# How settings were chosen, with how many trials.
TRIALS = (
    "Settings and trials. GEMS, PSRO and its variants: by hand on this game, also with seeds of this experiment,"
    " before the other methods. `self_play`, `mmd`, `nash_pg`: 76 settings on this game, seeds 1000 to 1002. `apsro`, "
    "`epsro`, `sp_psro`: about 170 pairs of a setting and a game (rock-paper-scissors, biased, random, this one),"
    " seeds 1000 to 1011; seeds 0 to 9 were examined twice before the final choice, and seeds 10 to 19, examined"
    " once, confirm it for `epsro` (0.025). `neupl` about 62, `fxp` about 20, `simplex_neupl` 3 settings, on "
    "matrix games, seeds 1000 to 1003. One choice for `simplex_neupl` was reverted after its results on seeds 0 "
    "to 4 had been seen. `os_mccfr`, `es_mccfr`: 12 settings on this game, seeds 1000 to 1004; the published "
    "defaults were retained."
)
ARMS = {budget: arms(budget) for budget in BUDGETS}
DIMENSIONS = (2, 4, 8)  # d_z; 8 is the preset's
CODES = tuple(Arm(f"gems paper d_z {size}", preset="paper", overrides={"latent_dim": size}) for size in DIMENSIONS)
QUICK = tuple(arm for arm in ARMS["1x"] if arm.preset != "tuned")
EXPERIMENT = Experiment(
    name="kuhn_compare",
    title="Kuhn poker at equal budgets",
    game="kuhn_poker",
    arms=(*(arm for group in ARMS.values() for arm in group), *CODES),
    groups=(
        *((f"{BUDGETS[name]:,} steps an iteration", tuple(arm.label for arm in ARMS[name])) for name in BUDGETS),
        ("GEMS by the dimension of its codes", tuple(arm.label for arm in CODES)),
    ),
    iterations=40,
    seeds=(0, 1, 2, 3, 4),
    metrics=("exploitability", "exploitability_average"),
    report=(10, 40),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    references=(("uniform play", 11 / 24), ("the paper's figure for GEMS, iteration 40", 0.09)),
    notes=(
        "All baselines learn tables of logits by PPO with the same settings; only `neupl` has one network for all "
        "policies.",
        TRIALS,
        "`gems paper` at ten times the budget has more ABR steps and is otherwise the same. GEMS meets a budget "
        "through its settings, the other methods by counting steps; the table has the actual numbers.",
        SECONDS,
    ),
    # the small budget alone and one GEMS, because compilation takes nearly all of the time
    quick={
        "iterations": 3,
        "seeds": (0,),
        "report": (3,),
        "arms": QUICK,
        "groups": (("the small budget", tuple(arm.label for arm in QUICK)),),
    },
)
