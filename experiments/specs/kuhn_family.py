"""The wider family on Kuhn poker at an equal budget, with GEMS, the paper's eight baselines and forms of self-play.

The budget is the number of environment steps of an iteration of the preset `paper`. All steps count: for learning, for
measuring payoffs and for distillation.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from experiments.harness.spec import Arm
from experiments.specs.kuhn_compare import ARMS, BUDGETS, ENTRY, LEARNING, SECONDS, TRIALS
from experiments.specs.kuhn_compare import EXPERIMENT as KUHN_COMPARE

BUDGET = "1x"
# Methods of the family by label, with their own settings; the variants of `psro` are its options.
FAMILY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "sp_psro": ("sp_psro", {}),
    "fusion_psro": ("fusion_psro", {}),
    "psro, transfer": ("psro", {"start": "transfer"}),
    "psro, one opponent": ("psro", {"start": "newest", "target": "newest"}),
    "psro, diverse": ("psro", {"diversity": True}),
    "xdo": ("xdo", {}),
    "pdo": ("pdo", {}),
    "edo-like": ("edo", {}),
    "simplex_neupl": ("simplex_neupl", {"entropy_weight": 0.01, "entry_episodes": ENTRY[BUDGET] // 2}),
    "jpsro": ("jpsro", {"capacity": 8}),
    "neupl_jpsro": ("neupl_jpsro", {"capacity": 8}),
    "fxp": ("fxp", {"capacity": 8}),
}
# Tabular references without a network: no learned response, no payoff table.
SAMPLED = {
    f"{method}{', baseline' * (baseline == 'learned')}": (method, {"baseline": baseline})
    for method in ("os_mccfr", "es_mccfr")
    for baseline in ("none", "learned")
}
ON_THE_TREE = ("xdo", "pdo", "edo-like")  # their restricted games are solved on the tree, without environment steps
EIGHT = tuple(dataclasses.replace(arm, label=arm.label.removesuffix(f" {BUDGET}")) for arm in ARMS[BUDGET])
WIDER = tuple(
    Arm(
        label,
        method=method,
        overrides={**LEARNING, "entry_episodes": ENTRY[BUDGET], **own},
        budget=BUDGETS[BUDGET],
    )
    for label, (method, own) in FAMILY.items()
)
REFERENCES = tuple(
    Arm(label, method=method, overrides=own, budget=BUDGETS[BUDGET]) for label, (method, own) in SAMPLED.items()
)

EXPERIMENT = dataclasses.replace(
    KUHN_COMPARE,
    name="kuhn_family",
    title="The wider family on Kuhn poker at an equal budget",
    arms=(*EIGHT, *WIDER, *REFERENCES),
    seeds=tuple(range(10)),
    groups=(
        ("GEMS, the eight of the paper, self-play, MMD and NashPG", tuple(arm.label for arm in EIGHT)),
        ("the wider family", tuple(arm.label for arm in WIDER if arm.label not in ON_THE_TREE)),
        ("Monte-Carlo CFR on tables", tuple(SAMPLED)),
        ("restricted games on the tree", ON_THE_TREE),
    ),
    notes=(
        "`xdo`, `pdo` and `edo-like` learn their responses like the other methods, but solve the restricted game on "
        "the tree, without environment steps. On games that are not enumerable they would have to learn that, too.",
        '`psro, transfer`, `psro, one opponent` and `psro, diverse` are options of PSRO: `start="transfer"`, '
        '`start="newest"` with `target="newest"`, and `diversity=True`.',
        "All baselines learn tables of logits by PPO with the settings of `make kuhn-compare`. `docs/methods.md` lists "
        "which parts are reconstructions.",
        TRIALS,
        SECONDS,
    ),
    quick={
        "iterations": 2,
        "seeds": (0,),
        "report": (2,),
        "arms": (*WIDER, *REFERENCES),
        "groups": (("the wider family", tuple(arm.label for arm in (*WIDER, *REFERENCES))),),
    },
)
