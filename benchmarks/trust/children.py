"""Forked children: each starts with all imports done, runs a function or a command line, and may be killed.

The parent imports JAX but never uses a device, so that forking is safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax._src import xla_bridge

from gems_jax.cli.main import invoke

MEMORY = 4 * 2**30  # bytes that a child may take
MODULES = (
    "jax", "optax", "flax", "chex", "distrax", "orbax.checkpoint", "safetensors.numpy", "tyro", "rich.table",
    "gems_jax.runner.load", "gems_jax.cli.commands.train", "gems_jax.cli.commands.resume",
    "gems_jax.cli.commands.evaluate", "gems_jax.cli.commands.doctor",
)  # fmt: skip


class Outcome(NamedTuple):
    """Outcome of a command line: exit code, outputs, seconds."""

    code: int
    out: str
    err: str
    seconds: float


def warm_up() -> None:
    """Imports in the parent what the commands need, without starting a device. Compilation is quick, not its code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    for name in MODULES:
        importlib.import_module(name)
    if xla_bridge.backends_are_initialized():
        raise RuntimeError("an import has started a device of JAX: forked children would wait for its threads")


def call(words: Sequence[str], limit: float = 60.0) -> Outcome:
    """Runs a command line in this process with its outputs captured, for at most `limit` seconds."""
    out, err, start = io.StringIO(), io.StringIO(), time.monotonic()

    def ring(*_: Any) -> None:
        raise TimeoutError(f"more than {limit:g} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = invoke(list(words))
    except BaseException as error:
        code = 99
        err.write("".join(traceback.format_exception(error)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Outcome(code, out.getvalue(), err.getvalue(), time.monotonic() - start)


def is_clean(outcome: Outcome) -> bool:
    """Checks that a command line ended as it should: no defect, no traceback, at most one line of error.

    One more line may say that a checkpoint was skipped.
    """
    lines = [line for line in outcome.err.splitlines() if not line.startswith("checkpoint of iteration ")]
    defect = outcome.code in (70, 99) or "Traceback" in outcome.out + outcome.err
    return not defect and (not outcome.code or len(lines) == 1) and all(line.isprintable() for line in lines)


def fork(work: Callable[[], None], silent: bool = True) -> int:
    """Starts a child, in a process group of its own, that does `work`; returns its id."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of its threads, which start with a device
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        _end_with_parent()
        _limit_memory()
        if silent:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
        work()
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_parent() -> None:
    """Asks the system to kill this process when its parent ends, where it can (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _limit_memory() -> None:
    """Limits the memory of this process, so that a case that takes too much fails alone, and soon."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # Linux ends this process first if memory is short


def answer(work: Callable[[], Any], limit: float = 300.0) -> Any:
    """Does `work` in a child and returns its answer as plain JSON data; None if it dies or takes too long."""
    reading, writing = os.pipe()

    def send() -> None:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(work(), pipe)

    child = fork(send, silent=False)
    os.close(writing)
    text, end = b"", time.monotonic() + limit
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
            part = pipe.read(65536)
            if not part:
                break
            text += part
    kill_group(child)
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return None


def kill_group(child: int) -> int:
    """Kills a child and all processes that it started; returns its exit code, negative for a signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
