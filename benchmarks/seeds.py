"""Many seeds of Kuhn's `paper` preset in one call, against the same runs one after another.

    python -m benchmarks.seeds [--seeds 64] [--iterations 40] [--blocks 3]

Both are one compiled scan over all iterations, with nothing measured; compilation and the first states come before the
clock. The call for all seeds shares them out over the devices, of which a CPU has one per core here: every device runs
the program of its own seeds (`jax.shard_map`).
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))  # before anything makes an array

# ruff: noqa: E402
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import GemsState, gems_step, init_gems, make_game, preset
from gems_jax.compiling import program
from gems_jax.types import Array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64, help="a multiple of the number of cores")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    game, config = make_game("kuhn_poker"), preset("kuhn_poker", "paper")
    step = partial(gems_step, game=game, config=config)

    def whole(word: Array, state: GemsState) -> GemsState:
        keys = jax.random.split(jax.random.wrap_key_data(word), options.iterations)
        return jax.lax.scan(lambda s, k: (step(s, k)[0], None), state, keys)[0]

    words = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in range(options.seeds)])
    keys = jax.vmap(lambda word: jax.random.fold_in(jax.random.wrap_key_data(word), 0))(words)
    states = jax.jit(jax.vmap(lambda key: init_gems(key, game, config)))(keys)
    mesh = jax.make_mesh((jax.device_count(),), ("seeds",), axis_types=(AxisType.Auto,))
    parts = PartitionSpec("seeds")
    shared_out = jax.device_put((words, states), NamedSharding(mesh, parts))
    singles = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], (words, states)) for seed in range(options.seeds)]
    begin = time.perf_counter()
    of_devices = jax.shard_map(jax.vmap(whole), mesh=mesh, in_specs=parts, out_specs=parts, check_vma=False)
    together = program(of_devices).lower(*shared_out).compile()
    middle = time.perf_counter()
    alone = program(whole).lower(*singles[0]).compile()
    end = time.perf_counter()
    jax.block_until_ready((together(*shared_out), alone(*singles[0])))

    def one_after_another() -> list[Any]:
        return [jax.block_until_ready(alone(*single)) for single in singles]

    seconds = interleaved({"together": lambda: together(*shared_out), "one by one": one_after_another}, options.blocks)
    what = f"{options.seeds} seeds, {options.iterations} iterations, {jax.device_count()} devices"
    record(
        "seeds",
        [
            median(f"{what}: in one call", seconds["together"], "s"),
            median(f"{what}: one after another", seconds["one by one"], "s"),
            ratio(f"{what}: one after another / in one call", seconds["one by one"], seconds["together"]),
            Figure("compiling the call for all seeds, apart", middle - begin, "s"),
            Figure("compiling the call for one seed, apart", end - middle, "s"),
        ],
    )


if __name__ == "__main__":
    main()
