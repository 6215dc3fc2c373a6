"""Common parts of the specs of Simple Tag and Simple Spread: GEMS against PSRO at equal environment steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from experiments.harness.spec import Arm, Experiment

# Networks are those of the preset `tuned`. Batches are smaller, because a response from scratch needs many gradient
# steps more than accurate ones. A payoff is measured with as many episodes as GEMS plays for an anchor in one meta
# update.
LEARNING: Mapping[str, Any] = {
    "policy": "mlp", "critic_hidden": (64, 64), "opponents": 8, "episodes": 2, "epochs": 2, "minibatches": 4,
    "normalise_advantages": True, "learning_rate": 2e-3, "critic_learning_rate": 2e-3,
    "entropy_weight": 0.01, "discount": 0.95, "entry_episodes": 32,
}  # fmt: skip


def against_psro(
    budget: int, policy_hidden: tuple[int, ...], gems: Mapping[str, Any] | None = None, **fields: Any
) -> Experiment:
    """Makes an experiment of 100 iterations and 5 seeds of GEMS and PSRO at equal environment steps.

    Args:
      budget: environment steps per iteration.
      policy_hidden: hidden widths of the policies.
      gems: changes to the preset `tuned`.
      **fields: further fields of the experiment.
    """
    learning = {**LEARNING, "policy_hidden": policy_hidden}
    arms = (
        Arm("gems", preset="tuned", overrides=gems or {}),
        Arm("psro", method="psro", overrides=learning, budget=budget),
        Arm("psro, warm", method="psro", overrides={**learning, "start": "newest"}, budget=budget),
        Arm("random", method="random", iterations=1),
    )
    quick = tuple(dataclasses.replace(arm, iterations=20) if arm.method == "psro" else arm for arm in arms)
    return Experiment(
        arms=arms,
        iterations=100,
        seeds=(0, 1, 2, 3, 4),
        exact=False,
        evaluation_every=10,
        report=(1, 20, 50, 100),
        pictures=("ghosts",),
        notes=(
            f"Every method plays at most {budget:,} steps an iteration. `psro` starts every response from scratch, as "
            "classical PSRO does; `psro, warm` starts it from the newest policy, which is a stronger baseline.",
            "Both PSROs use the networks of GEMS. Their batches and step sizes are the best of four that were tried "
            "for three iterations of Simple Spread. `random` plays uniformly random actions.",
            "`seconds` are those of all seeds: in parallel for GEMS, in sequence for PSRO.",
        ),
        quick={"seeds": (0,), "arms": quick},
        **fields,
    )
