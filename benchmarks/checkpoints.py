"""Milliseconds of saving and loading the leaves of a state by the V1 and the V0 interface of orbax, in turns.

    python -m benchmarks.checkpoints [--numbers 100000] [--blocks 15]

The state has `--numbers` random float32, a tenth as many uint32 and a few bytes of other types. Both interfaces write
to new folders of one temporary folder, and each loads what it wrote. CPU milliseconds are of all threads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Figure, median, ratio, record
from gems_jax.runner import leaves
from gems_jax.types import PyTree


def make_state(numbers: int) -> PyTree:
    """Returns arrays of four types."""
    rng = np.random.default_rng(0)
    return {
        "weights": rng.normal(size=numbers).astype(np.float32),
        "keys": rng.integers(0, 2**32, numbers // 10, dtype=np.uint32),
        "mask": np.ones(100, bool),
        "count": np.int32(3),
    }


def milliseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Measures wall-clock and CPU milliseconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def _identity(value: Any) -> Any:
    return value


def measure(state: PyTree, blocks: int) -> dict[str, np.ndarray]:
    """Measures both interfaces in turns: {`V1, save, wall`: [blocks], ...}; the first block is not counted."""
    interfaces = {"V1": leaves._orbax_v1(), "V0": None}
    if interfaces["V1"] is None:
        raise SystemExit("the installed orbax-checkpoint has no V1 interface: expected 0.12 or newer")
    records, found = leaves.describe_leaves(state), leaves._orbax_v1
    taken: dict[str, list[float]] = {}
    try:
        for block in range(blocks + 1):
            for name, interface in interfaces.items():
                leaves._orbax_v1 = partial(_identity, interface)
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "state"
                    calls = {
                        "save": partial(leaves.write_leaves, path, state),
                        "load": partial(leaves.read_leaves, path, records),
                    }
                    for what, call in calls.items():
                        for clock, value in zip(("wall", "CPU"), milliseconds(call), strict=True):
                            if block:
                                taken.setdefault(f"{name}, {what}, {clock}", []).append(value)
    finally:
        leaves._orbax_v1 = found
    return {name: np.asarray(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--numbers", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=15)
    arguments = parser.parse_args()
    taken = measure(make_state(arguments.numbers), arguments.blocks)
    figures: list[Figure] = [median(name, values, "ms") for name, values in taken.items()]
    for what in ("save", "load"):
        for clock in ("wall", "CPU"):
            pair = taken[f"V1, {what}, {clock}"], taken[f"V0, {what}, {clock}"]
            figures.append(ratio(f"V1 / V0, {what}, {clock}", *pair, equal="the same arrays"))
    record("checkpoints", figures)


if __name__ == "__main__":
    main()
