"""Size of a step's program, and seconds to trace and compile it: this commit and another one.

    python -m benchmarks.program_compare --before FOLDER [--games kuhn_poker chess ...] [--preset paper] [--repeats 3]

FOLDER holds the source tree of the other commit (`git archive COMMIT | tar x -C FOLDER`). Every measurement is a
process of its own without a compilation cache, and the two commits take turns. The process imports everything and makes
the game before its clock starts; then it traces, lowers and compiles `gems_step`, and runs `--steps` steps of one run.
CPU seconds are those of all threads of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.hlo import count_stablehlo
from benchmarks.second_start import BEFORE, NOW
from benchmarks.timing import HISTORY, Figure, median, ratio, record

# Works with every commit since `program` and `fused_key` have their places in `gems_jax.accelerator`.
PROBE = """
import json, sys, time
import jax
from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.accelerator.prng import fused_key
from gems_jax.gems.paper_presets import paper_game_options
name, which, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
game, config = make_game(name, **paper_game_options(name, which)), preset(name, which)
key = jax.random.key(0)
state = jax.jit(lambda k: init_gems(k, game, config))(key)
marks = []
def mark():
    marks.append([time.perf_counter(), time.process_time()])
mark()
traced = program(lambda state, key: gems_step(state, fused_key(key), game, config)).trace(state, key)
mark()
lowered = traced.lower()
mark()
text = lowered.as_text()
mark()
step = lowered.compile()
mark()
seconds = []
for number in range(steps):
    begin = time.perf_counter()
    state = jax.block_until_ready(step(state, jax.random.fold_in(key, number))[0])
    seconds.append(time.perf_counter() - begin)
with open(sys.argv[4], "w") as file:
    file.write(text)
print("PROBE", json.dumps({"marks": marks, "steps": seconds}))
"""
_PARTS = {"tracing": (0, 1), "lowering": (1, 2), "compiling": (3, 4)}  # between marks


def probe(name: str, preset: str, source: Path, steps: int, text: Path) -> dict[str, float]:
    """Measures one commit in a new process. Returns operations, seconds and CPU seconds of each part."""
    surroundings = {**os.environ, "PYTHONPATH": str(source), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    line = [sys.executable, "-c", PROBE, name, preset, str(steps), str(text)]
    done = subprocess.run(line, env=surroundings, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("PROBE")]
    if not told:
        raise RuntimeError(f"no step of {name}: {done.stderr[-2000:]}")
    found = json.loads(told[0].removeprefix("PROBE"))
    measured = {"operations": float(count_stablehlo(text.read_text()))}
    for column, unit in enumerate(("s", "CPU s")):
        for part, (first, last) in _PARTS.items():
            measured[f"{part}, {unit}"] = found["marks"][last][column] - found["marks"][first][column]
        measured[f"all, {unit}"] = sum(measured[f"{part}, {unit}"] for part in _PARTS)
    if found["steps"]:
        measured["step, ms"] = 1e3 * float(np.median(found["steps"][1:] or found["steps"]))
    return measured


def compare(name: str, preset: str, sources: dict[str, Path], steps: int, repeats: int) -> list[Figure]:
    """Measures both commits in turns. Returns the figures of each and their ratios."""
    taken: dict[str, list[dict[str, float]]] = {which: [] for which in sources}
    text = Path(f"runs/bench/{name}.stablehlo")
    text.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(repeats):
        for which, source in sources.items():
            taken[which].append(probe(name, preset, source, steps, text))
    text.unlink()
    figures = []
    for which, rows in taken.items():
        figures.append(Figure(f"{which}: operations", rows[0]["operations"], ""))
        for measure in list(rows[0])[1:]:
            part, _, unit = measure.rpartition(", ")
            label = f"{which}: {part}{', CPU' if unit == 'CPU s' else ''}"
            figures.append(median(label, np.asarray([row[measure] for row in rows]), unit))
    if BEFORE in taken:
        equal = "the game, its settings, no compilation cache, processes in turns"
        for measure in ("all, CPU s", "all, s", "step, ms"):
            if measure in taken[NOW][0]:
                both = [np.asarray([row[measure] for row in taken[which]]) for which in (BEFORE, NOW)]
                figures.append(ratio(f"{BEFORE} / {NOW}: {measure}", *both, equal=equal))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["kuhn_poker", "connect_four", "go_9x9", "chess"])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--before", type=Path, help="source tree of the commit to compare with")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps to run after compilation")
    options = parser.parse_args()
    sources = {NOW: Path(__file__).resolve().parents[1] / "src"}
    if options.before is not None:
        sources[BEFORE] = options.before.resolve() / "src"
    for name in options.games:
        figures = compare(name, options.preset, sources, options.steps, options.repeats)
        record(f"program compared, {name}", figures, HISTORY)


if __name__ == "__main__":
    main()
