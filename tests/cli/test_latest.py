"""The newest unfinished run: `gems resume --latest` and `gems train --resume-latest`."""

import json
from pathlib import Path

import pytest

from cli import assert_one_line, call
from gems_jax.cli.latest import find_unfinished
from gems_jax.config import GemsConfig
from gems_jax.runner.directory import RunDirectory, create_run, read_config, write_status
from gems_jax.runner.files import lock_run

LINE = ("train", "biased_rps", "--method", "psro", "--no-figures", "--resume-latest")


def stored(path: Path, state: str, created: str, game: str = "nim", method: str = "gems", seeds=(0,)) -> RunDirectory:
    run = create_run(game=game, method=method, config=GemsConfig(), seeds=seeds, iterations=5, path=path)
    for folder in run.folders:
        record = {**read_config(folder), "created": f"2026-01-{created}T00:00:00+00:00"}
        (folder / "config.json").write_text(json.dumps(record))
    write_status(run, state, iteration=5 if state == "done" else 2, iterations=5)
    return run


def test_the_newest_run_that_is_not_done(tmp_path: Path) -> None:
    assert find_unfinished(tmp_path) is None
    old = stored(tmp_path / "nim" / "gems" / "b", "interrupted", "01")
    new = stored(tmp_path / "nim" / "gems" / "a", "failed", "02", seeds=(0, 1))
    done = stored(tmp_path / "nim" / "gems" / "c", "done", "03")
    other = stored(tmp_path / "x", "running", "01", game="chess", method="psro")  # its process was killed
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text("{")
    assert find_unfinished(tmp_path) == new.shared
    assert find_unfinished(tmp_path, iterations=6) == done.shared
    assert find_unfinished(tmp_path, iterations=5) == new.shared
    assert find_unfinished(tmp_path, "chess") == other.shared == find_unfinished(tmp_path, method="psro")
    assert find_unfinished(tmp_path, "chess", "gems") is None
    with lock_run(new.shared):  # somebody writes it
        write_status(new, "running", iteration=2, iterations=5)
        assert find_unfinished(tmp_path, "nim") == old.shared


def test_what_resume_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(call("resume"), 2, "gems resume --latest")
    assert_one_line(call("resume", "--latest", "somewhere"), 2, "either RUN or --latest")
    assert_one_line(call("resume", "somewhere", "--game", "nim"), 2, "--game and --method")
    assert_one_line(call("resume", "--latest", "--game", "nim"), 2, "no unfinished run of nim below", "runs")


def test_an_interrupted_run_continues_to_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = [*LINE, "--iterations", 2, "--checkpoint-seconds", 0]
    first = call(*line)
    assert first.code == 0 and "fresh start" in first.out, first
    (run,) = Path("runs/biased_rps/psro").iterdir()
    finished = (run / "metrics.csv").read_text().splitlines()
    assert len(finished) == 3
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "state": "interrupted"}))
    longer = [*LINE, "--iterations", 3, "--checkpoint-seconds", 0]
    other = call(*longer, "--meta-solver", "uniform")
    assert_one_line(other, 2, "with meta_solver = ", "'uniform'", "leave --resume-latest out")
    assert_one_line(call(*longer, "--seeds", 2), 2, "with seeds = [0]")
    second = call(*longer)
    assert second.code == 0 and "resumed from iteration 2 of 3" in second.out, second
    assert f"the newest unfinished run: {run}" in second.out
    assert [each.name for each in run.parent.iterdir()] == [run.name]  # no new folder
    assert (run / "metrics.csv").read_text().splitlines()[:3] == finished
    third = call("resume", "--latest", "--iterations", 4, "--no-figures")
    assert third.code == 0 and "resumed from iteration 3 of 4" in third.out, third
    assert len((run / "metrics.csv").read_text().splitlines()) == 5
    named = call(*LINE, "--iterations", 5, "--run-dir", run)
    assert named.code == 0 and "resumed from iteration 4 of 5" in named.out, named
    assert_one_line(call(*LINE, "--iterations", 5, "--run-dir", run), 2, "never overwritten")
