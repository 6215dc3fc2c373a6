"""Seconds that JAX spends on compilation, measured by the events that it reports.

A step that runs in Python may compile at any time: when the shapes of its state grow, or when a branch is taken for the
first time. JAX reports how long it traced, lowered and compiled. A hit of the compilation cache counts as a compilation
that lasts as long as reading the entry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator

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
    programs: int = 0  # number of programs that XLA compiled, or that were read from a cache

    @property
    def seconds(self) -> float:
        """Time within at least one span: nested events count once."""
        return merged_seconds(self.spans)


class _Recorders(threading.local):
    """The open blocks of `count_compilation` and `follow_compilation` of a thread."""

    def __init__(self) -> None:
        self.active: list[Compilation] = []
        self.followers: list[Callable[[str, str], None]] = []
        self.hit = False  # whether the program that is being compiled was in the cache


_RECORDERS = _Recorders()


def merged_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Computes the length of the union of spans (begin, end)."""
    total, reached = 0.0, -float("inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


@contextlib.contextmanager
def count_compilation() -> Iterator[Compilation]:
    """Records the compilations of the calling thread inside the block. Nested blocks each record everything.

    Compilations of other threads are not recorded, so that they are never subtracted from this thread's time.
    """
    _listen()
    recorder = Compilation()
    _RECORDERS.active.append(recorder)
    try:
        yield recorder
    finally:
        _RECORDERS.active.remove(recorder)


# What follows when an event ends: XLA compiles, or reads its cache, as soon as a program is lowered.
_NEXT = {EVENTS[1]: "compiling or reading the cache", EVENTS[2]: "tracing"}
_HIT = "/jax/compilation_cache/cache_hits"


@contextlib.contextmanager
def follow_compilation(report: Callable[[str, str], None]) -> Iterator[None]:
    """Reports what the calling thread does inside the block: loading, tracing, or compiling or reading the cache.

    Args:
      report: called whenever this changes, with a description, and with what the part before turned out to be:
        "compiling" or "from the cache", "" if its description was right.
    """
    _listen()
    _RECORDERS.followers.append(report)
    try:
        yield
    finally:
        _RECORDERS.followers.remove(report)


def announce_stage(stage: str) -> None:
    """Reports to `follow_compilation` what the calling thread does next."""
    for report in _RECORDERS.followers:
        report(stage, "")


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
        before = ""
        if event == EVENTS[-1]:
            before, _RECORDERS.hit = "from the cache" if _RECORDERS.hit else "compiling", False
        for report in _RECORDERS.followers if event in _NEXT else ():
            report(_NEXT[event], before)

    def note_hit(event: str, **kwargs: str | int) -> None:
        del kwargs
        _RECORDERS.hit = _RECORDERS.hit or event == _HIT

    jax.monitoring.register_event_duration_secs_listener(record)
    jax.monitoring.register_event_listener(note_hit)
