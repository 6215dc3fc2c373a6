"""Kuhn poker at equal environment steps: GEMS, the paper's eight baselines with learned responses, and self-play.

Two budgets: what an iteration of the preset `paper` takes, and ten times that. Every method pays for what it plays,
be it for learning or for measuring payoffs.
"""

from collections.abc import Mapping
from typing import Any

from gems_jax.run.spec import Arm, Experiment

STEPS = 25_800  # env steps of an iteration of the preset `paper`, the mean over 40
BUDGETS = {"1x": STEPS, "10x": 10 * STEPS}

# What every learner has: tables of logits, like the policies that the preset's generator makes, and PPO.
LEARNING: Mapping[str, Any] = {"opponents": 64, "learning_rate": 0.05}
# Episodes behind a payoff: little enough to leave most of the budget for learning.
ENTRY = {"1x": {"entry_episodes": 32}, "10x": {"entry_episodes": 320}}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "psro": {},
    "double_oracle": {},
    "alpha_psro": {},
    "a_psro": {},
    "apsro": {},
    "epsro": {},
    "p2sro": {"ticks": 1},
    "neupl": {"learning_rate": 0.005, "entropy_weight": 0.01},
}
# The preset `tuned` plays 27 times as much as `paper`: the same choices, with less of everything but training.
GEMS_TUNED = {
    "1x": {"meta_steps": 10, "num_opponents": 8, "oracle_opponents": 8, "kl_opponents": 2, "abr_opponents": 64},
    "10x": {"meta_steps": 40, "num_opponents": 24, "oracle_opponents": 64, "abr_opponents": 256},
}


def arms(budget: str) -> tuple[Arm, ...]:
    """All of one budget, GEMS first."""
    steps = BUDGETS[budget]
    return (
        Arm(f"gems paper {budget}", preset="paper", budget=steps),
        Arm(f"gems tuned {budget}", preset="tuned", overrides=GEMS_TUNED[budget], budget=steps),
        *(
            Arm(f"{name} {budget}", method=name, overrides={**LEARNING, **ENTRY[budget], **own}, budget=steps)
            for name, own in METHODS.items()
        ),
        Arm(f"self_play {budget}", method="self_play", overrides=LEARNING, budget=steps),
    )


ARMS = {budget: arms(budget) for budget in BUDGETS}
EXPERIMENT = Experiment(
    name="kuhn_compare",
    title="Kuhn poker at equal budgets",
    game="kuhn_poker",
    arms=tuple(arm for group in ARMS.values() for arm in group),
    groups=tuple(
        (f"{BUDGETS[budget]:,} env steps per iteration", tuple(arm.label for arm in group))
        for budget, group in ARMS.items()
    ),
    iterations=40,
    seeds=(0, 1, 2, 3, 4),
    metrics=("exploitability", "exploitability_average"),
    report=(10, 40),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    references=(("uniform play", 11 / 24), ("the paper's figure for GEMS, iteration 40", 0.09)),
    notes=(
        "All baselines learn tables of logits by PPO with the same settings; `neupl` alone has a network for all slots "
        "and smaller steps. Settings were chosen by hand on seeds of this experiment.",
        "`gems paper` at ten times the budget has more ABR steps and is otherwise the same.",
        "`seconds` are of all seeds one after the other for the methods that store policies, and of all seeds at once "
        "for GEMS and self-play; what the former compile inside their steps is in them.",
    ),
    quick={"iterations": 3, "seeds": (0,), "report": (3,)},
)
