"""What benchmarks share: interleaved blocks, medians with bootstrap intervals, and a history of figures."""

from __future__ import annotations

import datetime
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

HISTORY = Path("runs/bench/history.jsonl")
_RESAMPLES = 2000


class Figure(NamedTuple):
    """One number of a benchmark, with the 95 % interval where it has one."""

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        within = "" if self.low is None else f"  [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.name:<64} {self.value:10.4g} {self.unit}{within}"


def seconds_of(program: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call, arrays waited for."""
    begin = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - begin


def interleaved(programs: Mapping[str, Callable[[], Any]], blocks: int) -> dict[str, np.ndarray]:
    """Seconds [blocks] of every program, in turns: a machine that slows down slows all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(blocks):
        for name, program in programs.items():
            seconds[name].append(seconds_of(program))
    return {name: np.asarray(values) for name, values in seconds.items()}


def median(name: str, values: np.ndarray, unit: str) -> Figure:
    """The median with its 95 % percentile bootstrap."""
    draws = np.random.default_rng(0).choice(values, (_RESAMPLES, values.size))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    return Figure(name, float(np.median(values)), unit, float(low), float(high))


def ratio(name: str, slow: np.ndarray, fast: np.ndarray, unit: str = "times") -> Figure:
    """median(slow) / median(fast) of paired blocks, with the 95 % bootstrap over pairs."""
    draws = np.random.default_rng(0).integers(0, len(slow), (_RESAMPLES, len(slow)))
    ratios = np.median(slow[draws], axis=1) / np.median(fast[draws], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Figure(name, float(np.median(slow) / np.median(fast)), unit, float(low), float(high))


def record(benchmark: str, figures: list[Figure], history: Path = HISTORY) -> None:
    """Print the figures, and append them to the history with the commit and the time."""
    for figure in figures:
        print(figure, flush=True)
    history.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "devices": f"{jax.device_count()} x {jax.devices()[0].platform}",
        "figures": [figure._asdict() for figure in figures],
    }
    with history.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def commit() -> str:
    """The commit that is checked out, with a + where files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
