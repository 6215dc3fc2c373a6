"""Checkpoints last: a run that an earlier commit stored is read, and what does not fit it is one clear line."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trust import damage
from cli import assert_one_line, call
from gems_jax.runner.load import load

STORED = [Path(__file__).parents[1] / "data" / f"run_format_{number}" for number in (3, 4)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED[-1], tmp_path / "run"))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
def test_the_stored_run_is_small_and_reads(stored: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(stored, tmp_path / "run"))
    assert sum(path.stat().st_size for path in stored.rglob("*") if path.is_file()) < 60_000
    policy = load(run)
    assert (policy.game.name, policy.method, policy.seed, policy.iteration) == ("matching_pennies", "gems", 0, 2)
    np.testing.assert_allclose(policy.profile.sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert policy.last_row["total_env_steps"] == 10640.0
    outcome = call("doctor", run)
    assert outcome.code == 0 and "all intact: gems resume" in outcome.out and "leaves load, rows agree" in outcome.out


MANIFEST, CONFIG = damage.change_manifest, partial(damage.change_json, name="config.json")


@pytest.mark.parametrize(
    ("change", "code", "part"),
    [
        (partial(MANIFEST, dotted="format", value=5), 2, "has format 5, this version of gems_jax reads format 4"),
        (partial(MANIFEST, dotted="format", value=1), 2, "has format 1, this version of gems_jax reads format 4"),
        (partial(CONFIG, dotted="schema", value=2), 1, "has schema 2, this version reads schema 1"),
        (partial(CONFIG, dotted="config/capacity", value=5), 2, "field capacity is 4 there, 5 here"),
        (partial(CONFIG, dotted="config/etta", value=5), 1, "has no field 'etta'"),
        (partial(MANIFEST, dotted="leaves/3/name", value="['state'].other"), 2, "is only in the"),
    ],
    ids=["newer", "older", "schema", "config", "field", "leaf"],
)
def test_what_does_not_fit_is_one_line(run: Path, change, code: int, part: str) -> None:
    change(run)
    assert_one_line(call("eval", run), code, part)


def test_doctor_names_what_is_damaged_and_what_can_be_recovered(run: Path) -> None:
    shutil.copytree(run / "checkpoints" / "00000002", run / "checkpoints" / "00000001")
    path = run / "checkpoints" / "00000001" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["extra"].pop("rows")
    damage.seal(path, {**manifest, "iteration": 1})
    damage.change_leaf(run, damage.flip)
    outcome = call("doctor", run)
    assert outcome.code == 1 and "checkpoint 2  DAMAGED  file" in outcome.out, outcome
    assert "checkpoint 1  intact   42 leaves load, rows have no checksum" in outcome.out
    assert f"gems resume {run} continues from iteration 1" in outcome.out
    (run / "config.json").unlink()
    outcome = call("doctor", run)
    assert outcome.code == 1 and "00000001/manifest.json has game, method, seeds and settings" in outcome.out


def test_rows_that_were_changed_on_purpose_can_be_accepted(run: Path) -> None:
    damage.KINDS["metrics.csv: changed cell"](run)
    outcome = call("doctor", run)
    assert outcome.code == 1 and "a cell was changed" in outcome.out, outcome
    assert_one_line(call("resume", run, "--quiet"), 1, "a cell was changed", "gems doctor")
    assert call("doctor", run, "--accept-rows").code == 0 and call("doctor", run).code == 0


@pytest.mark.parametrize("kind", ["link: checkpoint", "status.json: state = 3", "metrics.csv: gone", "state: cut"])
def test_doctor_says_one_thing_for_each_damage(run: Path, kind: str) -> None:
    {**damage.KINDS, **damage.LINKS}[kind](run)
    outcome = call("doctor", run)
    assert outcome.code == 1 and outcome.err == "" and outcome.out.splitlines()[-1].startswith("damaged: "), outcome
