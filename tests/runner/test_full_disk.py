"""A disk that fills up under a real run: one clear line, the right exit code, and nothing lost."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import chex
import numpy as np
import pytest

from cli import Outcome, assert_one_line, bits, gems
from gems_jax.runner.directory import open_run, read_status
from gems_jax.runner.load import load
from gems_jax.runner.writers import read_metrics

CLOCKS = {"seconds", "memory_mb"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs needs privileges")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """A file that leaves `leave` bytes free."""
    filler = disk / "filler"
    with open(filler, "wb") as file:
        file.write(b"\0" * (shutil.disk_usage(disk).free - leave))
    assert abs(shutil.disk_usage(disk).free - leave) <= 2 * os.sysconf("SC_PAGE_SIZE")
    return filler


@pytest.mark.slow
def test_a_run_survives_a_full_disk(trained: tuple[Path, Outcome], small_disk: Path) -> None:
    """Cut back to its first iteration, taken up on a disk with room for half a checkpoint, then with room for all."""
    folder, _ = trained
    run = small_disk / "run"
    shutil.copytree(folder, run)
    before, page = load(folder), os.sysconf("SC_PAGE_SIZE")
    shutil.rmtree(run / "checkpoints" / "00000002")
    sizes = [path.stat().st_size for path in (run / "checkpoints" / "00000001").rglob("*") if path.is_file()]
    filler = fill(small_disk, sum(-(-size // page) * page for size in sizes) // 2)

    failed = gems("resume", run, "--no-figures")
    assert_one_line(failed, 1, "disk full while writing", "MB free", "the last good checkpoint is iteration 1")
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["00000001"]

    filler.unlink()
    done = gems("resume", run, "--no-figures")
    assert done.code == 0 and "resumed from iteration 1 of 2" in done.out, done
    for here, there in zip(open_run(run).members, open_run(folder).members, strict=True):
        now, then = read_metrics(here), read_metrics(there)
        assert list(now) == list(then) and read_status(here)["state"] == "done"
        for column in now.keys() - CLOCKS:
            np.testing.assert_array_equal(now[column], then[column], err_msg=column)
    chex.assert_trees_all_equal(bits(load(run).profile), bits(before.profile))
