"""A run that was stopped, killed, damaged or extended ends exactly where an uninterrupted one ends."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import chex
import jax
import numpy as np
import pytest

import walk_solver
from gems_jax.runner import checkpoint
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, create_run, open_run, read_config, read_status
from gems_jax.runner.driver import RunResult
from gems_jax.runner.engine import Monitor
from gems_jax.runner.errors import ConfigMismatchError, DiskFullError, NonFiniteError, RunBusyError, RunError
from gems_jax.runner.files import lock_run, write_json
from gems_jax.runner.writers import CsvWriter, read_metrics
from walk_solver import CONFIG, MONITOR, make_walk, new_run, walk

CLOCKS = ("seconds", "memory_mb")


def assert_same(result: RunResult, reference: RunResult) -> None:
    """Equal to the bit: final state, monitor, and every column but time and memory."""
    chex.assert_trees_all_equal(
        jax.tree.map(_bits, (result.state, result.monitor)), jax.tree.map(_bits, (reference.state, reference.monitor))
    )
    assert list(result.rows) == list(reference.rows)
    for name in reference.rows:
        assert result.rows[name].shape == reference.rows[name].shape
        if name not in CLOCKS:
            np.testing.assert_array_equal(result.rows[name], reference.rows[name], err_msg=name)


def _bits(leaf):
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def log_of(run: RunDirectory) -> str:
    return (run.shared / "log.txt").read_text()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return walk(new_run(tmp_path_factory.mktemp("reference") / "run"))


def test_a_sampled_run_that_is_resumed_or_extended(tmp_path: Path) -> None:
    """Every fifth iteration is measured, and the last planned one, which keeps its measurement if the run goes on."""
    monitor = MONITOR._replace(
        sample=lambda state, iteration: {"score": jax.numpy.exp(state.log_sigma[0])},
        every=5,
        headlines=("score",),
        highest=True,
    )
    whole = walk(new_run(tmp_path / "whole"), monitor=monitor)
    run = new_run(tmp_path / "run")
    extended = walk(run, 7, monitor=monitor)
    assert ",".join(map(str, np.flatnonzero(~np.isnan(extended.rows["score"][0])) + 1)) == "1,5,7"
    shutil.copytree(run.shared, tmp_path / "early")
    shutil.rmtree(tmp_path / "early" / "checkpoints" / "00000007")
    # killed after iteration 6, planned to 12: as if it had never been meant to end at 7
    resumed = walk(open_run(tmp_path / "early"), monitor=monitor)
    assert resumed.resumed_from == 6
    assert_same(resumed, whole)
    chex.assert_trees_all_equal(*(jax.tree.map(_bits, result.best) for result in (resumed, whole)))
    longer = walk(run, monitor=monitor)
    assert np.isfinite(longer.rows["score"][:, 6]).all()
    longer.rows["score"][:, 6] = np.nan
    assert_same(longer, whole)


def test_files_of_a_finished_run(tmp_path: Path, reference: RunResult) -> None:
    run = new_run(tmp_path / "run")
    result = walk(run)
    assert_same(result, reference)
    assert result.resumed_from is None and result.iteration == 12 and result.exit_code == 0
    for index, member in enumerate(run.members):
        assert read_status(member)["state"] == "done" and read_status(member)["iteration"] == 12
        rows = read_metrics(member)
        np.testing.assert_array_equal(rows["iteration"], np.arange(1, 13))
        # the text of the file reads back as the very float32
        np.testing.assert_array_equal(rows["gap"].astype(np.float32), walk(None).rows["gap"][index])
    assert checkpoint.iterations(run.checkpoints)[-1] == 12
    assert "fresh start: 12 iterations, seeds 0, 1" in log_of(run) and "done: 12 iterations" in log_of(run)


@pytest.mark.parametrize("jittable", [True, False])
def test_a_slow_chunk_shows_progress_and_gives_the_same_run(
    tmp_path: Path, reference: RunResult, monkeypatch: pytest.MonkeyPatch, jittable: bool
) -> None:
    """Calls of one iteration each: progress after every one, checkpoints after every chunk, the same bits."""
    monkeypatch.setattr("gems_jax.runner.driver.PIECE_SECONDS", 0.0)
    shown: list[int] = []
    monkeypatch.setattr(Console, "update", lambda self, progress: shown.append(progress.iteration))
    run = new_run(tmp_path / "run")
    result = walk(run, solver=make_walk(jittable=jittable), chunk=5, keep=9)
    assert shown == list(range(1, 13)) and checkpoint.iterations(run.checkpoints) == [5, 10, 12]
    if jittable:
        assert_same(result, reference)
    np.testing.assert_allclose(result.rows["gap"], reference.rows["gap"], rtol=1e-6)


@pytest.mark.parametrize("jittable", [True, False])
def test_extended_run_equals_one_go(tmp_path: Path, jittable: bool) -> None:
    solver = make_walk(jittable=jittable)
    straight = walk(new_run(tmp_path / "a"), solver=solver)
    run = new_run(tmp_path / "b", iterations=5)
    first = walk(run, 5, solver)
    assert first.iteration == 5 and first.rows["gap"].shape == (2, 5)
    # from a seed's folder or from the shared one; the length and the chunks are free
    again = walk(open_run(run.members[1]), 12, solver, chunk=4)
    assert again.resumed_from == 5
    assert_same(again, straight)
    assert read_config(run.members[0])["iterations"] == 12
    assert "resumed from iteration 5 of 12" in log_of(run)
    assert again.rows["seconds"][0, -1] > first.rows["seconds"][0, -1]
    assert np.all(np.diff(again.rows["seconds"]) >= 0)


def test_a_finished_run_is_not_computed_again(tmp_path: Path, reference: RunResult) -> None:
    run = new_run(tmp_path / "run")
    walk(run)
    stamp = (run.members[0] / "metrics.csv").stat().st_size
    again = walk(run)
    assert_same(again, reference)
    assert again.resumed_from == 12 and (run.members[0] / "metrics.csv").stat().st_size == stamp
    with pytest.raises(RunError, match="already has 12 iterations, got a target of 6"):
        walk(run, 6)


def test_rows_after_the_checkpoint_are_cut_and_computed_again(tmp_path: Path, reference: RunResult) -> None:
    run = new_run(tmp_path / "run")
    walk(run, 6)
    for member, torn in zip(run.members, ["7,1,2,3,4,5,6,7,8,9,10,11\n8,0.1", "7,0."], strict=True):
        with open(member / "metrics.csv", "a") as file:
            file.write(torn)
    assert_same(walk(run), reference)


def test_rows_that_somebody_removed_are_not_made_up(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    walk(run, 6)
    path = run.members[0] / "metrics.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    with pytest.raises(
        RunError, match="ends at iteration 3, but the checkpoint is of iteration 6.*remove the checkpoints after 3"
    ):
        walk(run)
    assert read_status(run.shared)["state"] == "failed"


@pytest.mark.parametrize("jittable", [True, False])
def test_a_damaged_checkpoint_costs_time_and_nothing_else(tmp_path: Path, jittable: bool) -> None:
    solver = make_walk(jittable=jittable)
    straight = walk(new_run(tmp_path / "a"), solver=solver)
    run = new_run(tmp_path / "b")
    walk(run, 9, solver)
    state = run.checkpoints / "00000009" / "state"
    largest = max((path for path in state.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size - 1)
    result = walk(run, 12, solver)
    assert result.resumed_from == 6
    assert_same(result, straight)
    assert re.search(r"checkpoint of iteration 9 cannot be used: file .* is damaged", log_of(run))


def test_a_config_that_differs_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    walk(run, 3)
    for folder in run.folders:
        write_json(folder / "config.json", read_config(folder) | {"config": CONFIG | {"eta": 0.9}})
    with pytest.raises(ConfigMismatchError, match="config differs from checkpoint: field eta is 0.3 there, 0.9 here"):
        walk(run)
    assert checkpoint.iterations(run.checkpoints) == [3]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with lock_run(run.shared), pytest.raises(RunBusyError):
        walk(run)
    with pytest.raises(ValueError, match="seeds must be those of the run directory"):
        walk_solver.run(make_walk(), iterations=3, seeds=(5,), directory=run)


@pytest.mark.parametrize("jittable", [True, False])
def test_nan_stops_within_the_chunk_and_keeps_the_last_good_checkpoint(tmp_path: Path, jittable: bool) -> None:
    run = new_run(tmp_path / "run", seeds=(4, 9))
    with pytest.raises(NonFiniteError) as caught:
        walk(run, solver=make_walk(nan_at=8, jittable=jittable))
    # `moved` is NaN at once, the gap one iteration later: the first is named
    assert re.match(
        r"moved became nan at iteration 8, seed 4; the last good checkpoint is iteration 6", str(caught.value)
    )
    assert checkpoint.iterations(run.checkpoints)[-1] == 6
    status = read_status(run.members[0])
    assert status["state"] == "failed" and status["iteration"] == 6 and "moved became nan" in status["reason"]
    assert read_metrics(run.members[0])["iteration"][-1] == 8  # the bad row is there to be looked at
    mended = make_walk(jittable=jittable)
    result = walk(run, solver=mended)
    assert result.resumed_from == 6
    assert_same(result, walk(new_run(tmp_path / "straight", seeds=(4, 9)), solver=mended))


def test_nan_in_the_state_alone_is_seen_and_named() -> None:
    solver = make_walk()

    def step(state, key):
        after, metrics = solver.step(state, key)
        bad = np.float32(np.nan)
        return after.replace(previous=jax.numpy.where(after.step == 6, bad, after.previous * 0)), metrics

    with pytest.raises(NonFiniteError, match="state.previous became nan at iteration 6, seed 0"):
        walk(None, solver=solver._replace(step=step), monitor=Monitor(headlines=("gap",), allow_nonfinite=("gap",)))


def test_infinity_counts_unless_allowed() -> None:
    def infinite(monitor, before, metrics, after, iteration):
        return monitor, {"bound": jax.numpy.where(after.step == 2, jax.numpy.inf, 0.0)}

    with pytest.raises(NonFiniteError, match="bound became inf at iteration 2, seed 0"):
        walk(None, 3, monitor=MONITOR._replace(measure=infinite))
    assert walk(None, 3, monitor=MONITOR._replace(measure=infinite, allow_nonfinite=("bound",))).iteration == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_chunk_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    solver = make_walk(jittable=False)
    straight = walk(new_run(tmp_path / "a"), solver=solver)
    calls = []

    def step(state, key):
        calls.append(None)
        if len(calls) == 8:  # in the second chunk of two seeds x three iterations
            signal.raise_signal(number)
        return solver.step(state, key)

    run = new_run(tmp_path / "b")
    before = signal.getsignal(number)
    stopped = walk(run, solver=solver._replace(step=step))
    assert signal.getsignal(number) is before
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[number]
    assert (stopped.iteration, stopped.stopped_by, stopped.exit_code) == (6, name, 128 + number)
    assert read_status(run.shared)["state"] == "interrupted" and read_status(run.shared)["reason"] == name
    assert f"stopped by {name} at iteration 6 of 12; everything is saved. Continue with: gems resume" in log_of(run)
    assert_same(walk(run, solver=solver), straight)


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    solver = make_walk(jittable=False)

    def step(state, key):
        signal.raise_signal(signal.SIGINT)
        return solver.step(state, key)

    run = new_run(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        walk(run, solver=solver._replace(step=step))
    assert read_status(run.shared)["state"] == "interrupted"


def test_disk_full_while_writing_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: RunResult) -> None:
    run = new_run(tmp_path / "run")
    write, calls = CsvWriter.write, []

    def full(self, rows):
        calls.append(None)
        if len(calls) == 3:
            raise DiskFullError("disk full while writing metrics.csv")
        write(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(CsvWriter, "write", full)
        with pytest.raises(DiskFullError):
            walk(run)
    assert read_status(run.shared)["state"] == "failed" and "disk full" in read_status(run.shared)["reason"]
    assert_same(walk(run), reference)


def test_a_failing_solver_leaves_a_status(tmp_path: Path) -> None:
    def step(state, key):
        raise RuntimeError("the environment crashed")

    run = new_run(tmp_path / "run")
    with pytest.raises(RuntimeError, match="the environment crashed"):
        walk(run, solver=make_walk(jittable=False)._replace(step=step))
    assert read_status(run.shared)["reason"] == "RuntimeError: the environment crashed"


def test_a_state_that_grows(tmp_path: Path) -> None:
    """Populations that double outside jit: what was saved has other shapes than `init` gives."""
    solver = make_walk(jittable=False)

    def init(key):
        return {"walk": solver.init(key), "visited": np.zeros((0, 3))}

    def step(state, key):
        walk_state, metrics = solver.step(state["walk"], key)
        return {"walk": walk_state, "visited": np.vstack([state["visited"], metrics.sigma])}, metrics

    growing = solver._replace(init=init, step=step)
    options = {"solver": growing, "monitor": Monitor(headlines=("gap",))}
    straight = walk(new_run(tmp_path / "a"), **options)
    assert straight.state[0]["visited"].shape == (12, 3)
    run = new_run(tmp_path / "b")
    walk(run, 5, **options)
    assert_same(walk(run, **options), straight)


def test_checkpoints_keep_their_distance(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    walk(run, checkpoint_seconds=1e6, keep=9)
    assert checkpoint.iterations(run.checkpoints) == [12]  # the end is always saved


def kill_at_random(folder: Path, iterations: int, mode: str, chance: random.Random) -> bool:
    """Start training, SIGKILL it a moment after a new row appeared; False when it had finished before."""
    script = Path(walk_solver.__file__)
    rows = folder / "s0" / "metrics.csv"
    size = rows.stat().st_size if rows.exists() else 0
    process = subprocess.Popen([sys.executable, str(script), str(folder), str(iterations), mode])
    deadline = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < deadline:
        # a start cuts the file back first: any change of its size is a sign of life
        if rows.exists() and rows.stat().st_size != size:
            time.sleep(chance.uniform(0.0, 0.25))
            break
        time.sleep(0.005)
    process.kill()
    return process.wait() != 0


@pytest.mark.parametrize(("mode", "kills"), [("jit", 2), ("python", 1)])
def test_killed_at_random_moments(tmp_path: Path, mode: str, kills: int) -> None:
    _kill_and_compare(tmp_path, mode, kills, iterations=40, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "kills"), [("jit", 12), ("python", 8)])
def test_killed_many_times(tmp_path: Path, mode: str, kills: int) -> None:
    _kill_and_compare(tmp_path, mode, kills, iterations=200, seed=1)


def _kill_and_compare(tmp_path: Path, mode: str, kills: int, iterations: int, seed: int) -> None:
    solver = make_walk(jittable=mode == "jit")
    run = new_run(tmp_path / "killed", iterations=iterations)
    chance = random.Random(seed)
    killed = sum(kill_at_random(run.shared, iterations, mode, chance) for _ in range(kills))
    assert killed == kills, "the run ended before it could be killed: nothing was tested"
    assert read_status(run.shared)["state"] == "interrupted"
    result = walk(run, iterations, solver, chunk=2)
    assert_same(result, walk(new_run(tmp_path / "straight", iterations=iterations), iterations, solver, chunk=2))
    assert not list(run.checkpoints.glob("tmp-*"))


def test_a_single_seed_is_its_own_folder(tmp_path: Path) -> None:
    run = create_run(game="walk", method="omwu", config={}, seeds=(3,), iterations=3, root=tmp_path)
    walk(run, 3)
    names = {path.name for path in run.shared.iterdir()}
    assert names >= {"config.json", "metrics.csv", "status.json", "log.txt", "checkpoints", "figures", "replays"}
    assert json.loads((run.shared / "status.json").read_text())["state"] == "done"
