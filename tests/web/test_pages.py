"""`gems web` and `gems view`: what the pages contain, that text of files stays text, what is explained or refused."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cli import assert_one_line, call
from gems_jax import load, make_game
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.runner.directory import create_run, open_run, read_config
from gems_jax.runner.driver import run
from gems_jax.runner.files import write_json
from gems_jax.runner.options import RunOptions
from gems_jax.runner.training.mixtures import NAME, MixtureRecorder, read_mixtures
from gems_jax.types import Array, Solver, Struct
from gems_jax.web import write_play_page
from gems_jax.web.play_page import MAX_BYTES, NotPlayableError, fit, make_play_page
from gems_jax.web.policies import PolicyData, PolicyNumbers, PolicyParts
from gems_jax.web.run_page import make_run_page
from stored_run import FOLDER
from web_records import random_policy

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def read_data(text: str) -> dict[str, Any]:
    """The data of a page, after a check of its frame: one program, allowed by its hash, and nothing from elsewhere."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert text.count("<script") == 2 and "<" not in data and len(text.encode()) <= MAX_BYTES
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)""", text.replace('id="data">' + data, ""))
    assert "innerHTML" not in script and "eval(" not in script and "fetch(" not in script
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", script)
    return json.loads(data)


def test_a_page_of_a_shipped_policy_and_a_second_one(tmp_path: Path) -> None:
    page = tmp_path / "new" / "play.html"
    done = call("web", "kuhn", "-o", page, "--second", "kuhn", "--names", NASTY, "exact")
    assert done.code == 0 and f"written: {page} (0." in done.out, done
    data = read_data(page.read_text())
    assert [one["name"] for one in data["policies"]] == [NASTY, "exact"]
    assert data["game"] == {"name": "kuhn_poker", "title": "Kuhn poker", "options": {"observation": "plain"}}
    policy, sigma = data["policies"][0], np.asarray(load("kuhn").profile.sigma)
    for population, masses in zip(policy["populations"], sigma, strict=True):
        assert np.allclose(population["masses"], np.sort(masses[masses > 0])[::-1])
    assert policy["dropped"] == 0 and policy["measured"]["exploitability"] == pytest.approx(0.001529, abs=1e-6)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (f"web {FOLDER}", ["matching_pennies: expected one of kuhn_poker"]),
        ("web kuhn --second leduc", ["expected one game, got kuhn_poker and leduc_holdem"]),
        ("web kuhn --names a b", ["--names: expected at most one for each policy, got 2"]),
        ("web nowhere", ["no run at nowhere"]),
        ("view kuhn", ["is one mixture: expected a run folder"]),
        (f"view {FOLDER} --seed 7", ["expected one of the seeds 0, got seed 7"]),
        (f"view {FOLDER} --games -1", ["--games must be at least 0"]),
    ],
)
def test_mistakes(line: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(call(*line.split()), 2, *parts)
    assert not list(tmp_path.iterdir())


def test_a_mixture_is_cut_to_fit_or_refused() -> None:
    """Anchors of 25 float32 numbers, 134 bytes each in base64: the lightest are dropped, at most 5 % of the mass."""

    def data(*masses: float) -> PolicyData:
        parts = [PolicyParts({}, {"logits": np.zeros(25, np.float32)}) for _ in masses]
        return PolicyData({"name": "table"}, [PolicyNumbers(list(range(len(masses))), list(masses), parts)])

    (kept,) = fit([data(0.6, 0.36, 0.03, 0.01)], 300 + len("table"))
    assert kept.populations[0].slots == [0, 1] and kept.dropped_mass() == pytest.approx(0.04)
    with pytest.raises(NotPlayableError, match=r"at most 300 bytes of parameters, got 405 .*at most 5% of the mass"):
        fit([data(0.5, 0.4, 0.1)], 300)
    with pytest.raises(NotPlayableError, match="too large"):
        fit([data(1.0)], 100)
    large = random_policy(make_game("kuhn_poker"), MlpPolicy(13, 2, (500, 500)))
    with pytest.raises(NotPlayableError, match="Use a smaller network or fewer anchors"):
        make_play_page(large)


def test_the_page_says_how_much_mass_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load("kuhn")
    whole = len(make_play_page(policy).encode())
    monkeypatch.setattr("gems_jax.web.play_page.MAX_BYTES", whole - 300)
    data = read_data(write_play_page(policy, tmp_path / "play.html").read_text())["policies"][0]
    masses = [sum(one["masses"]) for one in data["populations"]]
    assert 0 < data["dropped"] < 0.05 and data["dropped"] == pytest.approx(1 - min(masses), abs=1e-6)


def test_a_page_of_a_run_and_what_it_lacks(tmp_path: Path) -> None:
    """A stored run without measurements: each part is there, or says why it is not."""
    folder = tmp_path / "run"
    shutil.copytree(FOLDER, folder)
    record = read_config(folder)
    write_json(folder / "config.json", {**record, "platform": NASTY})
    MixtureRecorder([folder], 0, 2).record(2, load(folder).profile.replace(sigma=np.full((2, 4), 0.25)))
    done = call("view", folder, "-o", tmp_path / "run.html")
    assert done.code == 0 and "written:" in done.out, done
    data = read_data((tmp_path / "run.html").read_text())
    assert ["platform", NASTY] in data["facts"] and data["state"] == "done" and data["planned"] == 2
    assert data["rows"]["seeds"][0]["rows"]["iteration"] == [1, 2] and data["rows"]["budget"] == []
    assert data["mixture"]["iterations"] == [2] and "mixtures.csv" in data["mixture"]["source"]
    assert data["mixture"]["populations"][1] == {"slots": [0, 1, 2, 3], "masses": [[0.25] * 4]}
    policy = load(folder)
    for population in data["anchors"]["populations"]:
        assert sum(population["masses"]) == pytest.approx(1, abs=1e-5)
        table = np.asarray(population["table"]["probabilities"])  # [anchors, information sets, A]
        assert population["table"]["actions"] == [["heads", "tails"]] and table.shape[1:] == (1, 2)
        assert np.allclose(table.sum(axis=2), 1, atol=1e-3)
    assert "game 1" in data["replays"]["text"] and policy.iteration == data["at"] == 2
    (folder / NAME).unlink()
    again = read_data(make_run_page(folder, games=0))
    assert again["mixture"]["iterations"] == [2] and again["mixture"]["source"] == "those of the stored checkpoints"
    assert again["replays"]["why"] == "no games were asked for (--games 0)"
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.csv").unlink()
    empty = read_data(make_run_page(folder))
    assert (
        empty["rows"]["seeds"] == [] and empty["mixture"]["iterations"] == [] and empty["anchors"]["populations"] == []
    )
    assert "has no checkpoint yet" in empty["anchors"]["why"] and "has no checkpoint yet" in empty["replays"]["why"]


class Drift(Struct):
    sigma: Array  # [2, 3]
    step: Array


class DriftMetrics(NamedTuple):
    episodes: Array


def make_drift(jittable: bool) -> Solver:
    """A solver whose mixture moves from slot to slot."""

    def init(key: Array) -> Drift:
        return Drift(jnp.full((2, 3), 1 / 3), jnp.int32(0))

    def step(state: Drift, key: Array) -> tuple[Drift, DriftMetrics]:
        sigma = jnp.tile(jax.nn.one_hot(state.step % 3, 3), (2, 1))
        return Drift(sigma, state.step + 1), DriftMetrics(jnp.int32(1))

    return Solver(init, step, profile=lambda state, which="iterate": None, jittable=jittable)


@pytest.mark.parametrize("jittable", [True, False])
def test_mixtures_are_recorded_by_the_run_and_cut_when_it_resumes(jittable: bool, tmp_path: Path) -> None:
    """Both engines, two seeds; a damaged line is skipped, and lines after the checkpoint of a resumed run go."""
    made = create_run(game="walk", method="omwu", config={}, seeds=(0, 1), iterations=3, path=tmp_path / "run")
    options = RunOptions(chunk=1, checkpoint_seconds=0.0)
    run(make_drift(jittable), iterations=3, seeds=(0, 1), options=options, directory=made)
    for member in made.members:
        found = read_mixtures(member)
        assert found is not None and found.iterations.tolist() == [1, 2, 3]
        assert (found.masses == np.eye(3)[:, None, :].repeat(2, axis=1)).all()
    path = made.members[0] / NAME
    path.write_text(path.read_text() + "4,0,0.5 0.5 0\n4,1,nan 1\n5,x")
    found = read_mixtures(made.members[0])
    assert found is not None and found.iterations.tolist() == [1, 2, 3]
    run(make_drift(jittable), iterations=4, seeds=(0, 1), options=options, directory=open_run(made.shared))
    found = read_mixtures(made.members[0])
    assert (
        found is not None and found.iterations.tolist() == [1, 2, 3, 4] and "x" not in path.read_text().split("\n")[-2]
    )
    assert read_mixtures(tmp_path) is None
