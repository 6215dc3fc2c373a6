"""Many seeds of Kuhn's `paper` preset in one call, against the same runs one after another.

    python -m benchmarks.seeds [--seeds 64] [--iterations 40] [--blocks 3]

Twice: as runs, `gems_jax.runner.driver.run` with exact evaluation, a run folder, rows and a last checkpoint, and as the
bare compiled loop over all iterations with nothing measured or written. Compilation comes before the clock. The call
for all seeds shares them out over the devices, of which a CPU has one per core here, and takes as many at once as the
driver does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))  # before anything makes an array

# ruff: noqa: E402
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import GemsState, init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.evaluate.monitor import exact_monitor
from gems_jax.runner.directory import create_run
from gems_jax.runner.driver import run
from gems_jax.runner.engine import Family, Monitor, Parts, choose_seed_batch
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver
from gems_jax.types import Array

GAME, CONFIG = "kuhn_poker", preset("kuhn_poker", "paper")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64, help="a multiple of the number of cores")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    what = f"{options.seeds} seeds, {options.iterations} iterations, {jax.device_count()} devices"
    figures = []
    for kind, make in (("runs", whole_runs), ("bare loops", bare_loops)):
        together, alone, compiling = make(options.seeds, options.iterations)
        seconds = interleaved({"together": together, "one by one": alone}, options.blocks)
        figures += [
            median(f"{kind}, {what}: in one call", seconds["together"], "s"),
            median(f"{kind}, {what}: one after another", seconds["one by one"], "s"),
            ratio(f"{kind}, {what}: one after another / in one call", seconds["one by one"], seconds["together"]),
            Figure(f"{kind}: compiling both, apart", compiling, "s"),
        ]
    record("seeds", figures)


Pair = tuple[Callable[[], Any], Callable[[], Any], float]  # all seeds, one by one, and how long compiling both took


def whole_runs(seeds: int, iterations: int) -> Pair:
    game = make_game(GAME)
    solver = make_solver("gems", game, CONFIG)
    monitor = Monitor(*exact_monitor(game, solver), headlines=("exploitability",))
    # programs of runs of one name are compiled once, whatever the seeds
    family = Family(lambda own: Parts(solver, monitor), (), program="benchmarks.seeds")

    def several(which: Sequence[int], count: int = iterations) -> float:
        """Seconds that compiling took."""
        with tempfile.TemporaryDirectory() as folder:
            place = create_run(
                game=GAME, method="gems", config=CONFIG, seeds=which, iterations=count, path=Path(folder) / "run"
            )
            result = run(
                solver, iterations=count, seeds=which, family=family, directory=place, monitor=monitor,
                options=RunOptions(mesh=len(which) > 1),
            )  # fmt: skip
            if result.iteration != count:
                raise RuntimeError(f"stopped at iteration {result.iteration} of {count}")
            return result.compile_seconds

    compiling = several(range(seeds), 1) + several((0,), 1)
    return lambda: several(range(seeds)), lambda: [several((seed,)) for seed in range(seeds)], compiling


def bare_loops(seeds: int, iterations: int) -> Pair:
    game = make_game(GAME)
    step = make_solver("gems", game, CONFIG).step

    def whole(word: Array, state: GemsState) -> GemsState:
        keys = jax.random.split(jax.random.wrap_key_data(word), iterations)
        return jax.lax.scan(lambda s, k: (step(s, k)[0], None), state, keys)[0]

    words = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in range(seeds)])
    keys = jax.vmap(lambda word: jax.random.fold_in(jax.random.wrap_key_data(word), 0))(words)
    states = jax.jit(jax.vmap(lambda key: init_gems(key, game, CONFIG)))(keys)
    mesh = jax.make_mesh((jax.device_count(),), ("seeds",), axis_types=(AxisType.Auto,))
    parts = PartitionSpec("seeds")
    shared_out = jax.device_put((words, states), NamedSharding(mesh, parts))
    singles = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], (words, states)) for seed in range(seeds)]
    begin = time.perf_counter()
    at_once = choose_seed_batch(seeds, jax.device_count()) // jax.device_count()

    def several(words: Array, states: GemsState) -> GemsState:
        return jax.lax.map(lambda own: whole(*own), (words, states), batch_size=at_once)

    of_devices = jax.shard_map(several, mesh=mesh, in_specs=parts, out_specs=parts, check_vma=False)
    together = program(of_devices).lower(*shared_out).compile()
    alone = program(whole).lower(*singles[0]).compile()
    compiling = time.perf_counter() - begin
    jax.block_until_ready((together(*shared_out), alone(*singles[0])))

    def one_after_another() -> list[Any]:
        return [jax.block_until_ready(alone(*single)) for single in singles]

    return lambda: together(*shared_out), one_after_another, compiling


if __name__ == "__main__":
    main()
