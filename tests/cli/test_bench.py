"""`gems bench`: the file that a user sends."""

import json
from pathlib import Path

import pytest

from cli import call
from gems_jax import GemsConfig, make_game
from gems_jax.cli.commands import bench, plan
from gems_jax.profiling import bench_report
from gems_jax.profiling.phase_times import PHASES

TINY = {
    "capacity": 3, "initial_anchors": 2, "generator_widths": (4,), "critic_hidden": (4,), "num_opponents": 2,
    "mixture_samples": 2, "mutations": 2, "randoms": 2, "oracle_opponents": 2, "abr_steps": 1, "abr_anchors": 2,
    "kl_opponents": 1, "jacobian": "none",
}  # fmt: skip
STARTS = {"first": {"process": 9.0, "ready": 8.0, "waits": {"tracing": 5.0, "compiling": 3.0}}}


def test_the_file_holds_the_figures_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = (make_game("biased_rps"), GemsConfig().replace(**TINY), "tiny")
    monkeypatch.setattr(plan, "prepare_game", lambda name, preset: small)
    monkeypatch.setattr(bench_report, "measure_starts", lambda name, preset: STARTS)
    file = tmp_path / "new" / "bench.json"
    assert bench.main(["biased_rps", "--repeats", "2", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["command"].startswith("gems bench biased_rps") and found["machine"]["device"]["count"] >= 1
    own = found["games"]["biased_rps"]
    assert own["preset"] == "tiny" and own["starts"] == STARTS and own["compiling"] > 0 and len(own["iteration"]) == 2
    assert set(own["phases"]) == set(PHASES)
    for phase in own["phases"].values():
        assert len(phase["seconds"]) == 2 and min(phase["seconds"]) > 0 and phase["env_steps"] >= 0
    assert "first start of gems train: ready after 8.0 s (tracing 5.0 s, compiling 3.0 s)" in capsys.readouterr().out


def test_mistakes_are_told_before_anything_is_measured() -> None:
    for words, told in (
        ((), "nothing to do"),
        (("no_such_game",), "no_such_game"),
        (("x", "--repeats", "0"), "repeats"),
    ):
        done = call("bench", *words)
        assert done.code == 2 and told in done.err


@pytest.mark.slow
def test_a_second_start_is_ready_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMS_JAX_STORED_PROGRAMS")
    found = bench_report.measure_starts("biased_rps", "")
    assert found["second"]["ready"] < found["first"]["ready"] < found["first"]["process"]
    assert "loading the stored program" in found["second"]["waits"] and "compiling" in found["first"]["waits"]
