"""Seconds from the start of `gems train` to its first iteration, with full caches: this commit and another one.

    python -m benchmarks.second_start --before FOLDER [--games kuhn_poker chess ...] [--preset paper] [--repeats 5]

FOLDER holds the source tree of the other commit (`git archive COMMIT | tar x -C FOLDER`). Every start is a process of
its own, the two commits take turns, and each has a cache of its own, which one start fills first. CPU seconds are those
of all threads and children of the process, so that they depend little on other work of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import HISTORY, Figure, median, ratio, record

# Runs the command line, and ends the process after the first iteration. Works with every commit that has `_advance`.
PROBE = """
import json, os, sys, time
import gems_jax.cli.main as cli
def watch():
    from gems_jax.runner import driver
    advance = driver._advance
    def first(*arguments):
        ready, used = time.time(), os.times()
        print("PROBE", json.dumps([ready, sum(used[:4])]), flush=True)
        advance(*arguments)
        os._exit(0)
    driver._advance = first
class Finder:  # patches the driver when it has been imported: the order of imports stays as it is
    def find_spec(self, name, path=None, target=None):
        if name == "gems_jax.runner.driver":
            sys.meta_path.remove(self)
            import importlib.util
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            def exec_module(module):
                load(module)
                sys.modules[name] = module
                watch()
            spec.loader.exec_module = exec_module
            return spec
sys.meta_path.insert(0, Finder())
cli.invoke(sys.argv[1:])
"""
NOW, BEFORE = "this commit", "the commit before"


def start(name: str, preset: str, source: Path, cache: Path) -> tuple[float, float]:
    """Starts a run in a new process. Returns seconds and CPU seconds until its first iteration begins."""
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(source)}
    surroundings.pop("JAX_COMPILATION_CACHE_DIR", None)
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-c", PROBE, "train", name, "--preset", preset, "--run-dir", f"{folder}/run"]
        begin = time.time()
        done = subprocess.run(line, env=surroundings, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("PROBE")]
    if not told:
        raise RuntimeError(f"no first iteration of {name}: {done.stderr[-2000:]}")
    ready, cpu = json.loads(told[0].removeprefix("PROBE"))
    return ready - begin, cpu


def second_starts(name: str, preset: str, sources: dict[str, Path], caches: Path, repeats: int) -> list[Figure]:
    """Measures starts of both commits in turns, after one start of each that fills its cache if it has none."""
    taken: dict[str, list[tuple[float, float]]] = {which: [] for which in sources}
    for turn in range(repeats + 1):
        for which, source in sources.items():
            cache = caches / which.replace(" ", "_")
            filled = cache / f"{name}-{preset}-is-full"
            if turn or not filled.exists():
                measured = start(name, preset, source, cache)
                filled.touch()
            if turn:
                taken[which].append(measured)
    figures = []
    arrays = {which: np.asarray(values) for which, values in taken.items()}
    for which, values in arrays.items():
        figures.append(median(f"{name} {preset}, second start, {which}", values[:, 0], "s"))
        figures.append(median(f"{name} {preset}, second start, {which}, CPU", values[:, 1], "CPU s"))
    if BEFORE in arrays:
        title = f"{name} {preset}, second start: {BEFORE} / {NOW}, CPU"
        equal = "the run, the full compilation cache, the machine"
        figures.append(ratio(title, arrays[BEFORE][:, 1], arrays[NOW][:, 1], equal=equal))
        figures.append(ratio(title.removesuffix(", CPU"), arrays[BEFORE][:, 0], arrays[NOW][:, 0], equal=equal))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["kuhn_poker", "chess"])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--before", type=Path, help="source tree of the commit to compare with")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--caches", type=Path, help="folder that keeps the caches: those of an earlier time are full")
    options = parser.parse_args()
    sources = {NOW: Path(__file__).resolve().parents[1] / "src"}
    if options.before is not None:
        sources[BEFORE] = options.before.resolve() / "src"
    with tempfile.TemporaryDirectory() as folder:
        caches = (options.caches or Path(folder)).resolve()
        for name in options.games:
            figures = second_starts(name, options.preset, sources, caches, options.repeats)
            record(f"second start, {name}", figures, HISTORY)


if __name__ == "__main__":
    main()
