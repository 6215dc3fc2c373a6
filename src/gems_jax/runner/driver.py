"""Run a solver: chunks of iterations, rows to disk, checkpoints, progress. Knows nothing of any method.

    result = run(solver, iterations=40, seeds=range(5), monitor=monitor, directory=create_run(...))

A run is a function of (solver, seed): the key of an iteration is folded from the seed and the iteration's number, so
a run that was stopped, killed or extended and taken up again gives the same rows and the same final state, bit for
bit, on the same machine and versions. Time and memory columns are the exception.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.accelerator.compile_clock import count_compilation
from gems_jax.runner import checkpoint, distributed, machine
from gems_jax.runner.console import Console, Progress
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.engine import Chunk, Engine, Family, Monitor, Rows, make_engine
from gems_jax.runner.errors import NonFiniteError
from gems_jax.runner.files import locked
from gems_jax.runner.options import RunOptions
from gems_jax.runner.session import (
    Counters,
    NonFinite,
    Session,
    all_rows,
    complete_rows,
    first_carry,
    first_nonfinite,
    save_checkpoint,
    status_of_failures,
    write_state,
)
from gems_jax.runner.signals import StopRequest, stop_request
from gems_jax.runner.writers import CsvWriter, Writer, make_writer
from gems_jax.types import PyTree, Solver


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run leaves in memory. With a directory, `rows` is what its metrics.csv files hold."""

    state: PyTree  # leading axis: seeds; a tuple with one state per seed where the solver is not jittable
    monitor: PyTree  # likewise
    rows: Rows  # {column: [seeds, iterations]}
    iteration: int
    seconds: float  # of running, over all starts, excluding compilation wherever it happens
    compile_seconds: float  # of tracing, lowering and compiling, over all starts
    resumed_from: int | None  # iteration of the checkpoint this process began with
    stopped_by: str = ""  # "Ctrl-C" or "SIGTERM" when the run was asked to stop
    exit_code: int = 0


def run(
    solver: Solver,
    *,
    iterations: int,
    seeds: Sequence[int] = (0,),
    options: RunOptions | None = None,
    monitor: Monitor | None = None,
    directory: RunDirectory | None = None,
    console: Console | None = None,
    title: str = "",
    family: Family | None = None,
    how_to_resume: str = "",
) -> RunResult:
    """Brings `solver` to `iterations` iterations for every seed, from the newest good checkpoint of `directory` if any.

    Checkpoints are at least `options.checkpoint_seconds` apart (0: after every chunk), and one ends every run. NaN or
    infinity in a row (other than `monitor.allow_nonfinite`), or NaN in the state, stops the run before a checkpoint
    holds it.

    Args:
      solver: what is run.
      iterations: how many to reach.
      seeds: one run for each.
      options: how the run is driven.
      monitor: what measures it; its pure `measure` is scanned along with the step. The mean over seeds of its first
        headline is shown by the progress line, and the checkpoint where it is lowest (`highest`: highest) is kept.
      directory: where rows and checkpoints go; without one nothing is written.
      console: where progress is shown, by default nowhere.
      title: of the progress line.
      family: runs that differ in numbers, too: one for each of `seeds`, which may then repeat themselves, with a folder
        each in `directory`.
      how_to_resume: what a stopped run says to go on with, by default `gems resume` with its folder.

    Returns:
      The final states, monitors and rows.

    Raises:
      ValueError: for options out of range.
      RunError: for anything that is wrong with the directory; NonFiniteError for NaN and infinity.
    """
    session = _open_session(iterations, seeds, options, monitor, directory, console, family is not None)
    engine = make_engine(solver, session.seeds, session.options, session.monitor, family)
    with contextlib.ExitStack() as stack:
        if session.directory is not None:
            stack.enter_context(locked(session.directory.shared))
        stop = stack.enter_context(stop_request(session.console.say))
        with status_of_failures(session):
            carry = first_carry(session, engine)
            for writer in _open_writers(session):
                session.writers.append(writer)
                stack.callback(writer.close)
            resumed_from = session.saved
            stack.callback(session.console.stop)
            session.console.start(title, iterations, session.done)
            carry = _loop(session, engine, carry, stop)
            _end(session, carry, stop, how_to_resume)
    return _result(session, carry, stop, resumed_from)


def _open_session(
    iterations: int,
    seeds: Sequence[int],
    options: RunOptions | None,
    monitor: Monitor | None,
    directory: RunDirectory | None,
    console: Console | None,
    repeated: bool,
) -> Session:
    """Checks the arguments. A process that only helps to compute gets neither directory nor console."""
    seeds = tuple(int(seed) for seed in seeds)
    options = (options or RunOptions()).validate()
    _check_arguments(iterations, seeds, directory, repeated)
    enable_compilation_cache()
    if not distributed.primary():
        directory, console = None, None
    counters = Counters(0.0, 0.0, [0] * len(seeds), [0] * len(seeds))
    console = console or Console(quiet=True)
    return Session(iterations, seeds, options, monitor or Monitor(), directory, console, counters)


def _result(session: Session, carry: PyTree, stop: StopRequest, resumed_from: int | None) -> RunResult:
    return RunResult(
        state=carry["state"],
        monitor=carry["monitor"],
        rows=all_rows(session),
        iteration=session.done,
        seconds=session.counters.seconds,
        compile_seconds=session.counters.compile_seconds,
        resumed_from=resumed_from,
        stopped_by=stop.reason,
        exit_code=stop.exit_code,
    )


def _open_writers(session: Session) -> Iterator[Writer]:
    if session.directory is not None:
        yield CsvWriter(session.directory)
        for name in session.options.writers:
            yield make_writer(name, session.directory, session.done)


def _loop(session: Session, engine: Engine, carry: PyTree, stop: StopRequest) -> PyTree:
    """Advances chunk after chunk until all iterations are done or somebody asks to stop."""
    if session.done >= session.iterations:
        return carry
    if engine.compiles and not session.console.interactive:  # the live line says so itself
        session.console.say("compiling: a minute or more at the first start; the next one finds it in the cache")
    advance, seconds = engine.compile(carry)
    session.counters.compile_seconds += seconds
    session.saved_at = time.monotonic()
    while session.done < session.iterations and not _asked_to_stop(stop):
        carry = _advance(session, advance, carry)
        if _is_time_to_save(session):
            with _others_told():
                save_checkpoint(session, carry)
                write_state(session, "running")
    return carry


def _advance(session: Session, advance: Callable[[PyTree, int, int], Chunk], carry: PyTree) -> PyTree:
    """Computes, logs and shows one chunk; returns the carry after it."""
    count = min(session.options.iterations_per_chunk, session.iterations - session.done)
    begin = time.perf_counter()
    with count_compilation() as compiling:
        chunk = advance(carry, session.done, count)
    took = max(time.perf_counter() - begin - compiling.seconds, 0.0)
    session.counters.compile_seconds += compiling.seconds
    rows = _log_chunk(session, chunk, count, took)
    session.done += count
    session.last_metric = float(np.mean(rows[session.best][:, -1])) if session.best in rows else None
    _show(session, rows, took)
    return chunk.carry


def _log_chunk(session: Session, chunk: Chunk, count: int, took: float) -> Rows:
    """Writes the rows of a chunk. NonFiniteError, after the rows up to it, where they or the state are not finite."""
    bad = first_nonfinite(chunk, session.monitor.allow_nonfinite)
    good = count if bad is None else bad.iterations
    rows = complete_rows(chunk.rows, session.done, good, took, session.counters)
    with _others_told():
        for writer in session.writers:
            writer.write(rows)
    if session.directory is None:
        session.history.append(rows)
    if bad is not None:
        raise NonFiniteError(_nonfinite_message(session, bad))
    return rows


def _is_time_to_save(session: Session) -> bool:
    """Saves may take long (a large state, a slow disk): they get a tenth of the time, unless after each chunk."""
    if session.directory is None or session.done >= session.iterations:
        return False
    spacing, since = session.options.checkpoint_seconds, time.monotonic() - session.saved_at
    return since >= spacing and since >= 10 * session.save_cost * bool(spacing)


@contextlib.contextmanager
def _others_told() -> Iterator[None]:
    """Of several processes, those that wait for the next chunk stop when this one cannot go on."""
    try:
        yield
    except BaseException:
        distributed.anywhere(True)
        raise


def _asked_to_stop(stop: StopRequest) -> bool:
    """Here or, of several processes, in any of them: all stop after the same chunk."""
    asked = distributed.anywhere(stop.signal is not None)
    if asked and stop.signal is None:
        stop.signal = signal.SIGTERM
    return asked


def _end(session: Session, carry: PyTree, stop: StopRequest, how_to_resume: str) -> None:
    session.console.stop()
    if session.directory is None:
        return
    if session.saved != (session.done or None):
        save_checkpoint(session, carry)
    if session.done >= session.iterations:
        write_state(session, "done")
        session.say(f"done: {session.iterations} iterations in {session.directory.shared}")
        return
    write_state(session, "interrupted", stop.reason)
    session.say(
        f"stopped by {stop.reason} at iteration {session.done} of {session.iterations}; everything is saved. "
        f"Continue with: {how_to_resume or f'gems resume {session.directory.shared}'}"
    )


def _nonfinite_message(session: Session, bad: NonFinite) -> str:
    iteration, seed = session.done + bad.iterations, session.seeds[bad.seed]
    told = f"{bad.quantity} became {bad.value} at iteration {iteration}, seed {seed}"
    if session.directory is None:
        return told
    good = checkpoint.iterations(session.directory.checkpoints)
    kept = f"the last good checkpoint is iteration {good[-1]}" if good else "there is no earlier checkpoint"
    found = f"; to see where it comes from: gems resume {session.directory.shared} --debug" if good else ""
    return f"{told}; {kept} in {session.directory.shared}{found}"


def _show(session: Session, rows: Rows, took: float) -> None:
    steps = rows["env_steps"].sum() if "env_steps" in rows else 0
    unit, count = ("steps", steps) if steps else ("iterations", rows["iteration"].size)
    session.console.update(
        Progress(
            iteration=session.done,
            iterations=session.iterations,
            metric=None if session.last_metric is None else (session.best, session.last_metric),
            steps_per_second=float(count) / max(took, 1e-9),
            seconds_left=took / rows["iteration"].shape[1] * (session.iterations - session.done),
            active_anchors=float(rows["active_anchors"][:, -1].mean()) if "active_anchors" in rows else None,
            memory_bytes=machine.memory_bytes(),
            unit=unit,
        )
    )


def _check_arguments(iterations: int, seeds: tuple[int, ...], directory: RunDirectory | None, repeated: bool) -> None:
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    if not seeds or (len(set(seeds)) != len(seeds) and not repeated):
        raise ValueError(f"seeds must be one or more different integers, got {seeds}")
    if directory is not None and directory.seeds != seeds:
        raise ValueError(f"the run directory is of seeds {directory.seeds}, got seeds {seeds}")
