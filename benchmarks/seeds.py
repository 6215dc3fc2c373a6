"""Many seeds of Kuhn's `paper` preset in one call, against the same runs one after another.

    python -m benchmarks.seeds [--seeds 64] [--iterations 40] [--batch 16] [--blocks 3]

Both are runs as the driver makes them (`run/engine.py`): the steps alone, and with the exact evaluation of every
iteration that `gems train` does. Compilation comes before the clock. The call for all seeds takes them `batch` at a
time, which keeps what they work on in the processor's cache, and shares each batch out over the devices (`--mesh` of
`gems train`); a CPU has one device per core here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))  # before anything makes an array

# ruff: noqa: E402
from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import Solver, make_game, make_solver, preset
from gems_jax.run.engine import Family, Parts, make_engine
from gems_jax.run.measuring import make_monitor

KINDS = ("steps alone", "with exact evaluation")


def runs(parts: Parts, seeds: range, iterations: int, name: str, **options: Any) -> tuple[Callable[[], Any], float]:
    """(run all of the seeds in one call, seconds of compiling). name: of the program, which equal calls share."""
    family = Family(lambda own: parts, (), name)
    engine = make_engine(parts.solver, seeds, iterations, family=family, **options)
    carry, compiling = engine.start()
    advance, more = engine.compile(carry)
    return lambda: advance(engine.start()[0], 0, iterations).carry, compiling + more


def compared(what: str, parts: Parts, options: argparse.Namespace) -> list[Figure]:
    seeds, iterations = range(options.seeds), options.iterations
    together, all_compiling = runs(parts, seeds, iterations, f"all, {what}", seed_batch=options.batch, mesh=True)
    alone = [runs(parts, range(seed, seed + 1), iterations, f"one, {what}") for seed in seeds]
    programs = {"together": together, "one by one": lambda: [jax.block_until_ready(run()) for run, _ in alone]}
    for warm in (together, alone[0][0]):
        jax.block_until_ready(warm())
    seconds = interleaved(programs, options.blocks)
    size = f"{options.seeds} seeds, {iterations} iterations, {jax.device_count()} devices, {what}"
    return [
        median(f"{size}: in one call", seconds["together"], "s"),
        median(f"{size}: one after another", seconds["one by one"], "s"),
        ratio(f"{size}: one after another / in one call", seconds["one by one"], seconds["together"]),
        Figure(f"{what}: compiling the call for all seeds, apart", all_compiling, "s"),
        Figure(f"{what}: compiling the call for one seed, apart", alone[0][1], "s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16, help="seeds at a time, of all devices")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, help="one of the two")
    options = parser.parse_args()
    game = make_game("kuhn_poker")
    solver: Solver = make_solver("gems", game, preset("kuhn_poker", "paper"))
    monitor = make_monitor(game, solver)
    kinds = (Parts(solver, None, lambda state: ()), Parts(solver, monitor.measure, monitor.init))
    for what, parts in zip(KINDS, kinds, strict=True):
        if options.only in (None, what):
            record(f"seeds, {what}", compared(what, parts, options))


if __name__ == "__main__":
    main()
