"""Measures the cost of driving a run: `run(...)` with a folder, metrics, checkpoints and a live progress line, against
the bare loop over the same compiled chunks.

    python -m benchmarks.driver_overhead

Both arms execute one and the same compiled program, exact evaluation of every iteration included, on the same seed;
compilation comes before the clock starts. The arms alternate, and the order within a pair as well, so that a machine
that slows down slows both. Printed is the median of the paired overheads with its 95 % bootstrap interval, and the
time that the driven run spent outside the compiled chunks as a share of that inside: the same quantity but for what
the progress line's thread takes from the chunks, and far less disturbed by whatever else the machine does. What the
first run of a process pays for once, the imports of orbax and rich, is told apart: it is part of starting up.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import Figure, median, record
from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.games import make_game
from gems_jax.presets import preset
from gems_jax.runner.console import Console
from gems_jax.runner.directory import create_run
from gems_jax.runner.driver import run
from gems_jax.runner.engine import Chunk, Engine, Monitor, make_engine
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver


def copy(tree: Any) -> Any:
    """Fresh buffers: an engine may reuse those of the carry it is given."""

    def leaf(value: Any) -> Any:
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            data = jnp.array(jax.random.key_data(value), copy=True)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
        return jnp.array(value, copy=True)

    return jax.block_until_ready(jax.tree.map(leaf, tree))


class Arms:
    """The two ways to do the same iterations, on a program that is compiled once."""

    def __init__(self, name: str, which: str, iterations: int, chunk: int, exact: bool):
        game, self.config = make_game(name), preset(name, which)
        self.solver = make_solver("gems", game, self.config)
        self.name, self.iterations, self.chunk = name, iterations, chunk
        measured = (exact_monitor if exact else plain_monitor)(game, self.solver)
        self.monitor = Monitor(*measured, headlines=("exploitability",) * exact)
        self.options = RunOptions(chunk=chunk)
        self.engine = make_engine(self.solver, (0,), self.options, self.monitor)
        self.first, _ = self.engine.start()
        self.advance, _ = self.engine.compile(self.first)

    def bare(self) -> float:
        carry, done = copy(self.first), 0
        begin = time.perf_counter()
        while done < self.iterations:
            count = min(self.chunk, self.iterations - done)
            carry = self.advance(carry, done, count).carry
            done += count
        return time.perf_counter() - begin

    def driven(self, folder: Path) -> tuple[float, float, float]:
        """Seconds of the driver, of these inside the compiled chunks, and of making the run directory before."""
        first, inside = copy(self.first), []

        def advance(carry: Any, done: int, count: int) -> Chunk:
            begin = time.perf_counter()
            result = self.advance(carry, done, count)
            inside.append(time.perf_counter() - begin)
            return result

        ready = Engine(self.engine.template, lambda: (first, 0.0), lambda carry: (advance, 0.0), True)
        begin = time.perf_counter()
        directory = create_run(
            game=self.name, method="gems", config=self.config, seeds=(0,), iterations=self.iterations, path=folder
        )
        made = time.perf_counter()
        with mock.patch("gems_jax.runner.driver.make_engine", lambda *arguments: ready):
            result = run(
                self.solver,
                iterations=self.iterations,
                options=self.options,
                monitor=self.monitor,
                directory=directory,
                console=Console(io.StringIO(), interactive=True),
                title=f"{self.name} gems",
            )
        end = time.perf_counter()
        if result.iteration != self.iterations or not list((folder / "checkpoints").iterdir()):
            raise RuntimeError(f"the driven run in {folder} did not do what it is timed for")
        return end - made, sum(inside), made - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=9, help="how often each arm runs")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--chunk", type=int, default=10)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--no-exact", action="store_true", help="leave the exact evaluation out of both arms")
    options = parser.parse_args()
    enable_compilation_cache()
    arms = Arms("kuhn_poker", options.preset, options.iterations, options.chunk, not options.no_exact)
    bare, driven, outside, made, once = [], [], [], [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(-1, options.pairs):  # the first pair warms up imports and caches, and does not count
            before = arms.bare() if number % 2 else None
            seconds, inside, making = arms.driven(Path(folder) / f"run{number}")
            bare.append(arms.bare() if before is None else before)
            driven.append(seconds)
            outside.append(100 * (seconds / inside - 1))
            made.append(making)
            once = seconds - inside if number < 0 else once
    overhead = 100 * (np.asarray(driven[1:]) / np.asarray(bare[1:]) - 1)
    share = np.asarray(outside[1:])
    what = f"{options.iterations} Kuhn iterations, {options.preset}{', no exact evaluation' * options.no_exact}"
    imports = once - float(np.median(np.asarray(driven[1:]) * share / (100 + share)))
    figures = [
        median(f"{what}: overhead of the driver", overhead, "%"),
        median(f"{what}: time outside the chunks", share, "%"),
        median(f"{what}: bare", np.asarray(bare[1:]), "s"),
        median(f"{what}: driven", np.asarray(driven[1:]), "s"),
        median(f"{what}: making the run directory", 1e3 * np.asarray(made[1:]), "ms"),
        Figure(f"{what}: imports, once", imports, "s"),
    ]
    record("driver overhead", figures)


if __name__ == "__main__":
    main()
