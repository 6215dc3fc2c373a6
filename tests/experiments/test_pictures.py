"""The pictures that an experiment asks for: written, recorded, and never at the expense of its numbers."""

import io
import json

import pytest

from experiments import pictures
from experiments.harness.experiment import run_experiment
from experiments.harness.spec import Arm, Experiment, make_plan
from experiments.pictures import PICTURES, Drawn
from gems_jax.runner.console import Console
from gems_jax.viz.plotting import make_panels


def test_unknown_pictures_are_told_before_anything_runs() -> None:
    spec = Experiment("x", "X", "rock_paper_scissors", (Arm("r", method="random"),), 1, (0,), pictures=("goats",))
    with pytest.raises(ValueError, match=r"unknown pictures goats; known: ghosts, .*outcomes_of_sides"):
        make_plan(spec)


def test_what_is_drawn_is_written_and_what_fails_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def good(plan, folder):
        return Drawn({"still.png": make_panels(1, 1, 1.0, 1.0)[0], "moving.gif": b"GIF89a"}, {"gap": 0.5})

    def bad(plan, folder):
        raise RuntimeError("no paint")

    monkeypatch.setitem(PICTURES, "good", good)
    monkeypatch.setitem(PICTURES, "bad", bad)
    spec = Experiment(
        "x", "X", "biased_rps", (Arm("r", method="random"),), 1, (0,), pictures=("bad", "good"), report=(1,)
    )
    stream = io.StringIO()
    result = run_experiment(spec, root=tmp_path, console=Console(file=stream, interactive=False))
    record = json.loads((result.folder / "summary.json").read_text())
    assert result.finished and record["numbers"]
    assert record["pictures"] == {
        "bad": {"failed": "RuntimeError: no paint"},
        "good": {"files": ["figures/still.png", "replays/moving.gif"], "numbers": {"gap": 0.5}},
    }
    assert "figures/still.png" in record["figures"] and record["replays"] == ["replays/moving.gif"]
    assert all((result.folder / path).stat().st_size for path in [*record["figures"], *record["replays"]])
    assert "the picture bad could not be drawn: RuntimeError: no paint" in stream.getvalue()
    assert pictures.check_pictures(("good", "bad")) is None
