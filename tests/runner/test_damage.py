"""Damaged and hostile run folders: each is refused in one line by `gems eval` and `gems resume`, or read around."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.trust import damage
from cli import SMALL, assert_one_line, call, copy_checkpoint, untrained_run
from gems_jax.runner import checkpoint
from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, open_run, read_config, read_status
from gems_jax.runner.engine import Monitor
from gems_jax.runner.errors import CheckpointError, RunError
from gems_jax.runner.integrity import links, schema
from gems_jax.runner.integrity.records import EXTRA
from gems_jax.runner.load import load
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import rebuild
from gems_jax.runner.session import Counters, Session, check_totals, cut_rows
from gems_jax.runner.writers import read_metrics


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_run(tmp_path_factory.mktemp("whole") / "run", "biased_rps", SMALL, rows=True, a=2.0).shared


def spoil(run: Path, folder: Path, kind: str) -> Path:
    copy = folder / "run"
    shutil.copytree(run, copy)
    {**damage.KINDS, **damage.LINKS}[kind](copy)
    return copy


def test_the_whole_run_is_fine(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    read_whole(tmp_path / "run")
    outcome = call("resume", tmp_path / "run", "--quiet")
    assert (outcome.code, outcome.err) == (0, ""), outcome


def read_whole(run: Path) -> None:
    """Reads all files of a run by the functions that `gems resume` calls, without making its state."""
    directory = open_run(run)
    record = read_config(run)
    RunOptions.from_record(record.get("options") or {})
    if record["method"] != "gems":
        rebuild(record)
    manifest = checkpoint.verify_checkpoint(damage.newest(run))
    schema.check_record(manifest["extra"], EXTRA, run)
    checkpoint._load(damage.newest(run), manifest, {}, True)
    found = checkpoint.Checkpoint(1, {}, manifest["extra"])
    session = Session(1, (0,), RunOptions(), Monitor(), directory, Console(quiet=True), Counters(0.0, 0.0, [0], [0]))
    check_totals(session, found)
    cut_rows(directory.members[0] / "metrics.csv", 1, directory.checkpoints, found.extra["rows"][0])


@pytest.mark.parametrize(
    "file", ["config.json", "manifest.json", "metrics.csv", "state", "checkpoints", "link", "pipe"]
)
def test_every_kind_of_damage_is_one_line(run: Path, tmp_path: Path, file: str) -> None:
    kinds = [kind for kind in (*damage.KINDS, *damage.LINKS) if kind.startswith(f"{file}:")]
    kinds = [kind for kind in kinds if "['state']" not in kind]  # noticed when the state is made
    assert kinds
    for number, kind in enumerate(kinds):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(RunError) as error:
            read_whole(spoil(run, tmp_path / str(number), kind))
            pytest.fail(kind)
        assert str(error.value).isprintable() and len(str(error.value)) < 600, kind


@pytest.mark.parametrize("kind", [kind for kind in damage.KINDS if kind.startswith("status.json")])
def test_a_damaged_status(run: Path, tmp_path: Path, kind: str) -> None:
    with pytest.raises(RunError, match="status.json"):
        read_status(spoil(run, tmp_path, kind))


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("config.json: iterations = -1", ["iterations: expected an integer from 1 to 2147483647, got -1"]),
        (
            "config.json: iterations = 2147483648",
            ["iterations: expected an integer from 1 to 2147483647, got 2147483648"],
        ),
        ("config.json: seeds = [0, 0]", ["seeds: expected different items, got [0, 0]"]),
        ("config.json: chunk = 0", ["options.chunk: expected an integer from 1", "got 0"]),
        ("manifest.json: identity = missing", ["no intact checkpoint"]),
        (
            "metrics.csv: changed cell",
            ["metrics.csv differs from the rows of the checkpoint of iteration 1", "gems doctor"],
        ),
        ("metrics.csv: text cell", ["metrics.csv differs from the rows"]),
        ("metrics.csv: binary cell", ["metrics.csv: expected UTF-8 text"]),
        ("link: checkpoints", ["is a link that leaves the folder"]),
        ("link: .lock", ["is a link that leaves the folder"]),
        ("pipe: config.json", ["expected a regular file"]),
    ],
)
def test_what_the_line_says(run: Path, tmp_path: Path, kind: str, parts: list[str]) -> None:
    outcome = call("resume", spoil(run, tmp_path, kind), "--quiet")
    assert all(part in outcome.err for part in parts), outcome
    assert not (tmp_path / "run-target").exists()  # nothing is written through a link


@pytest.mark.parametrize("kind", ["metrics.csv: text cell", "metrics.csv: binary cell"])
def test_a_text_cell_is_one_line_for_readers_too(run: Path, tmp_path: Path, kind: str) -> None:
    with pytest.raises(RunError, match="metrics.csv.*(could not convert|expected UTF-8 text)"):
        read_metrics(spoil(run, tmp_path, kind))


@pytest.mark.parametrize(
    ("what", "part"),
    [
        ("leaf names swapped", "the checksum differs"),
        ("leaves/0/kind = 'pickle'", "leaves[0].kind: expected jax, numpy"),
        ("files = missing", "files: expected a value, got none"),
        ("total changed", "the checksum differs"),
    ],
)
def test_a_damaged_manifest_gives_way_to_the_checkpoint_before(run: Path, tmp_path: Path, what: str, part: str) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    copy_checkpoint(copy / "checkpoints", 1, 2)
    damage.KINDS[f"manifest.json: {what}"](copy)
    said: list[str] = []
    assert load(copy, say=said.append).iteration == 1
    assert len(said) == 1 and said[0].startswith("checkpoint of iteration 2 cannot be used: ")
    assert part in said[0]


def test_runs_of_the_format_without_checksums_are_read(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    path = damage.newest(copy) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["checksum"], manifest["extra"]["rows"]
    path.write_text(json.dumps({**manifest, "format": 2}))
    assert load(copy).iteration == 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        load(copy)


def test_a_link_to_the_run_and_links_inside_it_are_fine(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (tmp_path / "latest").symlink_to(copy)
    (copy / "newest.csv").symlink_to("metrics.csv")
    assert load(tmp_path / "latest").iteration == 1
    assert not list(links.find_strays(tmp_path / "latest"))


def test_a_batch_whose_member_is_a_link_to_elsewhere(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    copy = tmp_path / "deep" / "run"
    shutil.copytree(kuhn_run.shared, copy)
    shutil.move(copy / "s4", tmp_path / "elsewhere")
    (copy / "s4").symlink_to(tmp_path / "elsewhere")
    assert_one_line(call("resume", copy), 1, "run")


def test_a_schema_names_the_first_field_that_does_not_fit() -> None:
    kind = schema.fields(
        one=schema.integer(1, 3),
        optional={"many": schema.list_of(schema.number(0), least=1), "by_name": schema.mapping_of(schema.TEXT)},
    )
    for record, said in (
        ({"one": 2, "many": [0.5, "inf"], "by_name": {"a": "b"}, "other": object}, None),
        ({}, "one: expected a value, got none"),
        ([], "the record: expected a record, got []"),
        ({"one": True}, "one: expected an integer from 1 to 3, got true"),
        ({"one": 1, "many": [1, -0.5]}, "many[1]: expected a number of at least 0, got -0.5"),
        ({"one": 1, "many": []}, "many: expected a list of at least 1, got []"),
        ({"one": 1, "by_name": {"a\x1b": 3}}, "by_name.a?: expected text, got 3"),
    ):
        fault = kind(record, "")
        assert (fault and str(fault)) == said
