"""A worker process: `python -m gems_jax.host.worker SETUP`, started by `pool`.

It owns the records number, number + count, number + 2 count, ... of the shared memory. A byte on its socket announces
orders; its answer is one line of JSON. It exits when the socket closes, that is, with its parent.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import sys
import threading
from typing import Any

import numpy as np

from gems_jax.host.base import EnvironmentFailure, Facts, make_environment
from gems_jax.host.bench import NOTHING, Bench, record_type

PROGRESS = 16  # bytes per worker at the head of the memory: number of instances begun, and the last of them
HEAD = 4096
WORK, GROW = b"w", b"g"


def map_records(memory: int, size: int, facts: Facts) -> tuple[mmap.mmap, np.ndarray]:
    """Maps the memory file; returns the map and its records [size]."""
    kind = record_type(facts)
    whole = mmap.mmap(memory, HEAD + size * kind.itemsize)
    return whole, np.frombuffer(whole, kind, count=size, offset=HEAD)


def main(setup: dict[str, Any]) -> None:
    """Serves orders until the socket closes. setup: see `pool.Pool`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    die_with_parent(setup["parent"], setup["lifeline"])
    sys.path[:] = [*setup["path"], *(entry for entry in sys.path if entry not in setup["path"])]
    line = socket.socket(fileno=setup["socket"])
    facts = Facts(*setup["facts"])._replace(observation_shape=tuple(setup["facts"][2]))
    bench = Bench(setup["name"], facts, setup["max_steps"], lambda: make_environment(setup["recipe"]))
    number, count = setup["number"], setup["count"]
    whole, records = map_records(setup["memory"], setup["size"], facts)
    progress = np.frombuffer(whole, "i8", count=2, offset=number * PROGRESS)

    def report_progress(lane: int) -> None:
        progress[1] = lane
        progress[0] += 1

    while True:
        order = line.recv(1)
        if not order:
            return
        answer: dict[str, Any] = {}
        if order == GROW:
            size = int.from_bytes(line.recv(8), "little")
            whole, records = map_records(setup["memory"], size, facts)
            progress = np.frombuffer(whole, "i8", count=2, offset=number * PROGRESS)
        else:
            own = np.arange(number, len(records), count)
            lanes = own[records["order"][own] != NOTHING]
            try:
                bench.serve(records, lanes.tolist(), report_progress)
            except EnvironmentFailure as failure:
                answer = {"failure": str(failure)}
        line.sendall(json.dumps(answer).encode() + b"\n")


def die_with_parent(parent: int, lifeline: int) -> None:
    """Ends this process with its parent, even during a step that never returns."""

    def watch() -> None:
        os.read(lifeline, 1)  # returns when the parent closes the other end by exiting
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":  # the thread cannot run while an environment holds the interpreter
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
