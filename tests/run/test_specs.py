"""The project's own experiments: thin specs, and the entry point that runs them."""

from pathlib import Path

import pytest

from experiments import run as entry
from gems_jax import solvers
from gems_jax.run import experiment
from gems_jax.run.spec import changed, make_plan


def test_unknown_experiment_is_one_line(capsys: pytest.CaptureFixture) -> None:
    assert entry.main(["kun"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: unknown experiment 'kun'; did you mean kuhn? known: ") and told.out == ""
    assert told.err.endswith(f"{', '.join(entry.known())}\n") and told.err.count("\n") == 1
    assert entry.main(["kuhn", "--arms", "papre"]) == 2
    assert "kuhn has no arm papre; known: paper, tuned, psro, double oracle" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "quick"), [("1", True), ("", False), ("0", False), ("yes", True)])
def test_quick_from_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, quick: bool) -> None:
    monkeypatch.setenv("QUICK", value)
    assert entry.parse(["kuhn"]).quick is quick
    assert entry.parse(["kuhn", "--quick"]).quick


def test_kuhn_is_a_thin_spec() -> None:
    spec = entry.load("kuhn")
    assert spec.iterations == 40 and spec.report == (1, 10, 20, 40)
    assert [arm.label for arm in spec.arms] == ["paper", "tuned", "psro", "double oracle, exact"]
    full = changed(spec, spec.full)
    assert full.seeds == (0, 1, 2, 3, 4) and {arm.label for arm in full.arms} - {"tuned-mlp"} == {
        arm.label for arm in spec.arms
    }
    assert len(make_plan(full).arms) == 5
    lines = Path(entry.__file__).with_name("kuhn.py").read_text().splitlines()
    assert len(lines) < 50


def test_kuhn_compare_gives_everybody_the_same() -> None:
    """Eight baselines, self-play and GEMS in each of two groups, learned responses, equal env steps."""
    spec = entry.load("kuhn_compare")
    assert spec.iterations == 40 and len(spec.seeds) == 5 and len(spec.groups) == 2
    plan = make_plan(entry.keep_arms(spec, [arm.label for arm in spec.arms if arm.method != "gems"]))
    for steps, (_, labels) in zip((25_750, 257_500), spec.groups, strict=True):
        here = {arm.method: config for arm, config, _ in plan.arms if arm.label in labels}
        assert set(here) == {
            "psro", "double_oracle", "alpha_psro", "a_psro", "apsro", "epsro", "p2sro", "neupl", "self_play"
        }  # fmt: skip
        assert all(config.env_steps == steps for config in here.values())
        assert all(getattr(config, "oracle", "ppo") == "ppo" for config in here.values())
        assert [arm.label for arm in spec.arms if arm.method == "gems" and arm.label in labels] == list(labels[:2])


def test_kuhn_family_holds_every_method_to_one_budget() -> None:
    """All of kuhn_compare's arms at its smaller budget, and every other method that learns from episodes."""
    spec = entry.load("kuhn_family")
    eight = entry.load("kuhn_compare").groups[0][1]
    assert [arm.label for arm in spec.arms][: len(eight)] == [label.removesuffix(" 1x") for label in eight]
    plan = make_plan(entry.keep_arms(spec, [arm.label for arm in spec.arms if arm.method != "gems"]))
    others = {"gems", "cfr", "cfr_plus", "xfp", "random"}
    assert {arm.method for arm, _, _ in plan.arms} == set(solvers.DEFAULTS) - others
    assert all(config.env_steps == 25_750 and config.opponents == 64 for _, config, _ in plan.arms)
    assert all(getattr(config, "oracle", "ppo") == "ppo" for _, config, _ in plan.arms)


@pytest.mark.parametrize("name", ["deceptive", "public_goods"])
def test_the_small_games_are_thin_specs(name: str) -> None:
    spec = entry.load(name)
    assert spec.seeds == (0, 1, 2, 3, 4) and spec.metrics[0] == "nash_conv" and len(spec.checks) == 2
    for arm, config, _ in make_plan(spec).arms:
        assert config.iterations == spec.iterations, arm.label
    assert len(Path(entry.__file__).with_name(f"{name}.py").read_text().splitlines()) < 35


@pytest.mark.slow
def test_kuhn_quick_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing, short: every arm, the error budget's identity, all three figures."""
    monkeypatch.chdir(tmp_path)
    assert entry.main(["kuhn", "--quick", "--run-dir", "out"]) == 0
    record = experiment.load_summary("out")
    assert [Path(name).name for name in record["figures"]] == [
        "exploitability.png", "error_budget.png", "forgetting.png"
    ]  # fmt: skip
    worst = max(row["high"] or row["mean"] for row in record["numbers"] if row["column"] == "budget_violation")
    assert worst < 1e-4
