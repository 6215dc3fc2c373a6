"""The authors' published budget for MPE through three paths: the compiled step, the Python fallback, one call a step.

    pip install "gems_jax[pettingzoo]"; python -m benchmarks.mpe_budget [--iterations 100] [--python 1] [--steps 500]

Episodes of 100 joint steps: 24 for the meta-game, 12 (spread: 9) for the oracle, 64 (48) to learn from in 20 gradient
steps, the trust region's on top; the authors' evaluation is left out. CPU seconds of all threads and workers, compiling
apart. The last path is how the authors' scripts play: one environment, one compiled policy call per step and player,
no learning at all; it is timed over `--steps` steps. The authors' own scripts take 32-44 CPU seconds per iteration of
tag and 22-27 of spread on such a machine.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks.timing import Figure, record
from gems_jax import GemsConfig, init_gems, make_game, make_solver
from gems_jax.accelerator.compile import program
from gems_jax.host.base import make_environment
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.types import Game

LENGTH = 100
AUTHORS = {"simple_tag": (32.0, 44.0), "simple_spread": (22.0, 27.0)}
COMMON = GemsConfig(
    policy="mlp", policy_hidden=(64,), mixture_samples=0, episodes=1, oracle_episodes=1, kl_opponents=1, kl_states=32,
    abr_steps=4, abr_epochs=5, abr_episodes=1, jacobian="gram", discount=0.95, critic_hidden=(64,),
)  # fmt: skip
BUDGETS = {  # two players: pursuers and evader; the three of spread are one team
    "simple_tag": COMMON.replace(
        capacity=2, initial_anchors=2, num_opponents=6, mutations=2, randoms=1, oracle_opponents=2,
        abr_anchors=2, abr_opponents=4,
    ),
    "simple_spread": COMMON.replace(
        capacity=4, initial_anchors=4, num_opponents=6, mutations=2, randoms=1, oracle_opponents=3,
        abr_anchors=4, abr_opponents=3,
    ),
}  # fmt: skip


def cpu_seconds() -> float:
    """Sums the processor seconds of this process and its living children so far."""
    total, tick = sum(os.times()[:4]), os.sysconf("SC_CLK_TCK")
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / tick
    return total


def native(name: str, iterations: int) -> tuple[list[Figure], float]:
    game, config = make_game(name, max_steps=LENGTH), BUDGETS[name]
    state = jax.jit(partial(init_gems, game=game, config=config))(jax.random.key(0))
    begin = time.perf_counter()
    step: Any = program(make_solver("gems", game, config).step).lower(state, jax.random.key(0)).compile()
    compiling = time.perf_counter() - begin
    steps, cpu, begin = 0, cpu_seconds(), time.perf_counter()
    for key in jax.random.split(jax.random.key(1), iterations):
        state, metrics = step(state, key)
        steps += int(metrics.env_steps)
    wall, cpu = time.perf_counter() - begin, (cpu_seconds() - cpu) / iterations
    return [
        Figure(f"{name}, compiled: joint steps per iteration", steps / iterations, ""),
        Figure(f"{name}, compiled: CPU per iteration", cpu, "s"),
        Figure(f"{name}, compiled: {iterations} iterations", wall, "s"),
        Figure(f"{name}, compiled: compiling, apart", compiling, "s"),
    ], cpu


def fallback(name: str, iterations: int) -> tuple[list[Figure], float]:
    config = BUDGETS[name]
    options: dict[str, Any] = {"max_cycles": LENGTH}
    if name == "simple_tag":
        options["teams"] = ((0, 1, 2), (3,))
    game: Game = make_game(f"pz:{name}_v3", **options)
    solver = make_solver("gems", game, config)
    state, _ = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))  # compiles its stages
    cpu = cpu_seconds()
    for key in jax.random.split(jax.random.key(2), iterations):
        state, _ = solver.step(state, key)
    cpu = (cpu_seconds() - cpu) / iterations
    return [Figure(f"{name}, Python fallback: CPU per iteration", cpu, "s")], cpu


def one_by_one(name: str, steps: int, per_iteration: int) -> tuple[list[Figure], float]:
    """Batch 1: an environment, and a compiled call of a network for every seat in every step."""
    game: Any = make_game(f"pz:{name}_v3", max_cycles=LENGTH)
    environment = make_environment(game.recipe)
    size, seats = int(np.prod(game.observation_shape)), game.num_seats
    network = MlpPolicy(size, game.num_actions, (64,), game.continuous)
    phi = network.init(jax.random.key(0))
    act = jax.jit(lambda seen, may, key: jax.random.categorical(key, network(phi, seen, may).logits))
    seen, keys = environment.reset(0), jax.random.split(jax.random.key(1), seats)

    def step(seen: Any) -> Any:
        actions = np.asarray([act(seen.observation[s], seen.legal[s], keys[s]) for s in range(seats)])
        after = environment.step(actions)
        return environment.reset(1) if after.terminated or after.truncated else after

    seen = step(seen)
    cpu = cpu_seconds()
    for _ in range(steps):
        seen = step(seen)
    cpu = (cpu_seconds() - cpu) / steps * per_iteration
    return [Figure(f"{name}, one call a step: CPU per iteration, playing only", cpu, "s")], cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--python", type=int, default=1, help="iterations of the fallback")
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    for name, (low, high) in AUTHORS.items():
        figures, ours = native(name, options.iterations)
        more, python = fallback(name, options.python)
        last, single = one_by_one(name, options.steps, int(figures[0].value))
        ratios = [
            Figure(f"{name}: Python fallback / compiled", python / ours, "times"),
            Figure(f"{name}: one call a step / compiled", single / ours, "times"),
            Figure(f"{name}: the authors' published seconds / compiled", (low + high) / 2 / ours, "times", low / ours,
                   high / ours),
        ]  # fmt: skip
        record(f"mpe budget, {name}", [*figures, *more, *last, *ratios])


if __name__ == "__main__":
    main()
