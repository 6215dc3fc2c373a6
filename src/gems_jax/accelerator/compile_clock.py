"""Seconds that JAX spends on compilation, from the events that it reports itself.

A step that runs in Python may compile at any time: when the shapes of its state grow, or when a branch is taken for the
first time. JAX reports how long it traced, lowered and compiled; a compilation cache's hit counts as a compilation of
the time that reading it took.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Iterable, Iterator

import jax

# The three parts of a compilation, by the names of jax.monitoring: tracing, lowering, and XLA (or the cache).
EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@dataclasses.dataclass(eq=False)
class Compilation:
    """Time spans of one thread's compilation, in seconds of `time.perf_counter`."""

    spans: list[tuple[float, float]] = dataclasses.field(default_factory=list)  # (begin, end)
    programs: int = 0  # that XLA compiled, or that were read from a cache

    @property
    def seconds(self) -> float:
        """The time within at least one span: nested events count once."""
        return merged_seconds(self.spans)


class _Recorders(threading.local):
    """The blocks of `count_compilation` that a thread is in."""

    def __init__(self) -> None:
        self.active: list[Compilation] = []


_RECORDERS = _Recorders()


def merged_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Returns the length of the union of spans (begin, end)."""
    total, reached = 0.0, -float("inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


@contextlib.contextmanager
def count_compilation() -> Iterator[Compilation]:
    """Records what the calling thread compiles inside the block. Blocks may be nested: each records everything.

    What other threads compile meanwhile is not recorded, so that seconds without compilation never lose computation.
    """
    _listen()
    recorder = Compilation()
    _RECORDERS.active.append(recorder)
    try:
        yield recorder
    finally:
        _RECORDERS.active.remove(recorder)


@functools.cache
def _listen() -> None:
    """Registers the listener, once for the process: JAX calls it in the thread that compiles."""

    def record(event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event in EVENTS:
            end = time.perf_counter()
            for recorder in _RECORDERS.active:
                recorder.spans.append((end - duration_secs, end))
                recorder.programs += event == EVENTS[-1]

    jax.monitoring.register_event_duration_secs_listener(record)
