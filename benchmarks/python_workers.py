"""Steps per second of an environment that Python plays: by itself, through the host loop, and with several workers.

    python -m benchmarks.python_workers [--game pz:simple_spread_v3] [--workers 1 2] [--lanes 128] [--blocks 3]

By itself: the environment alone in a process of its own, random actions, nothing else. Through the loop: whole episodes
of `lanes` at a time with a network in every seat, as `gems_step` measures; what a step costs there beyond the
environment's own time is the loop's overhead (the policy included). Blocks are interleaved; printed are medians with
bootstrap intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import numpy as np

from benchmarks.timing import median, ratio, record
from gems_jax import make_game
from gems_jax.games.adapters.hosted import PythonGame
from gems_jax.host.stages import stage
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.rollout.episode import play_episode
from gems_jax.types import Array, Game, Policy, num_players

ALONE = """
import json, sys, time
import numpy as np
from gems_jax.host.base import make_environment
recipe, steps = json.loads(sys.argv[1]), int(sys.argv[2])
environment = make_environment(recipe)
facts, rng = environment.facts, np.random.default_rng(0)
seen, done, begin = environment.reset(0), 0, time.perf_counter()
while done < steps:
    if facts.continuous:
        actions = rng.uniform(-1, 1, seen.legal.shape)
    else:
        actions = np.asarray([rng.choice(np.flatnonzero(may)) if may.any() else 0 for may in seen.legal])
    seen, done = environment.step(actions), done + 1
    if seen.terminated or seen.truncated:
        seen = environment.reset(done)
print((time.perf_counter() - begin) / steps)
"""


def alone(game: PythonGame, steps: int) -> float:
    """Seconds per step of the environment itself."""
    line = [sys.executable, "-c", ALONE, json.dumps(game.recipe), str(steps)]
    return float(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


def episodes(game: Game, lanes: int) -> Callable[[Array], Array]:
    """Lengths of `lanes` whole episodes between networks."""
    network = MlpPolicy(int(np.prod(game.observation_shape)), game.num_actions, (64, 64), game.continuous)
    policies = (Policy(network.init(jax.random.key(0)), network),) * num_players(game)
    return stage(lambda key: jax.vmap(lambda k: play_episode(k, game, policies).length)(jax.random.split(key, lanes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="pz:simple_spread_v3")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--lanes", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=3)
    arguments = parser.parse_args()
    game = make_game(arguments.game)
    assert isinstance(game, PythonGame)
    play = episodes(game, arguments.lanes)
    per_step: dict[str, list[float]] = {name: [] for name in ["alone", *(f"{n} workers" for n in arguments.workers)]}
    for block in range(arguments.blocks + 1):
        found = {"alone": alone(game, 500)}
        for count in arguments.workers:
            os.environ["GEMS_WORKERS"] = str(count)
            play(jax.random.key(0))  # processes start, environments are made
            begin = time.perf_counter()
            steps = int(np.asarray(play(jax.random.key(block))).sum())
            found[f"{count} workers"] = (time.perf_counter() - begin) / steps
        if block:  # the first compiles
            for name, taken in found.items():
                per_step[name].append(taken)
    print(f"{arguments.game}, {arguments.lanes} lanes, {arguments.blocks} blocks, {os.cpu_count()} cores")
    seconds = {name: np.asarray(taken) for name, taken in per_step.items()}
    figures = [median(f"{arguments.game}: {name}", 1e6 * taken, "us a step") for name, taken in seconds.items()]
    first, *more = (f"{count} workers" for count in arguments.workers)
    overhead = seconds[first] - seconds["alone"]
    figures.append(median(f"{arguments.game}: {first}, beyond the environment's own time", 1e6 * overhead, "us a step"))
    figures += [ratio(f"{arguments.game}: {name} against {first}", seconds[first], seconds[name]) for name in more]
    record("python_workers", figures)


if __name__ == "__main__":
    main()
