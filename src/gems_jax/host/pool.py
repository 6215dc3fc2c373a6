"""Worker processes that play environments, and the memory that they share with this one.

What an episode does depends on its seed and its actions alone: neither the number of workers nor the lane that it is
played in makes a difference. Without workers (0) everything runs in this process, which is slower but can be debugged.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

from gems_jax.host.base import EnvironmentFailure, Facts, Recipe, make_environment
from gems_jax.host.bench import NOTHING, RESET, STEP, Bench, record_type
from gems_jax.host.own import python_module
from gems_jax.host.worker import GROW, HEAD, PROGRESS, WORK, map_records

_START = 60.0  # seconds that a process may take to start: it imports the environment's library
__all__ = ["NOTHING", "RESET", "STEP", "Pool", "num_workers"]


def num_workers() -> int:
    """GEMS_WORKERS, by default one per core that this process may use."""
    told = os.environ.get("GEMS_WORKERS", "")
    if told:
        if not told.isdigit() or int(told) > HEAD // PROGRESS:
            raise ValueError(f"GEMS_WORKERS must be a whole number from 0 to {HEAD // PROGRESS}: got {told!r}")
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One process, its socket, and when it was last seen to get on."""

    def __init__(self, setup: dict[str, Any], memory: int):
        self.socket, theirs = socket.socketpair()
        lifeline, self.lifeline = os.pipe()  # the end that stays here closes with this process
        setup |= {"socket": theirs.fileno(), "memory": memory, "lifeline": lifeline, "parent": os.getpid()}
        line, path = python_module("gems_jax.host.worker")
        self.process = subprocess.Popen(
            [*line, json.dumps(setup)],
            pass_fds=(theirs.fileno(), memory, lifeline),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **path, "PYGAME_HIDE_SUPPORT_PROMPT": "1", "OMP_NUM_THREADS": "1"},
        )
        theirs.close()
        os.close(lifeline)
        self.begun, self.since, self.buffer = -1, time.monotonic(), b""

    def close(self) -> None:
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.lifeline)


class Pool:
    """Lanes of environments. `records[lane]` holds an order, and after `work()` the position that came of it."""

    def __init__(self, name: str, recipe: Recipe, facts: Facts, max_steps: int, time_limit: float, workers: int):
        self.name, self.facts, self.time_limit = name, facts, time_limit
        self.memory = _memory_file()
        self.size = 0
        self.bench: Bench | None = None
        self.workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._map(64)
        if not workers:
            self.bench = Bench(name, facts, max_steps, lambda: make_environment(recipe))
        for number in range(workers):
            setup = {
                "name": name, "recipe": recipe, "facts": facts, "max_steps": max_steps, "size": self.size,
                "number": number, "count": workers, "path": [entry or os.getcwd() for entry in sys.path],
            }  # fmt: skip
            self.workers.append(_Worker(setup, self.memory))

    def _map(self, size: int) -> None:
        os.ftruncate(self.memory, HEAD + size * record_type(self.facts).itemsize)
        self.whole: mmap.mmap
        self.whole, self.records = map_records(self.memory, size, self.facts)
        self.size = size

    def reserve(self, lanes: int) -> None:
        """Room for at least so many lanes."""
        if lanes <= self.size:
            return
        self._map(max(lanes, 2 * self.size))
        for worker in self.workers:
            self._send(worker, GROW + self.size.to_bytes(8, "little"))
        self._wait(self.workers)

    def work(self) -> None:
        """Carries out what the records order. EnvironmentFailure, after which the pool is closed."""
        with self._lock:
            lanes = np.flatnonzero(self.records["order"])
            if self.bench is not None:
                self.bench.serve(self.records, lanes.tolist(), lambda lane: None)
                return
            busy = [self.workers[number] for number in np.unique(lanes % len(self.workers)).tolist()]
            for worker in busy:
                self._send(worker, WORK)
            self._wait(busy)

    def _send(self, worker: _Worker, order: bytes) -> None:
        worker.since, worker.begun = time.monotonic(), -1
        try:
            worker.socket.sendall(order)
        except OSError:
            self._died(worker)

    def _wait(self, busy: list[_Worker]) -> None:
        waiting = {worker.socket: worker for worker in busy}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], min(1.0, self.time_limit / 4))
            for line in ready:
                if self._answered(waiting[line]):
                    del waiting[line]
            for worker in waiting.values():
                self._check_progress(worker)

    def _answered(self, worker: _Worker) -> bool:
        try:
            part = worker.socket.recv(65536)
        except OSError:
            part = b""
        if not part:
            self._died(worker)
        worker.buffer += part
        if not worker.buffer.endswith(b"\n"):
            return False
        answer, worker.buffer = json.loads(worker.buffer), b""
        if "failure" in answer:
            self._fail(answer["failure"])
        return True

    def _progress(self, worker: _Worker) -> tuple[int, int]:
        number = self.workers.index(worker)
        begun, lane = np.frombuffer(self.whole, "i8", count=2, offset=number * PROGRESS).tolist()
        return begun, lane

    def _check_progress(self, worker: _Worker) -> None:
        begun, _ = self._progress(worker)
        limit = self.time_limit if begun else max(self.time_limit, _START)
        if begun != worker.begun:
            worker.begun, worker.since = begun, time.monotonic()
        elif time.monotonic() - worker.since > limit:
            self._fail(f"{self._at(worker)} took more than {limit:g} s, the time limit")

    def _at(self, worker: _Worker) -> str:
        begun, lane = self._progress(worker)
        if not begun:
            return f"{self.name}: starting worker {self.workers.index(worker)}"
        record = self.records[lane]
        step = f"step {record['step'] + 1}" if record["order"] == STEP else "the start"
        return f"{self.name}: {step} of the episode with seed {record['seed']}"

    def _died(self, worker: _Worker) -> None:
        try:
            code = worker.process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"left with code {code}"
        self._fail(f"{self._at(worker)}: the worker process {how}")

    def _fail(self, message: str) -> None:
        self.close()
        raise EnvironmentFailure(message)

    def close(self) -> None:
        """Ends all processes. The pool is of no use afterwards."""
        for worker in self.workers:
            worker.close()
        self.workers, self.bench = [], None
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1


def _memory_file() -> int:
    """The descriptor of a file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gems_jax")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
