"""A session begins, saves, resumes, and leaves a status behind when it fails."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from gems_jax.runner import checkpoint
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, read_config, read_status
from gems_jax.runner.engine import Chunk, Engine, make_engine
from gems_jax.runner.errors import RunError
from gems_jax.runner.options import RunOptions
from gems_jax.runner.session import (
    Counters,
    Session,
    collect_rows,
    complete_rows,
    find_nonfinite,
    record_failures,
    restore_or_start,
    save_checkpoint,
)
from gems_jax.runner.writers import CsvWriter, read_metrics
from walk_solver import MONITOR, make_walk, new_run

OPTIONS = RunOptions(chunk=3, keep=2)


def begin(directory: RunDirectory | None, iterations: int = 6) -> Session:
    counters = Counters(0.0, 0.0, [0, 0], [0, 0])
    return Session(iterations, (0, 1), OPTIONS, MONITOR, directory, Console(quiet=True), counters)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_engine(make_walk(), (0, 1), OPTIONS, MONITOR)


def bits(tree):
    """A copy of the leaves on the host, keys as their data."""
    return jax.tree.map(lambda leaf: np.array(jax.random.key_data(leaf) if is_key(leaf) else leaf), tree)


def is_key(leaf) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def advance(session: Session, engine: Engine, carry, count: int = 3):
    """One chunk, its rows logged."""
    run, _ = engine.compile(carry)
    chunk = run(carry, session.done, count)
    rows = complete_rows(chunk.rows, session.done, count, 0.5, session.counters)
    if session.directory is None:
        session.history.append(rows)
    else:
        writer = CsvWriter(session.directory)
        writer.write(rows)
        writer.close()
    session.done += count
    session.last_metric = float(rows["gap"][:, -1].mean())
    return chunk.carry


def test_a_fresh_start_makes_the_folder_agree(tmp_path: Path, engine: Engine) -> None:
    directory = new_run(tmp_path / "run", iterations=12)
    session = begin(directory)
    carry = restore_or_start(session, engine)
    assert set(carry) == {"state", "monitor", "best"} and session.done == 0 and session.saved is None
    assert session.counters.compile_seconds > 0 and session.best == "gap"
    assert read_config(directory.shared)["iterations"] == 6  # the new length
    assert "fresh start: 6 iterations, seeds 0, 1" in (directory.shared / "log.txt").read_text()


def test_saved_and_resumed_bit_for_bit(tmp_path: Path, engine: Engine) -> None:
    directory = new_run(tmp_path / "run", iterations=6)
    session = begin(directory)
    carry = advance(session, engine, restore_or_start(session, engine))
    kept = bits(carry)
    save_checkpoint(session, carry)
    assert (session.saved, checkpoint.iterations(directory.checkpoints)) == (3, [3])
    with open(directory.members[0] / "metrics.csv", "a") as file:
        file.write("4,torn")  # rows after the checkpoint are cut off
    again = begin(directory)
    resumed = restore_or_start(again, engine)
    assert (again.done, again.saved, again.last_metric) == (3, 3, session.last_metric)
    assert again.counters == session.counters
    jax.tree.map(np.testing.assert_array_equal, bits(resumed), kept)
    rows = collect_rows(again)
    assert rows["iteration"].shape == (2, 3) and rows["total_episodes"][0, -1] == session.counters.episodes[0]


def test_after_a_checkpoint_without_best_state_no_later_one_claims_to_be_the_best(
    tmp_path: Path, engine: Engine
) -> None:
    """Sweeps do not store it, so the best iteration may be one before the checkpoint."""
    directory = new_run(tmp_path / "run", iterations=6)
    session = begin(directory)
    carry = advance(session, engine, restore_or_start(session, engine))
    save_checkpoint(session, {name: carry[name] for name in ("state", "monitor")})
    kept = bits(carry["state"])
    again = begin(directory)
    resumed = restore_or_start(again, engine)
    jax.tree.map(np.testing.assert_array_equal, bits(resumed["state"]), kept)
    later = advance(again, engine, resumed)
    np.testing.assert_array_equal(later["best"]["iteration"], 0)


def test_a_checkpoint_without_its_rows_is_refused(tmp_path: Path, engine: Engine) -> None:
    directory = new_run(tmp_path / "run", iterations=6)
    session = begin(directory)
    save_checkpoint(session, advance(session, engine, restore_or_start(session, engine)))
    (directory.members[1] / "metrics.csv").write_text("iteration,gap\n1,0.5\n")
    with pytest.raises(RunError, match="ends at iteration 1, but the checkpoint is of iteration 3"):
        restore_or_start(begin(directory), engine)


@pytest.mark.parametrize(("error", "state"), [(ValueError("no luck"), "failed"), (KeyboardInterrupt(), "interrupted")])
def test_what_a_failure_leaves(tmp_path: Path, error: BaseException, state: str) -> None:
    directory = new_run(tmp_path / "run")
    session = begin(directory)
    session.done = 2
    with pytest.raises(type(error)), record_failures(session):
        raise error
    status = json.loads((directory.members[0] / "status.json").read_text())
    assert status["state"] == state and status["iteration"] == 2 and type(error).__name__ in status["reason"]
    assert read_status(directory.shared)["state"] == state
    assert f"{state}: {status['reason']}" in (directory.shared / "log.txt").read_text()


def test_a_status_that_cannot_be_written_does_not_hide_the_reason(tmp_path: Path) -> None:
    gone = RunDirectory(tmp_path / "gone", (tmp_path / "gone",), (0, 1))
    with pytest.raises(ValueError, match="the reason"), record_failures(begin(gone)):
        raise ValueError("the reason")


def test_rows_without_a_directory_stay_in_memory(engine: Engine) -> None:
    session = begin(None)
    carry = restore_or_start(session, engine)
    assert collect_rows(session) == {}
    carry = advance(session, engine, carry)
    advance(session, engine, carry)
    rows = collect_rows(session)
    np.testing.assert_array_equal(rows["iteration"], [[1, 2, 3, 4, 5, 6]] * 2)
    np.testing.assert_allclose(rows["seconds"][0, [2, 5]], [0.5, 1.0])
    np.testing.assert_array_equal(rows["total_episodes"], np.cumsum(rows["episodes"], axis=1))


def test_the_first_value_that_is_not_finite() -> None:
    rows = {"a": np.array([[1.0, np.inf, 1.0]]), "b": np.array([[1.0, 1.0, np.nan]]), "n": np.array([[1, 2, 3]])}
    chunk = Chunk(None, rows, [(0, "state.x")])
    assert find_nonfinite(chunk, ()) == (2, "a", 0, np.inf)
    found = find_nonfinite(chunk, ("a",))
    assert found is not None and found[:3] == (3, "b", 0)
    found = find_nonfinite(chunk, ("a", "b"))
    assert found is not None and found[:3] == (3, "state.x", 0)
    assert find_nonfinite(chunk, None) is None
    assert find_nonfinite(chunk._replace(nan_leaves=[]), ("a", "b")) is None


def test_totals_are_exact_beyond_32_bits(tmp_path: Path) -> None:
    """An iteration counts in int32; totals pass 2^31, 2^32 and 2^40 in rows, metrics.csv and the counters."""
    directory = new_run(tmp_path / "run")
    counters = Counters(0.0, 0.0, [2**31 - 2, 2**32 - 2], [2**40 - 1, 2**52])
    steps = np.full((2, 3), 2**31 - 1, np.int32)
    rows = complete_rows({"episodes": np.ones((2, 3), np.int32), "env_steps": steps}, 0, 3, 1.0, counters)
    ends = [2**40 - 1 + 3 * (2**31 - 1), 2**52 + 3 * (2**31 - 1)]
    assert counters.env_steps == ends and counters.episodes == [2**31 + 1, 2**32 + 1]
    assert rows["total_env_steps"].dtype == np.int64 and rows["total_env_steps"][:, -1].tolist() == ends
    writer = CsvWriter(directory)
    writer.write(rows)
    writer.close()
    read = [read_metrics(member) for member in directory.members]
    assert [int(one["total_env_steps"][-1]) for one in read] == ends
    assert [int(one["total_episodes"][-1]) for one in read] == counters.episodes
    assert json.loads(json.dumps(counters.env_steps)) == ends
    with pytest.raises(RunError, match="env_steps of one iteration: expected at most 2147483647"):
        complete_rows({"env_steps": np.full((2, 1), -5, np.int32)}, 0, 1, 1.0, counters)
