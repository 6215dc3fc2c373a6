"""The run directory: one folder per seed, never overwritten, opened from any of its folders."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.runner import directory as directories
from gems_jax.runner.directory import create_run, open_run, read_config, read_status, write_status
from gems_jax.runner.errors import DiskFullError, RunBusyError, RunError, RunExistsError, report_write_errors
from gems_jax.runner.files import differing_field, is_locked, lock_run, replace_text, resolve, write_json


def make(root: Path, seeds=(0,), **options):
    settings = {"game": "pgx:hex", "method": "gems", "config": {"eta": 0.1}, "iterations": 5, "root": root}
    return create_run(seeds=seeds, **(settings | options))


def test_one_seed(tmp_path: Path) -> None:
    run = make(tmp_path, seeds=(7,))
    assert run.members == (run.shared,) and run.folders == (run.shared,)
    assert run.shared.parent == tmp_path / "pgx_hex" / "gems"
    assert run.shared.name.endswith("-s7") and run.checkpoints == run.shared / "checkpoints"
    assert sorted(path.name for path in run.shared.iterdir()) == ["config.json", "figures", "replays", "status.json"]
    record = read_config(run.shared)
    assert (record["schema"], record["game"], record["method"], record["seed"]) == (1, "pgx:hex", "gems", 7)
    assert record["config"] == {"eta": 0.1} and record["iterations"] == 5
    assert record["versions"]["jax"] and record["device"]["count"] >= 1 and "commit" in record


def test_a_batch_has_one_folder_per_seed_beside_the_shared_one(tmp_path: Path) -> None:
    run = make(tmp_path, seeds=range(3))
    stamp = run.shared.name.removesuffix("-shared")
    assert [member.name for member in run.members] == [f"{stamp}-s{seed}" for seed in range(3)]
    assert {member.parent for member in run.members} == {run.shared.parent}
    assert [read_config(member)["seed"] for member in run.members] == [0, 1, 2]
    for folder in run.folders:
        assert open_run(folder) == run
        assert (folder / "status.json").exists()


def test_a_batch_can_be_moved_as_a_whole_only(tmp_path: Path) -> None:
    run = make(tmp_path / "here", seeds=(3, 4))
    shutil.move(tmp_path / "here", tmp_path / "there")
    moved = open_run(tmp_path / "there" / run.members[1].relative_to(tmp_path / "here"))
    assert moved.seeds == (3, 4) and moved.shared.is_dir() and moved.shared.is_relative_to(tmp_path / "there")
    shutil.rmtree(moved.members[0])
    with pytest.raises(RunError, match="which is missing. Move all folders together"):
        open_run(moved.shared)


def test_open_from_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path, seeds=(0, 1))
    monkeypatch.chdir(run.members[0])
    assert open_run(".").shared.resolve() == run.shared.resolve()
    assert open_run("config.json").seeds == (0, 1)


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    runs = [make(tmp_path, seeds) for seeds in ((0,), (0,), (0, 1), (0, 1), (1,))]
    folders = [folder for run in runs for folder in run.folders]
    assert len(set(folders)) == len(folders) == 1 + 1 + 3 + 3 + 1


def test_never_written_over(tmp_path: Path) -> None:
    run = make(tmp_path, path=tmp_path / "mine")
    before = (run.shared / "config.json").read_bytes()
    with pytest.raises(RunExistsError, match="never overwritten.*gems resume"):
        make(tmp_path, path=tmp_path / "mine", config={"eta": 0.2})
    assert (run.shared / "config.json").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(RunExistsError):
        make(tmp_path, path=tmp_path / "other")
    assert make(tmp_path, path=tmp_path / "batch", seeds=(0, 5)).members[1] == tmp_path / "batch" / "s5"


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_bad_seeds(tmp_path: Path, seeds) -> None:
    with pytest.raises(ValueError, match="distinct integers"):
        make(tmp_path, seeds)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write .*file.*"):
        make(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a run directory: it has no config.json"),
        ("{", "cannot read"),
        ("[]", "was not written by gems_jax"),
        ('{"schema": 99}', "has schema 99, this version reads schema 1"),
        ('{"schema": 1, "game": "x"}', "lacks config, iterations"),
    ],
)
def test_foreign_folders(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match=message):
        open_run(tmp_path)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        open_run(tmp_path / "nowhere")


def test_status(tmp_path: Path) -> None:
    run = make(tmp_path, seeds=(0, 1))
    with lock_run(run.shared):
        assert read_status(run.members[1])["state"] == "running"
    # the process that said "running" is gone: nobody holds the lock
    assert read_status(run.members[1])["state"] == "interrupted"
    write_status(run, "failed", iteration=3, iterations=5, reason="gap became nan")
    for folder in run.folders:
        status = read_status(folder)
        assert (status["state"], status["iteration"], status["reason"]) == ("failed", 3, "gap became nan")
    with pytest.raises(ValueError, match="unknown state 'finished'; known: starting, running, done"):
        write_status(run, "finished", iteration=5, iterations=5)


def test_lock_is_held_by_one_process_and_freed_by_its_death(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from gems_jax.runner.files import lock_run\n"
        "with lock_run(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        assert is_locked(tmp_path)
        with pytest.raises(RunBusyError, match=f"is being written by process {process.pid}"), lock_run(tmp_path):
            pass
    finally:
        process.kill()
        process.wait()
    assert not is_locked(tmp_path)
    with lock_run(tmp_path):
        assert is_locked(tmp_path)


def test_json_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "status.json"
    write_json(path, {"a": 1})

    def fail(*_) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(DiskFullError, match="disk full while writing .*status.json .*MB free"):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1} and os.listdir(tmp_path) == ["status.json"]
    with pytest.raises(ValueError):  # strict JSON: a NaN must be made a string by `resolve` first
        write_json(path, {"a": math.nan})


def test_replace_text_keeps_line_ends(tmp_path: Path) -> None:
    replace_text(tmp_path / "x", "a\nb\r\n")
    assert (tmp_path / "x").read_bytes() == b"a\nb\r\n"


def test_writing_passes_other_errors_on() -> None:
    with pytest.raises(KeyError), report_write_errors(Path("x")):
        raise KeyError("y")
    with pytest.raises(ValueError, match="shape"), report_write_errors(Path("x")):
        raise ValueError("shape")


@dataclasses.dataclass(frozen=True)
class Inner:
    widths: tuple[int, ...] = (4, 5)
    cap: float = math.inf


class Pair(NamedTuple):
    a: int
    b: Inner


def test_resolve() -> None:
    value = {"pair": Pair(1, Inner()), "array": jnp.arange(3), "x": np.float32(0.5), "path": Path("a/b"), "none": None}
    resolved = resolve(value)
    assert resolved == {
        "pair": {"a": 1, "b": {"widths": [4, 5], "cap": "inf"}},
        "array": [0, 1, 2],
        "x": 0.5,
        "path": "a/b",
        "none": None,
    }
    assert json.loads(json.dumps(resolved, allow_nan=False)) == resolved
    assert resolve(make) == f"{make.__module__}.make"
    with pytest.raises(TypeError, match="cannot write object to config.json"):
        resolve({"x": object()})


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1}, "c": 2}, None),
        ({"a": {"b": 1}}, {"a": {"b": 3}}, ("a.b", 1, 3)),
        ({"a": 1}, {"a": 1, "new": True}, ("new", None, True)),
        ({"a": 1, "old": 2}, {"a": 1}, ("old", 2, None)),
    ],
)
def test_differing_field(there, here, expected) -> None:
    assert differing_field(there, here) == expected


def test_log_goes_to_every_folder(tmp_path: Path) -> None:
    run = make(tmp_path, seeds=(0, 1))
    directories.log(run, "first\nsecond")
    for folder in run.folders:
        lines = (folder / "log.txt").read_text().splitlines()
        assert [line.split(" ", 1)[1] for line in lines] == ["first", "second"]
