"""One process's work on a run: where it begins, what it saves, and what it leaves behind when it fails."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.runner import checkpoint, distributed, machine
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, extend, identity, log, read_config, write_status
from gems_jax.runner.engine import Chunk, Engine, Monitor, Rows
from gems_jax.runner.errors import RunError
from gems_jax.runner.options import RunOptions
from gems_jax.runner.writers import Writer, read_metrics, truncate_csv
from gems_jax.types import PyTree


@dataclasses.dataclass
class Counters:
    """Host-side numbers that go on across starts of one run: saved beside the state."""

    seconds: float
    compile_seconds: float
    episodes: list[int]  # per seed; Python integers, which do not overflow
    env_steps: list[int]


@dataclasses.dataclass
class Session:
    """One process's work on a run."""

    iterations: int
    seeds: tuple[int, ...]
    options: RunOptions
    monitor: Monitor
    directory: RunDirectory | None
    console: Console
    counters: Counters
    writers: list[Writer] = dataclasses.field(default_factory=list)
    done: int = 0
    saved: int | None = None  # iteration of the newest checkpoint
    saved_at: float = 0.0
    save_cost: float = 0.0
    last_metric: float | None = None
    history: list[Rows] = dataclasses.field(default_factory=list)

    @property
    def best(self) -> str:
        """The column that the progress line shows and the best checkpoint is chosen by; "" without one."""
        return self.monitor.headlines[0] if self.monitor.headlines else ""

    def say(self, text: str) -> None:
        self.console.say(text)
        if self.directory is not None:
            log(self.directory, text)


def first_carry(session: Session, engine: Engine) -> PyTree:
    """Returns the carry to go on from: the newest good checkpoint's, or a fresh one. Says which."""
    try:
        found = _found(session, engine)
    except BaseException:
        distributed.from_primary(np.int32(-1))
        raise
    session.done = int(distributed.from_primary(np.int32(session.done)))
    if session.done < 0:
        raise RunError("process 0 could not begin, and says why")
    if found is not None and not distributed.several():
        return found.tree
    carry, seconds = engine.start()
    session.counters.compile_seconds += seconds
    here = carry if found is None else found.tree
    return distributed.from_primary(here) if session.done else carry


def _found(session: Session, engine: Engine) -> checkpoint.Checkpoint | None:
    """The newest good checkpoint of the directory, whose files are made to agree with it."""
    if session.directory is None:
        return None
    found = _newest_checkpoint(session, session.directory, engine)
    if session.iterations != read_config(session.directory.shared)["iterations"]:
        extend(session.directory, session.iterations)
    for member in session.directory.members:
        _cut_rows(member / "metrics.csv", session.done, session.directory.checkpoints)
    write_state(session, "running")
    if found is None:
        session.say(f"fresh start: {session.iterations} iterations, seeds {_seed_list(session.seeds)}")
    return found


def _cut_rows(path: Path, done: int, checkpoints: Path) -> None:
    rows = truncate_csv(path, done)
    if rows < done:
        raise RunError(
            f"{path} has rows up to iteration {rows}, the checkpoint is of {done}; "
            f"to compute them again, remove the checkpoints after {rows} from {checkpoints}"
        )


def _newest_checkpoint(session: Session, directory: RunDirectory, engine: Engine) -> checkpoint.Checkpoint | None:
    checkpoint.remove_leftovers(directory.checkpoints)
    if not checkpoint.iterations(directory.checkpoints):
        return None
    found = checkpoint.restore_checkpoint(
        directory.checkpoints,
        engine.template(),
        identity=identity(directory),
        same_shapes=engine.fixed_shapes,
        set_aside=True,
        say=session.say,
    )
    assert found is not None
    if found.iteration > session.iterations:
        raise RunError(f"{directory.shared} already has {found.iteration} iterations, asked for {session.iterations}")
    session.done = session.saved = found.iteration
    session.counters = Counters(**found.extra["counters"])
    session.last_metric = found.extra["metric"]
    session.say(f"resumed from the checkpoint of iteration {session.done}, {session.iterations} to reach")
    _report_versions(session, found.extra["versions"])
    return found


def _report_versions(session: Session, before: dict[str, str]) -> None:
    now = {**before, **machine.versions()}
    changed = [f"{name} {before[name]} -> {now[name]}" for name in before if now[name] != before[name]]
    if changed:
        session.say(f"other versions than at the checkpoint, so the last bits may differ: {', '.join(changed)}")


def save_checkpoint(session: Session, carry: PyTree) -> None:
    """Writes the carry and the counters beside it; rows that the checkpoint counts on reach the disk first."""
    assert session.directory is not None
    begin, metric = time.monotonic(), session.last_metric
    for writer in session.writers:
        writer.flush()  # the rows a checkpoint counts on are on the disk before it is
    checkpoint.write_checkpoint(
        session.directory.checkpoints,
        session.done,
        carry,
        identity=identity(session.directory),
        extra={
            "counters": dataclasses.asdict(session.counters),
            "versions": machine.versions(),
            "metric": metric,
        },
        metric=-metric if session.monitor.highest and metric is not None else metric,
        keep=session.options.keep,
    )
    session.saved, session.saved_at = session.done, time.monotonic()
    session.save_cost = session.saved_at - begin


@contextlib.contextmanager
def status_of_failures(session: Session) -> Any:
    """Leave a status behind whatever happens; a status that cannot be written must not hide the reason."""
    try:
        yield
    except BaseException as error:
        session.console.stop()
        with contextlib.suppress(RunError):
            _write_failure(session, error)
        raise


def _write_failure(session: Session, error: BaseException) -> None:
    state = "failed" if isinstance(error, Exception) else "interrupted"
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    write_state(session, state, reason)
    if session.directory is not None:
        log(session.directory, f"{state}: {reason}")


def write_state(session: Session, state: str, reason: str = "") -> None:
    if session.directory is not None:
        write_status(session.directory, state, iteration=session.done, iterations=session.iterations, reason=reason)


def all_rows(session: Session) -> Rows:
    """Collects the rows of all iterations: {column: [seeds, iterations]}."""
    if session.directory is None:
        return _concatenate(session.history, axis=1)
    members = session.directory.members if session.done else ()
    return _concatenate([{name: values[None] for name, values in read_metrics(member).items()} for member in members])


def _concatenate(parts: Sequence[Rows], axis: int = 0) -> Rows:
    return {name: np.concatenate([part[name] for part in parts], axis) for name in (parts[0] if parts else ())}


def _seed_list(seeds: Sequence[int]) -> str:
    consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]}-{seeds[-1]}" if consecutive else ", ".join(map(str, seeds))


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


def first_nonfinite(chunk: Chunk, allowed: Collection[str] | None) -> NonFinite | None:
    """Finds NaN or infinity in a row other than the `allowed` ones (None: all, and the state), or NaN in the state."""
    if allowed is None:
        return None
    found = []
    for name, values in chunk.rows.items():
        if values.dtype.kind == "f" and name not in allowed:
            found += _nonfinite_values(name, values)
    length = next(iter(chunk.rows.values())).shape[1]
    found += [NonFinite(length, name, seed, math.nan) for seed, name in chunk.nan_leaves]
    return min(found, key=lambda item: item.iterations, default=None)


def _nonfinite_values(name: str, values: np.ndarray) -> list[NonFinite]:
    places = np.argwhere(~np.isfinite(values))
    return [NonFinite(int(n) + 1, name, int(seed), float(values[seed, n])) for seed, n in places]
