"""Seconds before anything runs: importing, and compiling a step of every game, cold and from the cache.

    python -m benchmarks.startup [--games kuhn_poker go_9x9 chess ...] [--imports 5]

Every start is a process of its own. The cache is a new folder for every game: the first start fills it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.fractions import GAMES, OPTIONS
from benchmarks.timing import Figure, median, record

STEP = """
import sys, time, json
begin = time.perf_counter()
import jax
from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.accelerator.prng import fused_key
from gems_jax.accelerator.cache import enable_compilation_cache
enable_compilation_cache(sys.argv[2])
game, config = make_game(sys.argv[1], **json.loads(sys.argv[3])), preset(sys.argv[1], "tuned")
state = jax.jit(lambda key: init_gems(key, game, config))(jax.random.key(0))
program(lambda state, key: gems_step(state, fused_key(key), game, config)).lower(state, jax.random.key(0)).compile()
print(time.perf_counter() - begin)
"""


def seconds(*line: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *line], check=True, capture_output=True)
    return time.perf_counter() - begin


def starts(name: str) -> list[Figure]:
    with tempfile.TemporaryDirectory() as cache:
        line = [sys.executable, "-c", STEP, name, cache, json.dumps(OPTIONS.get(name, {}))]
        taken = [
            float(subprocess.run(line, check=True, capture_output=True, text=True).stdout.split()[-1]) for _ in range(2)
        ]
    return [
        Figure(f"{name}: from nothing to a compiled step, cold", taken[0], "s"),
        Figure(f"{name}: the same from the cache", taken[1], "s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="*", default=list(GAMES), choices=list(GAMES))
    parser.add_argument("--imports", type=int, default=5)
    options = parser.parse_args()
    figures = [
        median(f"python -c '{what}'", np.asarray([seconds("-c", what) for _ in range(options.imports)]), "s")
        for what in ("import jax", "import gems_jax", "from gems_jax import gems_step")
    ]
    record("import", figures)
    for name in options.games:
        record(f"startup, {name}", starts(name))


if __name__ == "__main__":
    main()
