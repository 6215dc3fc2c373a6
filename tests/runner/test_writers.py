"""metrics.csv is exact and survives being cut; the optional writers mirror it, and say how to be installed."""

import contextlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from gems_jax.runner.directory import RunDirectory, create_run
from gems_jax.runner.errors import MissingExtraError, RunError
from gems_jax.runner.integrity.schema import LARGEST_FILE, LARGEST_TABLE, read_text
from gems_jax.runner.writers import CsvWriter, format_numbers, make_writer, read_metrics, truncate_csv


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return create_run(game="walk", method="omwu", config={}, seeds=(0, 1), iterations=4, path=tmp_path / "run")


def rows(first: int, last: int) -> dict[str, np.ndarray]:
    iteration = np.tile(np.arange(first, last + 1), (2, 1))
    return {
        "iteration": iteration,
        "gap": (iteration / np.float32(3) * np.array([[1], [-1e-9]])).astype(np.float32),
        "solved": iteration > 2,
        "total_env_steps": iteration.astype(np.int64) * 10**12,
    }


def write(run: RunDirectory, *chunks: tuple[int, int]) -> None:
    writer = CsvWriter(run)
    for first, last in chunks:
        writer.write(rows(first, last))
    writer.flush()
    writer.close()


def test_csv_by_hand(run: RunDirectory) -> None:
    write(run, (1, 2), (3, 3))
    assert (run.members[0] / "metrics.csv").read_text() == (
        "iteration,gap,solved,total_env_steps\n"
        "1,0.33333334,0,1000000000000\n"
        "2,0.6666667,0,2000000000000\n"
        "3,1.0,1,3000000000000\n"
    )


def test_cells_that_were_not_measured_are_empty(run: RunDirectory) -> None:
    """A number that is not finite is written as it is: only masked cells are empty."""
    writer = CsvWriter(run)
    score = np.ma.array([[0.5, 0.25, np.nan], [1.0, 2.0, np.inf]], mask=[[False, True, False]] * 2)
    writer.write({"iteration": np.tile(np.arange(1, 4), (2, 1)), "score": score})
    writer.close()
    assert (run.members[0] / "metrics.csv").read_text() == "iteration,score\n1,0.5\n2,\n3,nan\n"
    np.testing.assert_array_equal(read_metrics(run.members[1])["score"], [1.0, np.nan, np.inf])
    np.testing.assert_array_equal(read_metrics(run.members[1], empty=0.0)["score"], [1.0, 0.0, np.inf])
    assert truncate_csv(run.members[0] / "metrics.csv", 2) == 2


def test_csv_reads_back_exactly(run: RunDirectory) -> None:
    write(run, (1, 4))
    for seed, member in enumerate(run.members):
        found = read_metrics(member)
        np.testing.assert_array_equal(found["gap"].astype(np.float32), rows(1, 4)["gap"][seed])
        np.testing.assert_array_equal(found["total_env_steps"], rows(1, 4)["total_env_steps"][seed])


def test_csv_is_flushed_as_it_goes(run: RunDirectory) -> None:
    writer = CsvWriter(run)
    writer.write(rows(1, 2))
    assert read_metrics(run.members[1])["iteration"].tolist() == [1, 2]
    writer.close()


def test_csv_goes_on_under_the_same_header_only(run: RunDirectory) -> None:
    write(run, (1, 2))
    write(run, (3, 4))
    with contextlib.closing(CsvWriter(run)) as writer:
        writer.write(dict(reversed(rows(5, 5).items())))  # the same columns in another order
    for name, values in rows(5, 5).items():
        assert np.asarray(read_metrics(run.members[1])[name][-1], values.dtype) == values[1, 0]
    assert read_metrics(run.members[0])["iteration"].tolist() == [1, 2, 3, 4, 5]
    writer = CsvWriter(run)
    with pytest.raises(RunError, match="expected iteration,other.*got iteration,gap,solved,"):
        writer.write({"iteration": rows(5, 5)["iteration"], "other": rows(5, 5)["gap"]})
    writer.close()


@pytest.mark.parametrize("number", ["0.1", "1e-45", "3.4028235e+38", "nan", "-inf", "16777217", "0.33333334"])
def test_text_reads_back_as_the_same_number(number: str) -> None:
    value = np.float32(number)
    np.testing.assert_array_equal(np.float32(float(format_numbers(np.asarray([value]))[0])), value)


HEADER = "iteration,gap\n"


@pytest.mark.parametrize(
    ("text", "iteration", "kept"),
    [
        (HEADER + "1,0.5\n2,0.4\n3,0.3\n", 2, "1,0.5\n2,0.4\n"),  # rows after the checkpoint
        (HEADER + "1,0.5\n2,0.4\n", 2, "1,0.5\n2,0.4\n"),  # nothing to do
        (HEADER + "1,0.5\n2,0", 2, "1,0.5\n"),  # torn in a number: 0 would look like a value
        (HEADER + "1,0.5\n2", 5, "1,0.5\n"),  # torn in a row
        (HEADER + "1,0.5\n3,0.4\n", 5, "1,0.5\n"),  # a row is missing
        (HEADER + "1,0.5\n2,0.4,7\n3,0.3\n", 5, "1,0.5\n"),  # not a row of this file
        (HEADER + "1,0.5\n", 0, ""),
    ],
)
def test_truncate(tmp_path: Path, text: str, iteration: int, kept: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    assert truncate_csv(path, iteration) == kept.count("\n")
    assert path.read_text() == HEADER + kept


def test_truncate_a_torn_header_or_no_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    assert truncate_csv(path, 3) == 0 and not path.exists()
    path.write_text("iterat")
    assert truncate_csv(path, 3) == 0 and path.read_text() == ""


def test_no_metrics_yet(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no metrics.csv yet"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_extra_names_the_install_line(
    run: RunDirectory, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'needs {module}: pip install "gems_jax\[{name}\]"$'):
        make_writer(name, run)


def test_unknown_writer(run: RunDirectory) -> None:
    with pytest.raises(ValueError, match="unknown writer 'mlflow'; known: tensorboard, wandb"):
        make_writer("mlflow", run)


def test_tensorboard_gets_every_number(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple] = []

    class SummaryWriter:
        def __init__(self, logdir: str, purge_step: int) -> None:
            self.name = Path(logdir).parent.name
            assert purge_step == 3  # a resumed run replaces what came after its checkpoint

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((self.name, name, value, step))

        def flush(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    writer = make_writer("tensorboard", run, 2)
    writer.write(rows(3, 4))
    writer.close()
    assert ("s1", "total_env_steps", 4e12, 4) in written and ("s0", "gap", 1.0, 3) in written
    assert len(written) == 2 * 2 * 3


def test_wandb_gets_one_run_per_seed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    started, logged = [], []

    def init(**options):
        started.append(options)
        return types.SimpleNamespace(log=lambda row, step: logged.append((row, step)), finish=lambda: None)

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    writer = make_writer("wandb", run)
    writer.write(rows(1, 2))
    writer.close()
    assert [options["name"] for options in started] == ["s0", "s1"]
    assert len({options["id"] for options in started}) == 2 and {options["resume"] for options in started} == {"allow"}
    assert [step for _, step in logged] == [1, 2, 1, 2] and logged[1][0]["solved"] == 0.0


def test_a_table_of_a_very_long_run_is_read_and_other_large_files_are_not(tmp_path: Path) -> None:
    """A million iterations of Kuhn poker write 400 MB; nothing else of a run is that large."""
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)  # sparse: it takes no room
    with pytest.raises(RunError, match="expected at most 268435456 bytes"):
        read_text(path)
    assert len(read_text(path, largest=LARGEST_TABLE)) == LARGEST_FILE + 1
