"""Campaign of kills: SIGKILL at random moments; what is resumed must end as an uninterrupted run, bit for bit."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trust.children import fork, kill_group
from gems_jax.cli.main import invoke
from gems_jax.runner import checkpoint
from gems_jax.runner.directory import read_status
from gems_jax.runner.leaves import read_leaves
from gems_jax.runner.writers import read_metrics

CLOCKS = ("seconds", "memory_mb")
SMALL = "--num-opponents 2 --mixture-samples 4 --mutations 2 --randoms 2 --oracle-opponents 2 --abr-steps 1 \
--abr-anchors 2 --abr-opponents 2 --kl-opponents 2 --capacity 4 --critic-hidden 8 --generator-widths 8 \
--chunk 1 --checkpoint-seconds 0 --no-figures --quiet"
SWEEP = """
name = "walks"
game = "kuhn_poker"
method = "cfr"
seeds = 2
[grid]
iterations = [4, 8]
[run]
executor = "local"
workers = 1
chunk = 1
checkpoint_seconds = 0.0
"""


def _train(game: str, iterations: int, extra: str = "") -> Callable[[Path], list[str]]:
    def line(folder: Path) -> list[str]:
        if (folder / "config.json").exists():
            return ["resume", str(folder), "--quiet", "--no-figures"]
        return [
            "train",
            game,
            "--iterations",
            str(iterations),
            *SMALL.split(),
            *extra.split(),
            "--run-dir",
            str(folder),
        ]

    return line


def _sweep(folder: Path) -> list[str]:
    file = folder.with_suffix(".toml")
    file.write_text(SWEEP)
    return ["sweep", str(file), "--run-dir", str(folder)]


# kind -> the line that starts or resumes it
KINDS: dict[str, Callable[[Path], list[str]]] = {
    "train": _train("biased_rps", 40, "--no-exact --evaluation-episodes 0"),
    "python": _train("openspiel:kuhn_poker", 10, "--policy mlp --policy-hidden 8 --evaluation-episodes 0 --no-exact"),
    "sweep": _sweep,
}


def contents(folder: Path) -> dict[str, Any]:
    """Collects all rows but the clocks, and all leaves of the last checkpoints, below a folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("metrics.csv")):
        rows = read_metrics(path.parent)
        found |= {f"{path.relative_to(folder)} {name}": rows[name] for name in rows.keys() - set(CLOCKS)}
    for path in sorted(folder.rglob("checkpoints")):
        last = path / f"{checkpoint.iterations(path)[-1]:08d}"
        manifest = checkpoint.verify_checkpoint(last)
        leaves = read_leaves(last / "state", manifest["leaves"])
        names = [record["name"] for record in manifest["leaves"]]
        found |= {f"{path.relative_to(folder)} {name}": leaf for name, leaf in zip(names, leaves, strict=True)}
    return found


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compares two results of `contents` bit for bit."""
    import jax

    def data(leaf: Any) -> np.ndarray:
        keys = hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if keys else leaf)

    same = one.keys() == other.keys() and all(data(one[name]).tobytes() == data(other[name]).tobytes() for name in one)
    return bool(one) and same


def _run(words: list[str]) -> Callable[[], None]:
    def work() -> None:
        os.environ["GEMS_WORKERS"] = "1"
        os._exit(invoke(words))

    return work


def live(line: list[str], delay: float | None) -> tuple[int | None, float]:
    """Runs a line in a child, which is killed after `delay` seconds; returns its exit code, None if it was killed."""
    start, child = time.monotonic(), fork(_run(line))
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), time.monotonic() - start
        if delay is not None and time.monotonic() - start > delay:
            kill_group(child)
            return None, time.monotonic() - start
        time.sleep(0.01)


def kill_one(kind: str, number: int, seed: int, folder: Path, lives: int = 8) -> dict[str, Any]:
    """Kills one run at up to `lives` random moments, and compares its end with that of an uninterrupted run.

    Args:
      kind: a key of `KINDS`.
      number: number of the run, which seeds the moments together with `seed`.
      seed: seed of the campaign.
      folder: where the runs are written; the uninterrupted one is shared by all runs of a kind.
      lives: kills of the run at most, after which it may end.

    Returns:
      {"kind", "number", "kills", "survived", "traces"}: kills that left the folder of a run with a status, too.
    """
    from benchmarks.trust.children import answer

    whole, times = folder / f"{kind}-whole", folder / f"{kind}-whole.seconds"
    if not times.exists():
        code, took = live(KINDS[kind](whole), None)
        if code:
            return {"kind": kind, "number": number, "error": f"the uninterrupted run ended with {code}"}
        times.write_text(json.dumps(took))
    took, chance = json.loads(times.read_text()), random.Random(f"{seed} {kind} {number}")
    path, kills, traces, code = folder / f"{kind}-{number}", 0, 0, None
    while code is None:
        code, _ = live(KINDS[kind](path), chance.uniform(0.0, took) if kills < lives else None)
        if code is None:
            kills += 1
            traces += _has_trace(path)
    same = answer(lambda: equal(contents(whole), contents(path)))
    return {
        "kind": kind,
        "number": number,
        "kills": kills,
        "survived": kills * bool(same and not code),
        "traces": traces,
    }


def _has_trace(path: Path) -> bool:
    """Checks that a killed run, or sweep, left a folder that says how far it came."""
    if (path / "sweep.json").exists():
        return True
    return (path / "status.json").exists() and read_status(path)["state"] in ("interrupted", "done")
