"""Do long runs stay as they are? Memory, open files, sizes of files and the mixtures, watched from outside.

    python -m benchmarks.soak [--iterations 100000] [--minutes 30] [--only matrix kuhn] [--publish]      (make soak)

`gems train` runs as a user would start it: first a matrix game for a number of iterations, then Kuhn poker for a number
of minutes, both with populations that are full after a few iterations. Meanwhile this process samples the memory and
the open files of that process, the bytes of its checkpoint and of a row of metrics.csv, and how far the mixtures of
its newest checkpoint are from a sum of one. Samples are stored in runs/soak; --publish writes docs/soak.json and
docs/figures/soak_matrix.png and soak_kuhn.png.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trust.provenance import provenance
from gems_jax.runner import checkpoint
from gems_jax.runner.directory import read_status
from gems_jax.runner.errors import RunError
from gems_jax.runner.leaves import read_leaves

ROOT = Path(__file__).resolve().parents[1]
SMALL = "--num-opponents 4 --mixture-samples 8 --mutations 2 --randoms 2 --oracle-opponents 2 --abr-steps 1 \
--abr-anchors 4 --abr-opponents 2 --kl-opponents 2 --capacity 8 --critic-hidden 8 --generator-widths 8 \
--evaluation-episodes 0 --checkpoint-seconds 5 --no-figures --quiet"
LINES = {
    "matrix": f"train biased_rps {SMALL} --chunk 200 --no-exact",
    # The default preset has a buffer of episodes, which takes thousands of iterations to fill.
    "kuhn": f"train kuhn_poker --preset paper {SMALL} --chunk 50",
}
TITLES = {"matrix": "biased rock-paper-scissors", "kuhn": "Kuhn poker with its exact monitor"}
FIELDS = ("seconds", "iteration", "memory_mb", "open_files", "checkpoint_bytes", "bytes_per_row", "sigma_error")
WARM_UP = 0.2  # fraction of the samples before which a run may still grow
LIMITS = {"memory_mb": 0.05, "open_files": 0.0, "checkpoint_bytes": 0.02, "bytes_per_row": 0.02}  # relative growth
MOST = 10**8  # iterations of a run with a time limit: more than it can make
SIGMA = 1e-5  # largest distance of a mixture's sum from one: a few roundings of float32
Sample = dict[str, float]


def sigma_error(folder: Path) -> float:
    """Measures the largest distance of a mixture of a checkpoint from a sum of one, or from non-negative masses.

    Args:
      folder: a checkpoint.

    Returns:
      The largest |sum - 1| over sigma, exp(log_sigma) and the run average of all populations, or the largest negative
      mass if that is more.
    """
    manifest = checkpoint.verify_checkpoint(folder)
    leaves = read_leaves(folder / "state", manifest["leaves"])
    errors = []
    for record, leaf in zip(manifest["leaves"], leaves, strict=True):
        field = record["name"].rpartition(".")[2]
        if field in ("sigma", "sigma_average", "log_sigma"):
            sigma = np.asarray(leaf, np.float64)
            sigma = np.exp(sigma) if field == "log_sigma" else sigma
            errors += [np.abs(sigma.sum(axis=-1) - 1.0).max(), -sigma.min()]
    return float(max(errors))


def take_sample(process: int, run: Path, start: float) -> Sample | None:
    """Samples a running process and its folder; None before the first checkpoint, or while one is replaced."""
    try:
        done = read_status(run)["iteration"]
        newest = run / "checkpoints" / f"{checkpoint.iterations(run / 'checkpoints')[-1]:08d}"
        rows = run / "metrics.csv"
        with rows.open("rb") as file:
            lines = sum(1 for _ in file)
        proc = Path(f"/proc/{process}")
        return {
            "seconds": time.monotonic() - start,
            "iteration": done,
            "memory_mb": int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
            "open_files": len(list((proc / "fd").iterdir())),
            "checkpoint_bytes": sum(path.stat().st_size for path in newest.rglob("*") if path.is_file()),
            "bytes_per_row": rows.stat().st_size / lines,
            "sigma_error": sigma_error(newest),
        }
    except (OSError, IndexError, KeyError, RunError):
        return None


def watch(name: str, folder: Path, iterations: int, minutes: float, every: float) -> list[Sample]:
    """Trains and samples until the iterations, or the minutes since the first sample, have passed.

    Args:
      name: a key of `LINES`.
      folder: where the run and its samples are written.
      iterations: iterations of the run.
      minutes: time limit; 0 for none.
      every: seconds between two samples.

    Returns:
      The samples, which are also lines of <folder>/<name>.jsonl.
    """
    run, samples, start = folder / name, [], time.monotonic()
    shutil.rmtree(run, ignore_errors=True)
    (folder / f"{name}.json").write_text(json.dumps({**provenance(), "xla_flags": os.environ.get("XLA_FLAGS", "")}))
    words = [*LINES[name].split(), "--iterations", str(iterations), "--run-dir", str(run)]
    process = subprocess.Popen([sys.executable, "-m", "gems_jax", *words])
    try:
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            while process.poll() is None and not (
                minutes and samples and samples[-1]["seconds"] - samples[0]["seconds"] > 60.0 * minutes
            ):
                time.sleep(every)
                sample = take_sample(process.pid, run, start)
                if sample and _is_new(sample, samples):
                    samples.append(sample)
                    file.write(json.dumps(sample) + "\n")
                    file.flush()
    finally:
        code = process.poll()  # None: still running, as a run with a time limit should
        process.terminate()
        process.wait()
    if code or not samples:
        raise SystemExit(f"soak: the run of {name} ended with exit code {code} after {len(samples)} samples")
    return samples


def _is_new(sample: Sample, samples: Sequence[Sample]) -> bool:
    """Checks that a process was running when it was sampled, and had advanced."""
    return sample["memory_mb"] > 0.0 and not (samples and sample["iteration"] == samples[-1]["iteration"])


def summarize(samples: Sequence[Sample]) -> dict[str, Any]:
    """Summarizes the samples of a run.

    Returns:
      Iterations; seconds from the first sample to the last; of every field the medians of the first and last quarter
      after the warm-up, and their relative difference; the largest error of sigma; and whether all are within `LIMITS`
      and `SIGMA`.
    """
    settled = samples[int(WARM_UP * len(samples)) :]
    quarter = max(len(settled) // 4, 1)
    found: dict[str, Any] = {
        "iterations": int(samples[-1]["iteration"]),
        "seconds": round(samples[-1]["seconds"] - samples[0]["seconds"]),
        "samples": len(samples),
        "sigma_error": max(sample["sigma_error"] for sample in samples),
    }
    flat = found["sigma_error"] <= SIGMA
    for field, limit in LIMITS.items():
        values = np.array([sample[field] for sample in settled])
        first, last = float(np.median(values[:quarter])), float(np.median(values[-quarter:]))
        growth = (last - first) / first
        found[field] = {"first": round(first, 1), "last": round(last, 1), "growth": round(growth, 4)}
        flat &= growth <= limit
    return {**found, "flat": flat}


def draw(name: str, samples: Sequence[Sample], path: Path) -> None:
    """Draws memory, open files, bytes of files and the mixtures' error of a run against the iteration."""
    from gems_jax.viz.plotting import STYLES, draw_grid, make_panels, save_figure

    labels = {
        "memory_mb": "resident memory (MB)",
        "open_files": "open files",
        "checkpoint_bytes": "checkpoint (kB)",
        "bytes_per_row": "bytes of a row",
        "sigma_error": "largest |sum of sigma - 1|",
    }
    figure, axes = make_panels(1, len(labels), 15.0, 2.7, sharex=False)
    thousands = samples[-1]["iteration"] >= 10_000
    x = np.array([sample["iteration"] for sample in samples]) / (1000.0 if thousands else 1.0)
    for axis, (field, label) in zip(axes[0], labels.items(), strict=True):
        y = np.array([sample[field] for sample in samples]) / (1000.0 if field == "checkpoint_bytes" else 1.0)
        axis.plot(x, y, color=STYLES[0].color, linewidth=1.2)
        axis.set_title(label, fontsize=9)
        axis.set_ylim(0.0, 1.25 * max(y.max(), 1e-7 if field == "sigma_error" else 1.0))
        axis.set_xlabel("iteration (thousands)" if thousands else "iteration")
        draw_grid(axis)
    axes[0][0].set_ylabel(TITLES[name], fontsize=8)
    save_figure(figure, path)


def publish(runs: dict[str, list[Sample]], folder: Path) -> None:
    """Writes the summaries, each with the commit and machine of its run, and the figures to docs/.

    Runs that are not in the folder keep their entry and figure.
    """
    path = ROOT / "docs" / "soak.json"
    found = json.loads(path.read_text())["runs"] if path.exists() else {}
    for name, samples in runs.items():
        found[name] = {
            "title": TITLES[name],
            "line": f"gems {LINES[name]}",
            **json.loads((folder / f"{name}.json").read_text()),
            **summarize(samples),
            "iterations": read_status(folder / name)["iteration"],
        }
        draw(name, samples, ROOT / "docs" / "figures" / f"soak_{name}.png")
    path.write_text(json.dumps({"command": "python -m benchmarks.soak", "runs": found}, indent=2) + "\n")


def main() -> int:
    """Runs, or with --publish alone reads, the soak; returns 1 if something grew."""
    parser = argparse.ArgumentParser(description="Long runs, watched from outside.")
    parser.add_argument("--iterations", type=int, default=100_000, help="iterations of the matrix game [100000]")
    parser.add_argument("--minutes", type=float, default=30.0, help="minutes of Kuhn poker [30]")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples [5]")
    parser.add_argument("--only", nargs="*", choices=list(LINES), default=list(LINES), help="runs to make")
    parser.add_argument("--folder", type=Path, default=Path("runs/soak"), help="folder of the runs")
    parser.add_argument("--publish", action="store_true", help="write docs/soak.json and docs/figures/soak_*.png")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        limits = (arguments.iterations, 0.0) if name == "matrix" else (MOST, arguments.minutes)
        watch(name, folder, *limits, arguments.every)
    runs = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in LINES
        if (folder / f"{name}.jsonl").exists() and (folder / f"{name}.jsonl").stat().st_size
    }
    found = {name: summarize(samples) for name, samples in runs.items()}
    print(json.dumps(found, indent=2))
    if arguments.publish:
        publish(runs, folder)
    return 0 if all(one["flat"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
