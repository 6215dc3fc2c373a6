"""Worker processes that run environments, and the memory that they share with this process.

An episode depends on its seed and its actions alone, not on the number of workers or its instance. With 0 workers
everything runs in this process, which is slower but can be debugged.
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
    """Returns the number of worker processes: GEMS_WORKERS, by default one per core that this process may use.

    Raises:
      ValueError: if GEMS_WORKERS is not an integer in range.
    """
    requested = os.environ.get("GEMS_WORKERS", "")
    if requested:
        if not requested.isdigit() or int(requested) > HEAD // PROGRESS:
            raise ValueError(f"GEMS_WORKERS must be an integer from 0 to {HEAD // PROGRESS}, got {requested!r}")
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One process, its socket, and the time of its last progress."""

    def __init__(self, setup: dict[str, Any], memory: int):
        self.socket, theirs = socket.socketpair()
        lifeline, self.lifeline = os.pipe()  # this end closes with this process
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
    """Environment instances: `records[index]` holds an order and, after `work()`, the resulting position.

    Args:
      name: name of the game, for messages.
      recipe: makes the environment.
      facts: facts of the environment.
      max_steps: length at which episodes are truncated.
      time_limit: seconds that one step may take.
      workers: number of processes; 0 runs everything in this process.
    """

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
        """Makes space for at least so many instances."""
        if lanes <= self.size:
            return
        self._map(max(lanes, 2 * self.size))
        for worker in self.workers:
            self._send(worker, GROW + self.size.to_bytes(8, "little"))
        self._wait(self.workers)

    def work(self) -> None:
        """Executes all orders in the records.

        Raises:
          EnvironmentFailure: if an environment or a process fails; the pool is then closed.
        """
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
            self._fail_dead_worker(worker)

    def _wait(self, busy: list[_Worker]) -> None:
        waiting = {worker.socket: worker for worker in busy}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], min(1.0, self.time_limit / 4))
            for line in ready:
                if self._receive_answer(waiting[line]):
                    del waiting[line]
            for worker in waiting.values():
                self._check_progress(worker)

    def _receive_answer(self, worker: _Worker) -> bool:
        """Reads from a worker; returns whether its answer is complete."""
        try:
            part = worker.socket.recv(65536)
        except OSError:
            part = b""
        if not part:
            self._fail_dead_worker(worker)
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
            self._fail(f"{self._describe_episode(worker)} took more than {limit:g} s, the time limit")

    def _describe_episode(self, worker: _Worker) -> str:
        """Formats the episode and step that a worker is at."""
        begun, lane = self._progress(worker)
        if not begun:
            return f"{self.name}: starting worker {self.workers.index(worker)}"
        record = self.records[lane]
        step = f"step {record['step'] + 1}" if record["order"] == STEP else "the start"
        return f"{self.name}: {step} of the episode with seed {record['seed']}"

    def _fail_dead_worker(self, worker: _Worker) -> None:
        try:
            code = worker.process.wait(5)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        self._fail(f"{self._describe_episode(worker)}: the worker process {how}")

    def _fail(self, message: str) -> None:
        self.close()
        raise EnvironmentFailure(message)

    def close(self) -> None:
        """Ends all processes. The pool cannot be used afterwards."""
        for worker in self.workers:
            worker.close()
        self.workers, self.bench = [], None
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1


def _memory_file() -> int:
    """Opens an anonymous file and returns its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gems_jax")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
