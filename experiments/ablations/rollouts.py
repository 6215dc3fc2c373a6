"""When do rollouts become the bottleneck? Exploitability on Kuhn poker against n m, the episodes per value."""

from experiments.ablations.meta_rules import SMALL
from experiments.harness.spec import Arm, Experiment

EPISODES = (2, 8, 32, 128)  # opponents per anchor and update, one episode each

EXPERIMENT = Experiment(
    name="rollouts",
    title="Exploitability against the episodes per value, Kuhn poker",
    game="kuhn_poker",
    arms=tuple(
        Arm(f"n m = {count}", preset="tuned", overrides={**SMALL, "num_opponents": count}) for count in EPISODES
    ),
    iterations=30,
    seeds=(0, 1, 2),
    chunk=10,
    metrics=("exploitability", "budget_meta_regret", "budget_best_response", "monte_carlo_error"),
    report=(5, 10, 20, 30),
    convention="exploitability = NashConv / 2, in chips per game",
    unit="chips per game",
    against=("n m, episodes per anchor and meta update", EPISODES),
    notes=("40 meta updates per iteration: an anchor is measured with 40 n m episodes in each iteration.",),
    quick={"iterations": 5, "seeds": (0,), "report": (5,)},
)
