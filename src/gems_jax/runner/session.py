"""State of one process that works on a run: its start, its checkpoints, and its status after a failure."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.runner import checkpoint, distributed, machine
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, extend_run, identity, log, read_config, write_status
from gems_jax.runner.engine import Chunk, Engine, Monitor, Rows, no_best
from gems_jax.runner.errors import CheckpointError, RunError
from gems_jax.runner.integrity.records import EXTRA
from gems_jax.runner.leaves import strip_keys
from gems_jax.runner.options import RunOptions
from gems_jax.runner.training.mixtures import MixtureRecorder
from gems_jax.runner.writers import CsvWriter, Writer, checksum_text, keep_rows, read_metrics, truncate_csv
from gems_jax.types import PyTree


@dataclasses.dataclass
class Counters:
    """Host-side totals over all starts of a run, saved with the state."""

    seconds: float
    compile_seconds: float
    episodes: list[int]  # per seed; Python integers, which do not overflow
    env_steps: list[int]


@dataclasses.dataclass
class Session:
    """State of one process that works on a run."""

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
    last_metric: float | None = None  # headline of the last measured iteration, mean over seeds
    measured: int = 0  # that iteration
    history: list[Rows] = dataclasses.field(default_factory=list)
    mixtures: MixtureRecorder | None = None

    @property
    def best(self) -> str:
        """Column that the progress line shows and that defines the best iteration; "" for none."""
        return self.monitor.headlines[0] if self.monitor.headlines else ""

    def say(self, text: str) -> None:
        """Prints a message and appends it to the log."""
        self.console.say(text)
        if self.directory is not None:
            log(self.directory, text)


def restore_or_start(session: Session, engine: Engine) -> PyTree:
    """Restores the carry of the newest intact checkpoint, or starts a fresh one, and reports which."""
    try:
        found = _restore(session, engine)
    except BaseException:
        distributed.broadcast_from_primary(np.int32(-1))
        raise
    session.done = int(distributed.broadcast_from_primary(np.int32(session.done)))
    if session.done < 0:
        raise RunError("process 0 failed to start: see its message")
    if found is not None and not distributed.is_multiprocess():
        return found.tree
    carry, seconds = engine.start()
    session.counters.compile_seconds += seconds
    here = carry if found is None else found.tree
    return distributed.broadcast_from_primary(here) if session.done else carry


def _restore(session: Session, engine: Engine) -> checkpoint.Checkpoint | None:
    """Restores the newest intact checkpoint, and truncates the rows of the directory to it."""
    if session.directory is None:
        return None
    found = _newest_checkpoint(session, session.directory, engine)
    if session.iterations != read_config(session.directory.shared)["iterations"]:
        extend_run(session.directory, session.iterations)
    checksums = (found.extra.get("rows") if found else None) or [None] * len(session.directory.members)
    for member, checksum in zip(session.directory.members, checksums, strict=True):
        cut_rows(member / "metrics.csv", session.done, session.directory.checkpoints, checksum)
    write_state(session, "running")
    if found is None:
        session.say(f"fresh start: {session.iterations} iterations, seeds {_seed_list(session.seeds)}")
    return found


def cut_rows(path: Path, done: int, checkpoints: Path, checksum: str | None) -> None:
    """Truncates the rows of one seed to a checkpoint, if they are those of the checkpoint.

    Args:
      path: metrics.csv of the seed.
      done: iteration of the checkpoint.
      checkpoints: folder of the checkpoints, for messages.
      checksum: SHA-256 of the rows up to the checkpoint; None if it does not store one.

    Raises:
      RunError: if rows are missing, or differ from the checksum.
    """
    rows, kept = keep_rows(path, done)
    if rows < done:
        raise RunError(
            f"{path} ends at iteration {rows}, but the checkpoint is of iteration {done}. "
            f"To compute the missing rows again, remove the checkpoints after {rows} from {checkpoints}"
        )
    if checksum is not None and checksum_text(kept) != checksum:
        raise RunError(
            f"{path} differs from the rows of the checkpoint of iteration {done}: a cell was changed. Restore the "
            f"file; `gems doctor {checkpoints.parent}` names checkpoints whose rows are intact"
        )
    truncate_csv(path, done)


def check_totals(session: Session, found: checkpoint.Checkpoint) -> None:
    """Checks that a checkpoint has one total, and one checksum of rows, for each seed. Raises CheckpointError."""
    counters = found.extra["counters"]
    lists = [counters["episodes"], counters["env_steps"], *filter(None, [found.extra.get("rows")])]
    wrong = next((each for each in lists if len(each) != len(session.seeds)), None)
    if wrong is not None:
        raise CheckpointError(
            f"checkpoint of iteration {found.iteration} is damaged: expected counters of {len(session.seeds)} seeds, "
            f"got {len(wrong)}. Remove it to resume from an earlier one"
        )


def _newest_checkpoint(session: Session, directory: RunDirectory, engine: Engine) -> checkpoint.Checkpoint | None:
    checkpoint.remove_leftovers(directory.checkpoints)
    if not checkpoint.iterations(directory.checkpoints):
        return None
    template = engine.template()
    found = checkpoint.restore_checkpoint(
        directory.checkpoints,
        template,
        identity=identity(directory),
        same_shapes=engine.fixed_shapes,
        optional=("best",),
        set_aside=True,
        extra=EXTRA,
        say=session.say,
    )
    assert found is not None
    check_totals(session, found)
    if "best" in template and "best" not in found.tree:
        # From a sweep or an older version. Its best iteration may be an earlier one, so no later one claims to be it.
        found = found._replace(tree=found.tree | {"best": _unknown_best(found.tree["state"], template["best"])})
    if found.iteration > session.iterations:
        raise RunError(
            f"{directory.shared} already has {found.iteration} iterations, got a target of {session.iterations}"
        )
    session.done = session.saved = found.iteration
    session.counters = Counters(**found.extra["counters"])
    session.last_metric, session.measured = found.extra["metric"], found.extra.get("measured", found.iteration)
    session.say(f"resumed from iteration {session.done} of {session.iterations}")
    _report_versions(session, found.extra["versions"])
    return found


def _unknown_best(state: PyTree, template: PyTree) -> PyTree:
    """Returns an entry `best` of the structure of `template` whose loss no iteration is below."""
    if isinstance(template, tuple):
        return tuple(no_best(own, -math.inf) for own in state)
    seeds = template["value"].shape
    return {
        "state": jax.tree.map(partial(jnp.array, copy=True), strip_keys(state)),  # both buffers are donated
        "value": np.full(seeds, -np.inf, np.float32),
        "iteration": np.zeros(seeds, np.int32),
    }


def _report_versions(session: Session, before: dict[str, str]) -> None:
    now = {**before, **machine.versions()}
    changed = [f"{name} {before[name]} -> {now[name]}" for name in before if now[name] != before[name]]
    if changed:
        session.say(f"package versions changed since the checkpoint, so the last bits may differ: {', '.join(changed)}")


def save_checkpoint(session: Session, carry: PyTree) -> None:
    """Writes a checkpoint of the carry and the counters, after the rows up to it."""
    assert session.directory is not None
    begin = time.monotonic()
    for writer in session.writers:
        writer.flush()  # a checkpoint requires its rows to be on the disk
    checkpoint.write_checkpoint(
        session.directory.checkpoints,
        session.done,
        carry,
        identity=identity(session.directory),
        extra={
            "counters": dataclasses.asdict(session.counters),
            "versions": machine.versions(),
            "metric": session.last_metric,
            "measured": session.measured,
            **_row_checksums(session),
        },
        keep=session.options.keep,
    )
    session.saved, session.saved_at = session.done, time.monotonic()
    session.save_cost = session.saved_at - begin


def _row_checksums(session: Session) -> dict[str, list[str]]:
    """Returns the checksum of every seed's rows so far; nothing if the rows are not written to files."""
    return next(({"rows": each.checksums()} for each in session.writers if isinstance(each, CsvWriter)), {})


@contextlib.contextmanager
def record_failures(session: Session) -> Any:
    """Writes the status of a failure; an error while writing it does not hide the failure."""
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
    """Writes the status of the run, if it has a directory."""
    if session.directory is not None:
        write_status(session.directory, state, iteration=session.done, iterations=session.iterations, reason=reason)


def collect_rows(session: Session) -> Rows:
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


def mark_unmeasured(chunk: Chunk, rows: Rows) -> Rows:
    """Masks the cells that were not measured, whose value is NaN.

    Args:
      chunk: the chunk that the rows are from.
      rows: {column: [seeds, n]}, its first n iterations.

    Returns:
      The rows, in which columns that are measured at some iterations only are masked arrays.
    """
    if chunk.measured is None or chunk.measured.all():
        return rows
    return {
        name: np.ma.array(values, mask=np.broadcast_to(~chunk.measured[: values.shape[1]], values.shape))
        if name in chunk.sampled
        else values
        for name, values in rows.items()
    }


def note_metric(session: Session, rows: Rows) -> None:
    """Notes the headline of the last measured iteration of the rows, if one was measured."""
    if session.best not in rows:
        return
    means = np.mean(rows[session.best], axis=0)
    for place in np.flatnonzero(~np.isnan(means))[-1:]:
        session.last_metric, session.measured = float(means[place]), int(rows["iteration"][0, place])


class NonFinite(NamedTuple):
    """The first NaN or infinity of a chunk."""

    iterations: int  # of the chunk, up to and including it
    quantity: str
    seed: int  # index
    value: float


def complete_rows(rows: Rows, done: int, count: int, took: float, counters: Counters) -> Rows:
    """Adds the driver's columns to the rows of a chunk: iteration, totals, time and memory.

    Args:
      rows: {column: [seeds, iterations]} of the chunk.
      done: iterations before the chunk.
      count: iterations of the chunk to use.
      took: seconds of the chunk, which are spread evenly over its iterations.
      counters: totals before the chunk; updated in place.

    Returns:
      The complete rows of the first `count` iterations; totals are int64.

    Raises:
      RunError: if the counts of one iteration exceed int32.
    """
    num_seeds, length = next(iter(rows.values())).shape
    complete: Rows = {"iteration": np.tile(np.arange(done + 1, done + count + 1), (num_seeds, 1))}
    complete |= {name: values[:, :count] for name, values in rows.items()}
    for name, totals in (("episodes", counters.episodes), ("env_steps", counters.env_steps)):
        if name in rows:
            own = rows[name][:, :count].astype(np.int64)
            if (own < 0).any():  # a step counts in int32
                raise RunError(
                    f"{name} of one iteration: expected at most {2**31 - 1}, got more. Choose smaller settings"
                )
            sums = np.cumsum(own, axis=1) + np.asarray(totals, np.int64)[:, None]
            complete[f"total_{name}"] = sums
            totals[:] = [int(total) for total in sums[:, -1]]
    seconds = counters.seconds + took * np.arange(1, count + 1) / length
    counters.seconds += took
    complete["seconds"] = np.tile(np.round(seconds, 4), (num_seeds, 1))
    complete["memory_mb"] = np.full((num_seeds, count), round(machine.memory_bytes() / 1e6, 1))
    return complete


def find_nonfinite(chunk: Chunk, allowed: Collection[str] | None) -> NonFinite | None:
    """Finds the first NaN or infinity in rows, or NaN in the state; cells that were not measured are empty.

    Args:
      chunk: the chunk.
      allowed: exempt columns; None exempts all.
    """
    if allowed is None:
        return None
    found = []
    for name, values in mark_unmeasured(chunk, chunk.rows).items():
        if values.dtype.kind == "f" and name not in allowed:
            found += _nonfinite_values(name, np.ma.filled(values, 0.0))
    length = next(iter(chunk.rows.values())).shape[1]
    found += [NonFinite(length, name, seed, math.nan) for seed, name in chunk.nan_leaves]
    return min(found, key=lambda item: item.iterations, default=None)


def _nonfinite_values(name: str, values: np.ndarray) -> list[NonFinite]:
    indices = np.argwhere(~np.isfinite(values))
    return [NonFinite(int(n) + 1, name, int(seed), float(values[seed, n])) for seed, n in indices]
