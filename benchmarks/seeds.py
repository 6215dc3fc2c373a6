"""Many seeds of Kuhn's `paper` preset in one call, against the same runs one after another.

    python -m benchmarks.seeds [--seeds 64] [--iterations 40] [--blocks 3]

Both are one compiled scan over all iterations, with nothing measured; compilation comes before the clock. The call for
all seeds shares them out over the devices, of which a CPU has several if asked for, one per core:

    XLA_FLAGS=--xla_force_host_platform_device_count=2 python -m benchmarks.seeds
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import GemsState, gems_step, init_gems, make_game, preset
from gems_jax.compiling import program
from gems_jax.types import Array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    game, config = make_game("kuhn_poker"), preset("kuhn_poker", "paper")
    step = partial(gems_step, game=game, config=config)

    def whole(key: Array) -> GemsState:
        key_init, key_run = jax.random.split(key)
        start = init_gems(key_init, game, config)
        return jax.lax.scan(lambda s, k: (step(s, k)[0], None), start, jax.random.split(key_run, options.iterations))[0]

    keys = jax.vmap(jax.random.key)(jnp.arange(options.seeds))
    everywhere = NamedSharding(Mesh(np.asarray(jax.devices()), ("seeds",)), PartitionSpec("seeds"))
    shared_out = jax.device_put(keys, everywhere)
    begin = time.perf_counter()
    together = program(jax.vmap(whole), out_shardings=everywhere).lower(shared_out).compile()
    middle = time.perf_counter()
    alone = program(whole).lower(keys[0]).compile()
    end = time.perf_counter()

    def one_after_another() -> list[Any]:
        return [jax.block_until_ready(alone(key)) for key in keys]

    seconds = interleaved({"together": lambda: together(shared_out), "one by one": one_after_another}, options.blocks)
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
