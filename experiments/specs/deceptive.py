"""Deceptive Messages: does the Receiver learn to pull the best arm whatever the message?"""

from experiments.harness.spec import Arm, Check, Experiment

STEPS = 142_000  # env steps of an iteration of the preset `tuned`
LEARNING = {"opponents": 64}  # small batches: with 512 as in `tuned`, responses from scratch stop at a NashConv of 0.02
ZERO_SUM = {"reward_mode": "zero_sum"}

EXPERIMENT = Experiment(
    name="deceptive",
    title="GEMS and the PSRO family on the Deceptive Messages Game",
    game="deceptive_messages",
    arms=(
        Arm("paper", preset="paper"),
        Arm("tuned", preset="tuned"),
        Arm("tuned random", preset="tuned", options={"mode": "random"}),
        *(Arm(name, method=name, overrides=LEARNING, budget=STEPS) for name in ("psro", "alpha_psro")),
        Arm("zero-sum tuned", preset="tuned", options=ZERO_SUM),
        *(
            Arm(f"zero-sum {name}", method=name, overrides=LEARNING, budget=STEPS, options=ZERO_SUM)
            for name in ("psro", "double_oracle", "a_psro")
        ),
    ),
    iterations=6,
    seeds=(0, 1, 2, 3, 4),
    metrics=("nash_conv", "value_sender", "value_receiver"),
    panels=("value_sender", "value_receiver"),
    report=(1, 2, 4, 6),
    convention="NashConv, in rewards per game",
    unit="reward per game",
    checks=(
        Check("value_sender", at_most=0.01, arms=("tuned",), at_the_end=True),
        Check("value_receiver", at_least=0.79, arms=("tuned",), at_the_end=True),
    ),
    notes=(
        "`tuned` was chosen by hand among 20 settings, with other random numbers than those of these seeds.",
        f"The PSRO family learns tables of logits by PPO and takes {STEPS:,} env steps an iteration, as `tuned` does. "
        "Double Oracle's linear program and A-PSRO require zero-sum games. In the zero-sum form the Sender loses what "
        "the Receiver earns, so its minimum is -0.8 and a value of 0 has no special meaning.",
        "With a random best arm the Sender earns 0 in every equilibrium, and the Receiver between 0.5333 and 0.8.",
    ),
    quick={"seeds": (0, 1)},
)
