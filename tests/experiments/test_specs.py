"""The project's own experiments: thin specs, and the entry point that runs them."""

from pathlib import Path

import pytest

from experiments import run as entry
from experiments.harness import experiment
from experiments.harness.spec import changed, make_plan
from gems_jax import solvers
from gems_jax.gems.budget import episodes_per_phase


def test_unknown_experiment_is_one_line(capsys: pytest.CaptureFixture) -> None:
    assert entry.main(["kun"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: unknown experiment 'kun'; did you mean 'kuhn'? known: ") and told.out == ""
    assert told.err.endswith(f"{', '.join(entry.known())}\n") and told.err.count("\n") == 1
    assert entry.main(["kuhn", "--arms", "papre"]) == 2
    assert "kuhn has no arm papre; known: gems, paper, psro, double oracle" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "quick"), [("1", True), ("", False), ("0", False), ("yes", True)])
def test_quick_from_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, quick: bool) -> None:
    monkeypatch.setenv("QUICK", value)
    assert entry.parse(["kuhn"]).quick is quick
    assert entry.parse(["kuhn", "--quick"]).quick


def test_kuhn_is_a_thin_spec() -> None:
    spec = entry.load("kuhn")
    assert spec.iterations == 40 and spec.report == (1, 10, 20, 40)
    assert [arm.label for arm in spec.arms] == ["gems", "paper", "psro", "double oracle, exact"]
    full = changed(spec, spec.full)
    assert full.seeds == (0, 1, 2, 3, 4) and full.arms == (*spec.arms, *full.arms[-2:])
    assert len(make_plan(full).arms) == 6
    lines = (Path(entry.__file__).parent / "specs" / "kuhn.py").read_text().splitlines()
    assert len(lines) < 50


def test_kuhn_compare_gives_everybody_the_same() -> None:
    """Eight baselines, three forms of self-play and GEMS in each of two groups, learned responses, equal env steps."""
    spec = entry.load("kuhn_compare")
    assert spec.iterations == 40 and len(spec.seeds) == 5 and len(spec.groups) == 3
    plan = make_plan(entry.keep_arms(spec, [arm.label for arm in spec.arms if arm.method != "gems"]))
    for steps, (_, labels) in zip((25_750, 257_500), spec.groups[:2], strict=True):
        here = {arm.method: config for arm, config, _ in plan.arms if arm.label in labels}
        assert set(here) == {
            "psro", "double_oracle", "alpha_psro", "a_psro", "apsro", "epsro", "p2sro", "neupl", "self_play", "mmd",
            "nash_pg",
        }  # fmt: skip
        assert all(config.env_steps == steps for config in here.values())
        assert all(getattr(config, "oracle", "ppo") == "ppo" for config in here.values())
        assert [arm.label for arm in spec.arms if arm.method == "gems" and arm.label in labels] == list(labels[:2])
    codes = [arm.overrides for arm in spec.arms if arm.label in spec.groups[2][1]]
    assert codes == [{"latent_dim": size} for size in (2, 4, 8)]


def test_kuhn_family_holds_every_method_to_one_budget() -> None:
    """All of kuhn_compare's arms at its smaller budget, and every other method that learns from episodes."""
    spec = entry.load("kuhn_family")
    eight = entry.load("kuhn_compare").groups[0][1]
    assert [arm.label for arm in spec.arms][: len(eight)] == [label.removesuffix(" 1x") for label in eight]
    plan = make_plan(entry.keep_arms(spec, [arm.label for arm in spec.arms if arm.method != "gems"]))
    others = {"gems", "cfr", "cfr_plus", "xfp", "random"}
    assert {arm.method for arm, _, _ in plan.arms} == set(solvers.DEFAULTS) - others and spec.seeds == tuple(range(10))
    assert all(config.env_steps == 25_750 and getattr(config, "opponents", 64) == 64 for _, config, _ in plan.arms)
    assert all(getattr(config, "oracle", "ppo") == "ppo" for _, config, _ in plan.arms)


@pytest.mark.parametrize("name", ["deceptive", "public_goods"])
def test_the_small_games_are_thin_specs(name: str) -> None:
    spec = entry.load(name)
    assert spec.seeds == (0, 1, 2, 3, 4) and spec.metrics[0] == "nash_conv" and len(spec.checks) == 2
    for arm, config, _ in make_plan(spec).arms:
        assert arm.method != "gems" or config.iterations == spec.iterations, arm.label
    assert len((Path(entry.__file__).parent / "specs" / f"{name}.py").read_text().splitlines()) < 55


def test_the_kuhn_ablation_has_the_paper_s_rows() -> None:
    """Of tab:khun-1 and tab:khun-2: how many there are, the bold ones, and three of them in full."""
    spec = entry.load("ablate_kuhn")
    arms = {arm.label.split()[0]: arm for arm in spec.arms}
    rows = [name for name in arms if name[0] in "12"]
    assert [name.strip("*") for name in rows] == [f"1{c}" for c in "abcdefghijklmnopqrst"] + [
        f"2{c}" for c in "abcdefghij"
    ]
    assert [name for name in rows if name.endswith("*")] == ["1i*", "1k*", "2a*", "2d*", "2e*"]
    fields = ("eta", "schedule", "ema", "abr_steps", "learning_rate", "beta_kl", "mutations", "randoms", "replacement")
    for name, row in {
        "1d": (0.04, "harmonic", 0.0, 20, 5e-4, 1e-2, 1, 0, "worst_ev"),
        "1t": (0.12, "sqrt", 0.8, 10, 3e-4, 5e-3, 2, 1, "least_mass"),
        "2e*": (0.06, "harmonic", 0.5, 0, 1e-4, 0.0, 0, 0, "worst_ev"),
    }.items():
        assert tuple(arms[name].overrides[field] for field in fields) == row
    assert all(arms[name].overrides["estimator"] == "exact" for name in rows)


@pytest.mark.parametrize("name", ["ablate_deceptive", "ablate_public_goods"])
def test_ablations_change_one_factor_at_a_time(name: str) -> None:
    spec = entry.load(name)
    base, *others = (config for _, config, _ in make_plan(spec).arms)
    assert all(members[0] == spec.arms[0].label for _, members in spec.groups)
    changed_fields = [
        {field for field in vars(base) if getattr(config, field) != getattr(base, field)} for config in others
    ]
    assert all(fields and fields <= {"mutations", "randoms"} or len(fields) == 1 for fields in changed_fields)
    assert sum(len(members) - 1 for _, members in spec.groups) == len(others)


@pytest.mark.parametrize("name", ["tag", "spread", "connect4", "hanabi"])
def test_psro_is_given_what_gems_takes(name: str) -> None:
    """The preset's own count of an iteration with full slots is within 5 % of the budget."""
    spec = entry.load(name)
    plan = make_plan(spec)
    game, gems = plan.games["gems"], plan.arms[0][1]
    played = episodes_per_phase(game, gems, gems.capacity)
    lengths = {"tag": 25.0, "spread": 25.0, "connect4": 22.0, "hanabi": 62.0}[name]  # of trained play
    steps = played.sum_without_training(gems) * lengths + gems.abr_steps * played.abr_step * (
        gems.abr_segment or lengths
    )
    budgets = {config.env_steps for arm, config, _ in plan.arms if arm.method == "psro"}
    assert len(budgets) == 1 and abs(budgets.pop() / steps - 1) < 0.05


def test_other_sizes_may_be_asked_for() -> None:
    spec = entry.sized(entry.load("go"), 7, [3, 4])
    assert (spec.iterations, spec.seeds) == (7, (3, 4))
    assert make_plan(spec, quick=True).spec.iterations == 7
    assert entry.main(["oracle", "--seeds", "1"]) == 2


@pytest.mark.slow
def test_kuhn_quick_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing, short: every arm, the error budget's identity, all three figures."""
    monkeypatch.chdir(tmp_path)
    assert entry.main(["kuhn", "--quick", "--run-dir", "out"]) == 0
    record = experiment.load_summary("out")
    assert [Path(name).name for name in record["figures"]] == [
        "exploitability.png", "error_budget.png", "forgetting.png", "resources.png"
    ]  # fmt: skip
    worst = max(row["high"] or row["mean"] for row in record["numbers"] if row["column"] == "budget_violation")
    assert worst < 1e-4


@pytest.mark.parametrize("name", ["ablate_reuse", "ablate_reuse_leduc"])
def test_ablations_of_reuse_change_one_budget_in_settings_that_go_together(name: str) -> None:
    """Every arm fits its game; a spec with a wrong combination of settings fails here and not after it was started."""
    plan = make_plan(entry.load(name))
    labels = [arm.label for arm, _, _ in plan.arms]
    assert labels[0] == "nothing reused" and "replay" in labels and len(plan.spec.seeds) == 5
    assert {arm.budget for arm, _, _ in plan.arms} == {25_000}
