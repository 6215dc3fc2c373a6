"""Estimates how long the experiments' GEMS arms would take on one GPU; none was at hand.

    python -m benchmarks.gpu_estimates [--quick]

Work of the cost model (`benchmarks/work_model.py`) at half of a data sheet's bandwidth and 0.3 of its arithmetic, plus
the launches of sequential work (`benchmarks/predictions.py`): a lower limit, without compilation, evaluation and
pictures, and without the baselines, whose loops are Python's.
"""

from __future__ import annotations

import argparse

from benchmarks.predictions import MACHINES, at_best
from benchmarks.work_model import Lengths, Work, traffic, work
from experiments.harness.spec import Experiment, Plan, make_plan
from experiments.run import known, load
from gems_jax.config import GemsConfig


def seconds(plan: Plan) -> float:
    """Estimates the seconds of all GEMS arms, each with all its seeds at once."""
    total, seeds = 0.0, len(plan.spec.seeds)
    for arm, config, _ in plan.arms:
        if not isinstance(config, GemsConfig):
            continue
        game = plan.games[arm.label]
        once = work(game, config, Lengths(game.max_steps, game.max_steps))
        together = Work(*(seeds * part for part in once))._replace(turns=once.turns, updates=once.updates)
        total += plan.iterations(arm) * at_best(together, traffic(game, config), MACHINES[0])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the sizes of QUICK=1")
    options = parser.parse_args()
    print(f"estimates for {MACHINES[0].name}, GEMS arms alone, compilation apart")
    for name in known():
        spec = load(name)
        if isinstance(spec, Experiment):
            print(f"{name:<22}{seconds(make_plan(spec, options.quick)) / 60:8.2g} min")


if __name__ == "__main__":
    main()
