"""Run a solver: chunks of iterations, rows to disk, checkpoints, progress. Knows nothing of any method.

    result = run(solver, iterations=40, seeds=range(5), measure=measure, directory=create_run(...))

A run is a function of (solver, seed): the key of an iteration is folded from the seed and the iteration's number, so
a run that was stopped, killed or extended and taken up again gives the same rows and the same final state, bit for
bit, on the same machine and versions. Time and memory columns are the exception.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.accelerator.compile_clock import count_compilation
from gems_jax.runner import checkpoint, distributed, machine
from gems_jax.runner.console import Console, Progress
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.engine import Engine, Family, Measure, Rows, make_engine
from gems_jax.runner.errors import NonFiniteError
from gems_jax.runner.files import locked
from gems_jax.runner.rows import Counters, NonFinite, complete_rows, first_nonfinite
from gems_jax.runner.session import Session, all_rows, first_carry, save, status_of_failures, write_state
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
    chunk: int = 10,
    measure: Measure | None = None,
    init_monitor: Callable[[PyTree], PyTree] | None = None,
    directory: RunDirectory | None = None,
    writers: Sequence[str] = (),
    console: Console | None = None,
    title: str = "",
    best: str | None = None,
    highest: bool = False,
    keep: int = 3,
    checkpoint_seconds: float = 10.0,
    allow_nonfinite: Collection[str] | None = (),
    family: Family | None = None,
    seed_batch: int | None = None,
    stepwise: bool = False,
    mesh: bool = False,
    cache: bool = True,
    how_to_resume: str = "",
) -> RunResult:
    """Bring `solver` to `iterations` iterations for every seed, from the newest good checkpoint of `directory` if any.

    measure(monitor, state_before, metrics, state_after, iteration) -> (monitor, {name: scalar}) is pure and scanned
    along with the step; init_monitor(state) makes its first monitor. Without a directory nothing is written. `best` is
    the row whose mean over seeds the progress line shows and whose lowest checkpoint (`highest`: its highest) is kept
    besides the last `keep`. Checkpoints are at least `checkpoint_seconds` apart (0: after every chunk), and one ends
    every run. `seed_batch` limits how many seeds are in memory at once, by default to what is fastest. NaN or infinity
    in a row (other than `allow_nonfinite`), or NaN in the state, stops the run with NonFiniteError before a checkpoint
    holds it; with allow_nonfinite=None nothing does. A `family` makes runs that differ in numbers, too: one for each of
    `seeds`, which may then repeat themselves, with a folder each in `directory`. `stepwise`
    leaves compiled loops after every iteration. `mesh` shares seeds and episodes out over all devices, with the same
    random numbers and, up to rounding, results. `how_to_resume` is what a stopped run says to go on with, by default
    `gems resume` with its folder.
    """
    seeds = tuple(int(seed) for seed in seeds)
    _check_arguments(iterations, seeds, chunk, directory, checkpoint_seconds, keep, family is not None)
    if cache:
        enable_compilation_cache()
    if not distributed.primary():  # it computes, and leaves no trace
        directory, console = None, None
    engine = make_engine(solver, seeds, chunk, measure, init_monitor, seed_batch, stepwise, family, mesh)
    session = Session(
        iterations=iterations,
        seeds=seeds,
        directory=directory,
        console=console or Console(quiet=True),
        writers=[],
        counters=Counters(0.0, 0.0, [0] * len(seeds), [0] * len(seeds)),
        keep=keep,
        best=best,
        highest=highest,
        checkpoint_seconds=checkpoint_seconds,
        allow_nonfinite=allow_nonfinite,
    )
    with contextlib.ExitStack() as stack:
        if directory is not None:
            stack.enter_context(locked(directory.shared))
        stop = stack.enter_context(stop_request(session.console.say))
        with status_of_failures(session):
            carry = first_carry(session, engine)
            for writer in _open_writers(session, writers):
                session.writers.append(writer)
                stack.callback(writer.close)
            resumed_from = session.saved
            stack.callback(session.console.stop)
            session.console.start(title, iterations, session.done)
            carry = _loop(session, engine, carry, chunk, stop)
            _end(session, carry, stop, how_to_resume)
    return _result(session, carry, stop, resumed_from)


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


def _open_writers(session: Session, names: Sequence[str]) -> Iterator[Writer]:
    if session.directory is not None:
        yield CsvWriter(session.directory)
        for name in names:
            yield make_writer(name, session.directory, session.done)


def _loop(session: Session, engine: Engine, carry: PyTree, chunk: int, stop: StopRequest) -> PyTree:
    """Chunk after chunk until all iterations are done or somebody asks to stop."""
    if session.done >= session.iterations:
        return carry
    if engine.compiles and not session.console.interactive:  # the live line says so itself
        session.console.say("compiling: a minute or more at the first start; the next one finds it in the cache")
    advance, seconds = engine.compile(carry)
    session.counters.compile_seconds += seconds
    session.saved_at = time.monotonic()
    while session.done < session.iterations and not _asked_to_stop(stop):
        count = min(chunk, session.iterations - session.done)
        begin = time.perf_counter()
        with count_compilation() as compiling:
            result = advance(carry, session.done, count)
        took = max(time.perf_counter() - begin - compiling.seconds, 0.0)
        session.counters.compile_seconds += compiling.seconds
        allowed = session.allow_nonfinite
        bad = None if allowed is None else first_nonfinite(result, allowed)
        rows = complete_rows(
            result.rows, session.done, count if bad is None else bad.iterations, took, session.counters
        )
        with _others_told():
            for writer in session.writers:
                writer.write(rows)
        if session.directory is None:
            session.history.append(rows)
        if bad is not None:
            raise NonFiniteError(_nonfinite_message(session, bad))
        carry = result.carry
        session.done += count
        session.last_metric = float(np.mean(rows[session.best][:, -1])) if session.best in rows else None
        _show(session, rows, took)
        if session.directory is not None and session.done < session.iterations:
            since = time.monotonic() - session.saved_at
            # A save may take long (a large state, a slow disk): its share of the time stays small either way.
            if since >= session.checkpoint_seconds and since >= 10 * session.save_cost * bool(
                session.checkpoint_seconds
            ):
                with _others_told():
                    save(session, carry)
                    write_state(session, "running")
    return carry


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
    if session.done and session.saved != session.done:
        save(session, carry)
    if session.done >= session.iterations:
        write_state(session, "done")
        session.say(f"done: {session.iterations} iterations in {session.directory.shared}")
    else:
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
    count = rows["iteration"].shape[1]
    steps = rows["env_steps"].sum() if "env_steps" in rows else 0
    session.console.update(
        Progress(
            iteration=session.done,
            iterations=session.iterations,
            metric=None if session.last_metric is None else (str(session.best), session.last_metric),
            steps_per_second=float(steps or rows["iteration"].size) / max(took, 1e-9),
            seconds_left=took / count * (session.iterations - session.done),
            active_anchors=float(rows["active_anchors"][:, -1].mean()) if "active_anchors" in rows else None,
            memory_bytes=machine.memory_bytes(),
            unit="steps" if steps else "iterations",
        )
    )


def _check_arguments(
    iterations: int, seeds: tuple[int, ...], chunk: int, directory: RunDirectory | None, spacing: float, keep: int,
    repeated: bool,
) -> None:  # fmt: skip
    for name, value in (("iterations", iterations), ("chunk", chunk), ("keep", keep)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not seeds or (len(set(seeds)) != len(seeds) and not repeated):
        raise ValueError(f"seeds must be one or more different integers, got {seeds}")
    if spacing < 0:
        raise ValueError(f"checkpoint_seconds must be at least 0, got {spacing}")
    if directory is not None and directory.seeds != seeds:
        raise ValueError(f"the run directory is of seeds {directory.seeds}, got seeds {seeds}")
