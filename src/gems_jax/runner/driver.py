"""Driver of a run, independent of the method: chunks of iterations, rows to disk, checkpoints, progress.

    result = run(solver, iterations=40, seeds=range(5), monitor=monitor, directory=create_run(...))

A run is a function of (solver, seed): the key of an iteration is folded from the seed and the iteration number. A run
that was stopped, killed or extended and then resumed therefore gives bit-identical rows and final state on the same
machine and versions, except for the time and memory columns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from gems_jax.accelerator.cache import use_default_cache
from gems_jax.accelerator.compile_clock import count_compilation, follow_compilation
from gems_jax.runner import checkpoint, distributed, machine
from gems_jax.runner.console import Console, Progress
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.engine import Chunk, Engine, Family, Monitor, Rows, make_engine
from gems_jax.runner.errors import NonFiniteError
from gems_jax.runner.files import lock_run
from gems_jax.runner.options import RunOptions
from gems_jax.runner.session import (
    Counters,
    NonFinite,
    Session,
    collect_rows,
    complete_rows,
    find_nonfinite,
    mark_unmeasured,
    note_metric,
    record_failures,
    restore_or_start,
    save_checkpoint,
    write_state,
)
from gems_jax.runner.signals import StopRequest, stop_request
from gems_jax.runner.training.mixtures import MixtureRecorder
from gems_jax.runner.writers import CsvWriter, Writer, make_writer
from gems_jax.types import PyTree, Solver

PIECE_SECONDS = 1.0  # of one call of a compiled loop, after which progress is shown


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Result of a run. With a directory, `rows` equals the contents of its metrics.csv files."""

    state: PyTree  # leading axis: seeds; a tuple with one state per seed where the solver is not jittable
    monitor: PyTree  # likewise
    best: PyTree  # state, value and iteration of the best measured iteration of each seed (`engine`); None: no headline
    rows: Rows  # {column: [seeds, iterations]}
    iteration: int
    seconds: float  # over all starts, excluding compilation
    compile_seconds: float  # of tracing, lowering and compilation, over all starts
    resumed_from: int | None  # iteration of the checkpoint that this process resumed from
    stopped_by: str = ""  # "Ctrl-C" or "SIGTERM" if a signal stopped the run
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
    """Runs a solver for every seed, from the newest intact checkpoint of `directory` if there is one.

    Checkpoints are written at intervals of at least `options.checkpoint_seconds` (0: after every chunk) and at the end.
    NaN or infinity in a row (except columns in `monitor.allow_nonfinite`) and NaN in the state stop the run before they
    reach a checkpoint.

    Args:
      solver: the solver.
      iterations: total number of iterations to reach.
      seeds: one run for each.
      options: how the run is driven.
      monitor: measures the run; its pure `measure` is scanned along with the step. The progress line shows the mean
        over seeds of its first headline, and the checkpoints contain the state of every seed at the measured iteration
        where it is lowest (`highest`: highest).
      directory: folders for rows and checkpoints; None writes nothing.
      console: prints progress; None prints nothing.
      title: title of the progress line.
      family: runs that also differ in real-valued settings, one for each of `seeds`, which may then repeat.
        `directory` has one folder for each.
      how_to_resume: command that the message of a stopped run names, by default `gems resume` with its folder.

    Returns:
      The final states, monitors and rows.

    Raises:
      ValueError: if an option is out of range.
      RunError: if the directory cannot be read or written.
      NonFiniteError: if NaN or infinity appears.
    """
    session = _open_session(iterations, seeds, options, monitor, directory, console, _is_varied(family))
    engine = make_engine(solver, session.seeds, session.options, session.monitor, family, iterations)
    with contextlib.ExitStack() as stack:
        if session.directory is not None:
            stack.enter_context(lock_run(session.directory.shared))
        stop = stack.enter_context(stop_request(session.console.say))
        with record_failures(session):
            with show_compilation(session.console, "first state"):
                carry = restore_or_start(session, engine)
            for writer in _open_writers(session):
                session.writers.append(writer)
                stack.callback(writer.close)
            resumed_from = session.saved
            stack.callback(session.console.stop)
            session.console.start(title, iterations, session.done)
            if session.directory is not None:
                session.mixtures = MixtureRecorder(session.directory.members, session.done, iterations)
            carry = _loop(session, engine, carry, stop)
            _finish(session, carry, stop, how_to_resume)
    return _result(session, carry, stop, resumed_from)


def _is_varied(family: Family | None) -> bool:
    """Whether runs differ in more than their seeds."""
    return family is not None and bool(jax.tree.leaves(family.values))


def _open_session(
    iterations: int,
    seeds: Sequence[int],
    options: RunOptions | None,
    monitor: Monitor | None,
    directory: RunDirectory | None,
    console: Console | None,
    repeated: bool,
) -> Session:
    """Checks the arguments. A process other than process 0 gets neither directory nor console."""
    seeds = tuple(int(seed) for seed in seeds)
    options = (options or RunOptions()).validate()
    _check_arguments(iterations, seeds, directory, repeated)
    use_default_cache()
    if not distributed.is_primary():
        directory, console = None, None
    counters = Counters(0.0, 0.0, [0] * len(seeds), [0] * len(seeds))
    console = console or Console(quiet=True)
    return Session(iterations, seeds, options, monitor or Monitor(), directory, console, counters)


def _result(session: Session, carry: PyTree, stop: StopRequest, resumed_from: int | None) -> RunResult:
    return RunResult(
        state=carry["state"],
        monitor=carry["monitor"],
        best=carry.get("best"),
        rows=collect_rows(session),
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
    """Advances chunk after chunk until all iterations are done or a signal asks to stop."""
    if session.done >= session.iterations:
        return carry
    if engine.compiles and not session.console.interactive:  # the live line shows it
        session.console.say("compiling: a minute or more at the first start, later starts use the cache")
    with show_compilation(session.console, "iteration"):
        advance, seconds = engine.compile(carry)
    session.counters.compile_seconds += seconds
    session.saved_at = time.monotonic()
    session.say(session.console.end_waits())
    session.console.wait("running the first iteration")
    pieces = _Pieces(session)
    while session.done < session.iterations and not _should_stop(session, stop):
        carry = _advance(session, advance, carry, pieces)
        if _is_time_to_save(session, pieces.ends_chunk()):
            with _notify_others_on_failure():
                save_checkpoint(session, carry)
                write_state(session, "running")
    return carry


@contextlib.contextmanager
def show_compilation(console: Console, part: str) -> Iterator[None]:
    """Shows that the program of a part is loaded or traced, then compiled or read from the cache."""
    console.wait(f"{part}: tracing")

    def report(stage: str, before: str) -> None:
        if before:
            console.name_wait(f"{part}: {before}")
        console.wait(f"{part}: {stage}", restart=False)

    with follow_compilation(report):
        yield


class _Pieces:
    """Splits chunks into calls of about a second, so that progress is shown whatever the size of a chunk.

    The number of iterations is an argument of the compiled program: other pieces neither compile nor change results.
    """

    def __init__(self, session: Session):
        self.session, self.begun, self.seconds = session, session.done, math.inf  # seconds per iteration

    def choose_count(self) -> int:
        """Chooses the iterations of the next call: one at first, then as many as take `PIECE_SECONDS`."""
        session = self.session
        chunk = session.options.iterations_per_chunk
        left = min(chunk - (session.done - self.begun) % chunk, session.iterations - session.done)
        count = min(max(int(PIECE_SECONDS / max(self.seconds, 1e-9)), 1), left)
        return int(distributed.broadcast_from_primary(np.int32(count)))  # all processes compute the same piece

    def ends_chunk(self) -> bool:
        """Checks whether the last call ended a chunk."""
        return (self.session.done - self.begun) % self.session.options.iterations_per_chunk == 0


def _advance(session: Session, advance: Callable[[PyTree, int, int], Chunk], carry: PyTree, pieces: _Pieces) -> PyTree:
    """Computes, logs and shows one piece of a chunk; returns the next carry."""
    count = pieces.choose_count()
    begin = time.perf_counter()
    with count_compilation() as compiling:
        chunk = advance(carry, session.done, count)
    took = max(time.perf_counter() - begin - compiling.seconds, 0.0)
    session.counters.compile_seconds += compiling.seconds
    pieces.seconds = took / count
    rows = _log_chunk(session, chunk, count, took)
    session.done += count
    if session.mixtures is not None:
        session.mixtures.record(session.done, chunk.carry["state"])
    note_metric(session, rows)
    session.console.record(rows)
    _show_progress(session, rows, took)
    return chunk.carry


def _log_chunk(session: Session, chunk: Chunk, count: int, took: float) -> Rows:
    """Writes the rows of a chunk. Raises NonFiniteError after writing the rows up to the first bad one."""
    bad = find_nonfinite(chunk, session.monitor.allow_nonfinite)
    good = count if bad is None else bad.iterations
    rows = complete_rows(chunk.rows, session.done, good, took, session.counters)
    with _notify_others_on_failure():
        for writer in session.writers:
            writer.write(mark_unmeasured(chunk, rows))
    if session.directory is None:
        session.history.append(rows)
    if bad is not None:
        raise NonFiniteError(_nonfinite_message(session, bad))
    return rows


def _is_time_to_save(session: Session, ends_chunk: bool) -> bool:
    """Decides whether to save: saving takes at most a tenth of the time, unless every chunk is saved."""
    if session.directory is None or session.done >= session.iterations:
        return False
    spacing, since = session.options.checkpoint_seconds, time.monotonic() - session.saved_at
    if not spacing:
        return ends_chunk
    return since >= spacing and since >= 10 * session.save_cost


@contextlib.contextmanager
def _notify_others_on_failure() -> Iterator[None]:
    """Stops the other processes, which wait for the next chunk, if this one fails."""
    try:
        yield
    except BaseException:
        distributed.any_process(True)
        raise


def _should_stop(session: Session, stop: StopRequest) -> bool:
    """Checks whether any process received a signal or was asked to stop; all stop after the same chunk."""
    asked = distributed.any_process(stop.signal is not None or session.console.stop_requested)
    if asked and stop.signal is None and not session.console.stop_requested:
        stop.signal = signal.SIGTERM
    return asked


def _finish(session: Session, carry: PyTree, stop: StopRequest, how_to_resume: str) -> None:
    session.console.stop()
    if session.directory is None:
        return
    if session.saved != (session.done or None):
        save_checkpoint(session, carry)
    if session.done >= session.iterations:
        write_state(session, "done")
        session.say(f"done: {session.iterations} iterations in {session.directory.shared}")
        return
    reason = stop.reason or "the callback"
    write_state(session, "interrupted", reason)
    session.say(
        f"stopped by {reason} at iteration {session.done} of {session.iterations}; everything is saved. "
        f"Continue with: {how_to_resume or f'gems resume {session.directory.shared}'}"
    )


def _nonfinite_message(session: Session, bad: NonFinite) -> str:
    iteration, seed = session.done + bad.iterations, session.seeds[bad.seed]
    problem = f"{bad.quantity} became {bad.value} at iteration {iteration}, seed {seed}"
    if session.directory is None:
        return problem
    good = checkpoint.iterations(session.directory.checkpoints)
    saved = f"the last good checkpoint is iteration {good[-1]}" if good else "there is no earlier checkpoint"
    advice = f"; to locate its cause: gems resume {session.directory.shared} --debug" if good else ""
    return f"{problem}; {saved} in {session.directory.shared}{advice}"


def _show_progress(session: Session, rows: Rows, took: float) -> None:
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
            measured=session.measured,
        )
    )


def _check_arguments(iterations: int, seeds: tuple[int, ...], directory: RunDirectory | None, repeated: bool) -> None:
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    if not seeds or (len(set(seeds)) != len(seeds) and not repeated):
        raise ValueError(f"seeds must be one or more distinct integers, got {seeds}")
    if directory is not None and directory.seeds != seeds:
        raise ValueError(f"seeds must be those of the run directory, {directory.seeds}, got {seeds}")
