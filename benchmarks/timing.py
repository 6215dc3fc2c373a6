"""Helpers of the benchmarks: interleaved blocks, medians with bootstrap intervals, and a history of figures.

Every benchmark appends its figures, with command, commit and machine, to `runs/bench/history.jsonl`. `python -m
benchmarks.publish` copies the newest entry of each into `docs/results/bench.json` and renders the documents from it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
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
    repeats: int | None = None
    equal: str = ""  # of a ratio: what both sides have in common

    def __str__(self) -> str:
        within = "" if self.low is None else f"  [{self.low:.3g}, {self.high:.3g}]"
        times = "" if self.repeats is None else f"  {self.repeats} repeats"
        equal = f"\n{'':4}equal: {self.equal}" if self.equal else ""
        return f"{self.name:<64} {self.value:10.4g} {self.unit}{within}{times}{equal}"


def seconds_of(program: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call, arrays waited for."""
    begin = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - begin


def interleaved(
    programs: Mapping[str, Callable[..., Any]], blocks: int, prepare: Mapping[str, Callable[[], Any]] | None = None
) -> dict[str, np.ndarray]:
    """Times programs in turns, so that a machine that slows down slows all of them.

    Args:
      programs: functions by name, without arguments but for those in `prepare`.
      blocks: how often each is called.
      prepare: by name, what makes the argument of a program anew for each call, before the clock starts.

    Returns:
      Seconds [blocks] by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(blocks):
        for name, program in programs.items():
            ready = partial(program, prepare[name]()) if prepare and name in prepare else program
            seconds[name].append(seconds_of(ready))
    return {name: np.asarray(values) for name, values in seconds.items()}


def median(name: str, values: np.ndarray, unit: str) -> Figure:
    """The median with its 95 % percentile bootstrap."""
    draws = np.random.default_rng(0).choice(values, (_RESAMPLES, values.size))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    return Figure(name, float(np.median(values)), unit, float(low), float(high), values.size)


def ratio(name: str, slow: np.ndarray, fast: np.ndarray, unit: str = "times", equal: str = "") -> Figure:
    """median(slow) / median(fast) of paired blocks, with the 95 % bootstrap over pairs.

    equal: what both sides have in common, printed beside the ratio.
    """
    draws = np.random.default_rng(0).integers(0, len(slow), (_RESAMPLES, len(slow)))
    ratios = np.median(slow[draws], axis=1) / np.median(fast[draws], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Figure(name, float(np.median(slow) / np.median(fast)), unit, float(low), float(high), len(slow), equal)


def record(benchmark: str, figures: list[Figure], history: Path | None = HISTORY) -> None:
    """Prints the figures and appends them to the history with the command, the commit and the machine.

    history: None prints only, for runs that are too short to be kept.
    """
    for figure in figures:
        print(figure, flush=True)
    if history is None:
        return
    history.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "benchmark": benchmark,
        "command": command(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "figures": [figure._asdict() for figure in figures],
    }
    with history.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def command() -> str:
    """Returns the command that started this process, without paths."""
    main = sys.modules["__main__"].__spec__
    module = "" if main is None else main.name.removesuffix(".__main__")
    return " ".join(["python", *(["-m", module] if module else [Path(sys.argv[0]).name]), *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """Processors, their load, devices and the versions behind a figure."""
    return {
        "cpus": os.cpu_count(),
        "processor": processor(),
        "load": round(os.getloadavg()[0], 1),
        "devices": f"{jax.device_count()} x {jax.devices()[0].platform}",
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


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
