"""Connect Four: GEMS from scratch against random play and a one-ply tactician, and PSRO at equal steps."""

import dataclasses

from experiments.harness.spec import Arm, Check, Experiment

STEPS = 115_000  # env steps of an iteration of the preset `tuned`
ARMS = (
    Arm("gems", preset="tuned"),
    Arm(
        "psro",
        method="psro",
        budget=STEPS,
        overrides={
            "policy": "film", "policy_hidden": (64, 64), "critic_hidden": (64, 64), "opponents": 16, "episodes": 8,
            "segment": 42, "epochs": 4, "minibatches": 4, "normalise_advantages": True, "learning_rate": 1e-3,
            "entropy_weight": 0.12, "entry_episodes": 32,
        },
    ),
    Arm("random", method="random", iterations=1),
)  # fmt: skip
EXPERIMENT = Experiment(
    name="connect4",
    title="GEMS and PSRO on Connect Four",
    game="connect_four",
    options={"shared": True},
    arms=ARMS,
    iterations=200,
    seeds=(0, 1, 2, 3),
    exact=False,
    evaluation_every=20,
    metrics=("win_tactician", "win_random", "decisive", "seconds"),
    panels=("win_tactician", "win_random"),
    pictures=("embeddings", "boards", "outcomes_of_sides"),
    report=(1, 20, 60, 120, 200, 400, 800),
    unit="fraction of games",
    notes=(
        "Both seats are drawn from one population (`shared=True`), so what is learned in one helps in the other.",
        "FULL=1 with an earlier build reached 97.4 ± 1.0 % against random play and 52.8 ± 3.1 % against the tactician "
        "after 14 minutes (seed 0).",
        "PSRO uses the networks, batches and entropy of GEMS. Its step size was not tuned; its responses start from "
        "scratch.",
    ),
    # the required scores need longer runs: 15 minutes of one seed
    full={
        "iterations": 800,
        "seeds": (0,),
        "arms": (ARMS[0], ARMS[2]),
        "checks": (
            Check("win_random", at_least=0.97, arms=("gems",), at_the_end=True),
            Check("win_tactician", at_least=0.5, arms=("gems",), at_the_end=True),
        ),
    },
    quick={"seeds": (0,), "arms": (ARMS[0], dataclasses.replace(ARMS[1], iterations=20), ARMS[2])},
)
