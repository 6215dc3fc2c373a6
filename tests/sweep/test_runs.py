"""Whole sweeps in processes of their own: killed, on submitit's local executor, on a one-node Ray cluster."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cli import SCRIPT, gems
from gems_jax.runner.directory import read_status
from gems_jax.runner.writers import read_metrics

CELLS = """
name = "walks"
game = "kuhn_poker"
method = "cfr"
seeds = {seeds}
[grid]
walks = {walks}
iterations = {iterations}
[run]
executor = "{executor}"
workers = 2
chunk = 1
checkpoint_seconds = 0.0
"""


def written(folder: Path, executor: str, seeds: int = 2, walks=(1, 2), iterations=(2, 3)) -> Path:
    file = folder / "sweep.toml"
    text = CELLS.format(executor=executor, seeds=seeds, walks=list(walks), iterations=list(iterations))
    file.write_text(text)
    return file


def assert_whole(folder: Path, cells: int, seeds: int) -> None:
    """Every cell there once, every run at its end, its rows as they should be, and nothing left over."""
    assert sorted(path.name for path in (folder / "points").iterdir()) == [f"{n:04d}" for n in range(cells)]
    for point in (folder / "points").iterdir():
        iterations = json.loads((point / "config.json").read_text())["iterations"]
        for seed in range(seeds):
            rows = read_metrics(point / f"s{seed}")
            np.testing.assert_array_equal(rows["iteration"], np.arange(1, iterations + 1))
            assert read_status(point / f"s{seed}")["state"] == "done"
    assert not list(folder.glob("cells/*/work")) and not list(folder.glob("cells/*/point-*"))
    summary = json.loads((folder / "summary.json").read_text())
    assert len(summary["points"]) == cells and summary["failed"] == {}


@pytest.mark.slow
def test_a_sweep_that_is_killed_twice_ends_whole(tmp_path: Path) -> None:
    """24 cells x 5 seeds; once the sweep alone is killed, once with all its processes."""
    file, folder = written(tmp_path, "local", 5, range(1, 7), (10, 20, 30, 40)), tmp_path / "run"
    line, chance = [str(SCRIPT), "sweep", str(file), "--run-dir", str(folder)], random.Random(time.time_ns())
    counts = []
    for everything in (False, True):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, start_new_session=True)
        before, wanted = len(list(folder.glob("points/*"))), chance.randint(1, 8)
        while len(list(folder.glob("points/*"))) < before + wanted:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        time.sleep(chance.uniform(0.0, 1.0))
        (os.killpg if everything else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        counts.append(len(list(folder.glob("points/*"))))
    assert 0 < counts[0] <= counts[1] < 24
    said = gems("sweep", folder)
    assert said.code == 0 and "already done" in said.out, said
    assert_whole(folder, 24, 5)


@pytest.mark.slow
def test_ctrl_c_saves_and_the_sweep_goes_on(tmp_path: Path) -> None:
    file, folder = written(tmp_path, "local", 2, (1,), (200_000, 2)), tmp_path / "run"
    line = [str(SCRIPT), "sweep", str(file), "--run-dir", str(folder)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not list((folder / "cells" / "000" / "work" / "checkpoints").glob("0*")):
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 130 and f"Continue with: gems sweep {folder}" in out, out
    assert json.loads((folder / "cells/000/status.json").read_text())["state"] == "stopped"


@pytest.mark.slow
def test_submitit_s_local_executor(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    folder = tmp_path / "run"
    said = gems("sweep", written(tmp_path, "submitit-local"), "--run-dir", folder)
    assert said.code == 0, said
    assert_whole(folder, 4, 2)
    assert list((folder / "cells" / "submitit").glob("*_submitted.pkl"))  # it went through submitit


@pytest.mark.slow
def test_a_ray_cluster_of_one_node(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    folder = tmp_path / "run"
    said = gems("sweep", written(tmp_path, "ray"), "--run-dir", folder, env={**os.environ, "PYTHONPATH": sys.path[0]})
    assert said.code == 0, said
    assert_whole(folder, 4, 2)
    assert list((folder / "cells" / "ray").glob("trial_*"))
