"""Rows on the host: the driver's own columns, and the search for NaN and infinity."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from gems_jax.runner import machine
from gems_jax.runner.engine import Chunk, Rows


@dataclasses.dataclass
class Counters:
    """Host-side numbers that go on across starts of one run: saved beside the state."""

    seconds: float
    compile_seconds: float
    episodes: list[int]  # per seed; Python integers, which do not overflow
    env_steps: list[int]


class NonFinite(NamedTuple):
    """The first NaN or infinity of a chunk."""

    iterations: int  # of the chunk, up to and with it
    quantity: str
    seed: int  # index
    value: float


def complete_rows(rows: Rows, done: int, count: int, took: float, counters: Counters) -> Rows:
    """The first `count` iterations of a chunk with the driver's columns: iteration, totals, time, memory.

    `counters` moves on by the chunk. Iterations of a compiled chunk are not timed one by one: its time is spread.
    """
    num_seeds, length = next(iter(rows.values())).shape
    complete: Rows = {"iteration": np.tile(np.arange(done + 1, done + count + 1), (num_seeds, 1))}
    complete |= {name: values[:, :count] for name, values in rows.items()}
    for name, totals in (("episodes", counters.episodes), ("env_steps", counters.env_steps)):
        if name in rows:
            sums = np.cumsum(rows[name][:, :count].astype(np.int64), axis=1) + np.asarray(totals, np.int64)[:, None]
            complete[f"total_{name}"] = sums
            totals[:] = [int(total) for total in sums[:, -1]]
    seconds = counters.seconds + took * np.arange(1, count + 1) / length
    counters.seconds += took
    complete["seconds"] = np.tile(np.round(seconds, 4), (num_seeds, 1))
    complete["memory_mb"] = np.full((num_seeds, count), round(machine.memory_bytes() / 1e6, 1))
    return complete


def first_nonfinite(chunk: Chunk, allowed: Collection[str]) -> NonFinite | None:
    """NaN or infinity in a row other than the `allowed` ones, or NaN in the state at the end of the chunk."""
    found = []
    for name, values in chunk.rows.items():
        if values.dtype.kind == "f" and name not in allowed:
            places = zip(*np.nonzero(~np.isfinite(values)), strict=True)
            found += [NonFinite(int(n) + 1, name, int(seed), float(values[seed, n])) for seed, n in places]
    length = next(iter(chunk.rows.values())).shape[1]
    found += [NonFinite(length, name, seed, math.nan) for seed, name in chunk.nan_leaves]
    return min(found, key=lambda item: item.iterations) if found else None
