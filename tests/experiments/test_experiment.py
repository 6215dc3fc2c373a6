"""Experiments from specs: what is printed and written, going on after an interruption, what is refused."""

import csv
import dataclasses
import io
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import report, results
from experiments import run as entry
from experiments.harness import experiment
from experiments.harness.experiment import run_experiment
from experiments.harness.spec import Arm, Check, Experiment
from experiments.harness.summary import ArmResult
from experiments.reporting import describing, ingredients
from gems_jax import solvers
from gems_jax.evaluate.statistics import mean_interval
from gems_jax.runner.console import Console
from gems_jax.runner.errors import ConfigMismatchError, RunError, RunExistsError
from gems_jax.runner.writers import read_metrics
from gems_jax.types import Array, PolicyOutput, Profile, Solver, Struct, static_field


@dataclasses.dataclass(frozen=True)
class ToyConfig:
    noise: float = 0.3

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


class Mixed(Struct):
    """One policy per population, its logits."""

    logits: Array  # [P, 1, 3]
    apply: object = static_field()

    def select(self, index):
        return self.logits[index]


class ToyMetrics(NamedTuple):
    episodes: Array
    env_steps: Array


def play_logits(params, observation, legal):
    return PolicyOutput(logits=params)


def toy(game, config):
    """Rock-paper-scissors players that drift at random around uniform play, less and less."""
    config = config or ToyConfig()

    def init(key):
        return {"logits": jax.random.normal(key, (2, 1, 3)), "step": jnp.int32(0)}

    def step(state, key):
        noise = config.noise * jax.random.normal(key, (2, 1, 3))
        after = {"logits": 0.7 * state["logits"] + noise, "step": state["step"] + 1}
        return after, ToyMetrics(jnp.int32(10), jnp.int32(20))

    def profile(state, which="iterate"):
        return Profile(Mixed(state["logits"], play_logits), jnp.ones((2, 1)))

    return Solver(init, step, profile)


@pytest.fixture(autouse=True)
def toy_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(solvers.METHODS, "toy", toy)


SPEC = Experiment(
    name="toys",
    title="Toys",
    game="rock_paper_scissors",
    arms=(
        Arm("loud", method="toy", config=ToyConfig(1.0)),
        Arm("quiet one", method="toy", config=ToyConfig(), overrides={"noise": 0.01}, quick={"noise": 0.02}),
    ),
    iterations=6,
    seeds=(0, 1, 2),
    report=(1, 4, 40),
    chunk=2,
    convention="exploitability = NashConv / 2 (points per game)",
    unit="points",
    references=(("always rock", 1.0),),
    checks=(Check("exploitability", at_most=1.0),),
    quick={"iterations": 2, "seeds": (0, 1)},
)


def run_quietly(spec=SPEC, **options):
    stream = io.StringIO()
    result = run_experiment(spec, console=Console(file=stream, interactive=False), **options)
    return result, stream.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(result, what was printed) of one whole experiment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(solvers.METHODS, "toy", toy)
        return run_quietly(root=tmp_path_factory.mktemp("runs"), command="python -m experiments.run toys")


def test_everything_is_written(finished) -> None:
    result, _ = finished
    assert result.finished and result.exit_code == 0 and not result.failures
    assert result.folder.parent.name == "toys"
    names = {path.relative_to(result.folder).as_posix() for path in result.folder.rglob("*") if path.is_file()}
    assert {"experiment.json", "summary.json", "summary.csv", "figures/exploitability.png"} <= names
    for arm, label in zip(result.arms, ("loud", "quiet_one"), strict=True):
        assert arm.rows["exploitability"].shape == (3, 6)
        for seed in range(3):
            rows = read_metrics(result.folder / label / f"s{seed}")
            np.testing.assert_array_equal(rows["exploitability"], arm.rows["exploitability"][seed])


def test_summary_json_holds_numbers_and_circumstances(finished) -> None:
    result, _ = finished
    record = experiment.load_summary(result.folder)
    assert {"commit", "versions", "processor", "device", "python", "created", "finished"} <= record.keys()
    assert record["command"] == "python -m experiments.run toys" and record["figures"] == ["figures/exploitability.png"]
    assert [arm["config"] for arm in record["arms"].values()] == [{"noise": 1.0}, {"noise": 0.01}]
    found = {(row["arm"], row["column"], row["iteration"]): row for row in record["numbers"]}
    interval = mean_interval(result.arms[0].rows["exploitability"][:, 3])
    row = found["loud", "exploitability", 4]
    np.testing.assert_allclose((row["mean"], row["low"], row["high"]), interval)
    assert found["loud", "total_episodes", 6]["mean"] == 60 and row["seeds"] == 3
    with open(result.folder / "summary.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(record["numbers"])
    assert float(rows[0]["mean"]) == record["numbers"][0]["mean"]


def test_what_is_printed(finished) -> None:
    result, printed = finished
    assert "loud (1 of 2): toy on rock_paper_scissors" in printed and "iteration 6/6" in printed
    for words in ("exploitability", "NashConv", "episodes per seed", "env steps per seed", "compile seconds", "±"):
        assert words in printed
    interval = mean_interval(result.arms[1].rows["nash_conv"][:, 5])
    assert f"{interval.mean:.4f} ± {interval.half_width:.4f}" in printed
    for name in ("figures/exploitability.png", "summary.csv", "summary.json"):
        assert f"written: {result.folder / name}" in printed
    assert "check holds: exploitability is at most" in printed


def test_quick_changes_spec_and_arms(tmp_path: Path) -> None:
    result, printed = run_quietly(quick=True, root=tmp_path)
    assert [arm.rows["exploitability"].shape for arm in result.arms] == [(2, 2)] * 2
    record = experiment.load_summary(result.folder)
    assert [arm["config"]["noise"] for arm in record["arms"].values()] == [1.0, 0.02] and record["seeds"] == [0, 1]


class StoppingConsole(Console):
    """Sends SIGTERM at the second iteration of the second arm."""

    arms, iteration = 0, 0

    def update(self, progress) -> None:
        super().update(progress)
        self.arms += progress.iteration <= self.iteration or not self.iteration
        self.iteration = progress.iteration
        if self.arms == 2 and self.iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)


def test_interrupted_experiment_goes_on(tmp_path: Path, finished) -> None:
    """SIGTERM in the second arm: the first is kept as it is, and the end is that of an uninterrupted experiment."""
    folder, stream = tmp_path / "here", io.StringIO()
    result = run_experiment(SPEC, run_dir=folder, console=StoppingConsole(file=stream, interactive=False))
    assert not result.finished and result.exit_code == 143 and [arm.label for arm in result.arms] == ["loud"]
    assert f"everything is saved. Continue with: the same command and --run-dir {folder}" in stream.getvalue()
    assert "gems resume" not in stream.getvalue() and not (folder / "summary.json").exists()
    before = (folder / "loud" / "s0" / "metrics.csv").read_bytes()

    result, printed = run_quietly(run_dir=folder)
    assert result.finished and "resumed from iteration 6" in printed
    assert "resumed from iteration 2" in printed
    assert (folder / "loud" / "s0" / "metrics.csv").read_bytes() == before
    for arm, whole in zip(result.arms, finished[0].arms, strict=True):
        np.testing.assert_array_equal(arm.rows["exploitability"], whole.rows["exploitability"])
    with pytest.raises(RunExistsError, match="finished experiment; experiments are never written over"):
        run_quietly(run_dir=folder)


def test_other_settings_do_not_go_on_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    run_quietly(run_dir=folder)
    (folder / "summary.json").unlink()
    with pytest.raises(ConfigMismatchError, match=r"started with seeds = \[0, 1, 2\], and this is \[0, 1\]"):
        run_quietly(run_dir=folder, quick=True)
    louder = (Arm("loud", method="toy", config=ToyConfig(2.0)), SPEC.arms[1])
    with pytest.raises(ConfigMismatchError, match="arms.loud.config.noise = 1.0, and this is 2.0"):
        run_quietly(dataclasses.replace(SPEC, arms=louder), run_dir=folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(RunExistsError, match="is not empty and holds no experiment"):
        run_quietly(run_dir=tmp_path / "other")


def test_two_experiments_at_once_get_two_folders(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, arms=SPEC.arms[:1], iterations=1, seeds=(0,))
    folders = {run_quietly(spec, root=tmp_path)[0].folder for _ in range(2)}
    assert len(folders) == 2


def test_a_check_that_does_not_hold_is_an_error(tmp_path: Path) -> None:
    checks = (Check("nash_conv", at_most=1e-9), Check("nothing", at_most=1.0))
    result, printed = run_quietly(dataclasses.replace(SPEC, checks=checks), quick=True, root=tmp_path)
    assert result.finished and result.exit_code == 1 and len(result.failures) == 2
    assert "check FAILED: NashConv" in printed and "no arm logs nothing" in printed


def test_checks_of_named_arms_from_below_and_at_the_end() -> None:
    rows = {"loud": np.array([[0.0, 0.5], [9.0, 0.7]]), "quiet": np.array([[0.9, 0.2]])}
    arms = [ArmResult(label, {"gap": values}, 0.0) for label, values in rows.items()]
    told, holds = experiment._check(Check("gap", at_least=0.6, arms=("loud",), at_the_end=True), arms)
    assert not holds and "is at least 0.5 in the last iteration of every seed (arm loud), allowed 0.6" in told
    assert experiment._check(Check("gap", at_least=0.5, at_most=0.7, arms=("loud",), at_the_end=True), arms)[1]
    assert not experiment._check(Check("gap", at_least=0.5, at_the_end=True), arms)[1]  # quiet ends at 0.2
    assert not experiment._check(Check("gap", at_most=0.7, arms=("loud",)), arms)[1]  # 9 on the way
    arms = [ArmResult("loud", {"gap": np.array([[np.nan]])}, 0.0)]
    assert not experiment._check(Check("gap", at_most=1.0), arms)[1]


def test_arms_may_play_variants_of_the_game(tmp_path: Path) -> None:
    """biased_rps with a win of 9 for one arm: the same play, other gaps; each arm's folder says what it played."""
    arms = (
        Arm("plain", method="toy"),
        Arm("biased", method="toy", options={"c": 9.0}),
        Arm("fair", method="toy", game="rock_paper_scissors"),
    )
    spec = dataclasses.replace(SPEC, game="biased_rps", options={"b": 1.0}, arms=arms, checks=(), iterations=2)
    result, _ = run_quietly(spec, root=tmp_path)
    plain, biased, fair = (arm.rows["exploitability"] for arm in result.arms)
    assert (biased > plain).all() and (biased > fair).all()
    played = [(arm["game"], arm["options"]) for arm in experiment.load_summary(result.folder)["arms"].values()]
    assert played == [("biased_rps", {"b": 1.0}), ("biased_rps", {"b": 1.0, "c": 9.0}), ("rock_paper_scissors", {})]
    assert json.loads((result.folder / "fair" / "config.json").read_text())["game"] == "rock_paper_scissors"
    assert json.loads((result.folder / "biased" / "config.json").read_text())["options"]["game"]["c"] == 9.0


def test_fewer_arms_keep_the_checks_that_are_theirs() -> None:
    checks = (
        Check("gap", at_most=1.0),
        Check("gap", at_most=2.0, arms=("loud", "quiet one")),
        Check("gap", 3.0, arms=("loud",)),
    )
    numbers = ("loudness", tuple(float(number) for number in range(len(SPEC.arms))))
    kept = entry.keep_arms(dataclasses.replace(SPEC, checks=checks, against=numbers), ["quiet one"])
    assert kept.against == ("loudness", (float([arm.label for arm in SPEC.arms].index("quiet one")),))
    assert [arm.label for arm in kept.arms] == ["quiet one"]
    assert [(check.at_most, check.arms) for check in kept.checks] == [(1.0, ()), (2.0, ("quiet one",))]


def test_fewer_arms_are_fewer_in_the_quick_version_too() -> None:
    quick = {"arms": SPEC.arms, "checks": (Check("gap", 3.0, arms=("loud",)),), "iterations": 2}
    kept = entry.keep_arms(dataclasses.replace(SPEC, quick=quick), ["quiet one"])
    assert [arm.label for arm in kept.quick["arms"]] == ["quiet one"]
    assert kept.quick["checks"] == () and kept.quick["iterations"] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checks": (Check("gap", at_most=1.0, arms=("lout",)),)}, "arms of the experiment"),
        ({"checks": (Check("gap"),)}, "a check needs a bound"),
        ({"game": "kuhn_pocker"}, "Unknown game 'kuhn_pocker'"),
        ({"arms": ()}, "needs arms with different labels"),
        ({"arms": (Arm("a b", method="toy"), Arm("a_b", method="toy"))}, "different labels"),
        ({"arms": (Arm("a", method="toyy"),)}, "unknown method 'toyy'"),
        ({"arms": (Arm("a", preset="paper"),)}, "no presets for the game 'rock_paper_scissors'"),
        ({"arms": (Arm("a", preset="paper", config=ToyConfig()),)}, "both a preset and a config"),
        ({"arms": (Arm("a", method="toy", overrides={"noise": 1.0}),)}, "changes noise of no config"),
        ({"quick": {"iteratoins": 3}}, "no field iteratoins; known: name"),
    ],
)
def test_bad_specs_are_refused_before_anything_starts(tmp_path: Path, changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_experiment(dataclasses.replace(SPEC, **changes), quick="quick" in changes, root=tmp_path)
    assert not list(tmp_path.iterdir())


# --- docs/results


def test_results_are_published(tmp_path: Path, finished) -> None:
    folder = finished[0].folder
    path = results.write_results(folder, tmp_path, notes=("Mind the gap.",))
    first = path.read_text()
    assert path == tmp_path / "results" / "toys.md" and "- Mind the gap.\n" in first
    assert (tmp_path / "figures" / "toys_exploitability.png").is_file()
    for words in ("# Toys", "| exploitability | 1 |", "(../figures/toys_exploitability.png)", "Commit:", "Hardware:"):
        assert words in first
    path.write_text("edited by hand")
    results.write_results(folder, tmp_path, notes=("Mind the gap.",))
    assert path.read_text() == first
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    record = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**record, "name": "others", "title": "Others"}))
    other = results.write_results(copy, tmp_path)
    assert path.read_text() == first and other.read_text().startswith("# Others\n")
    index = report.write_ledger(tmp_path).read_text()
    assert "| [Toys](results/toys.md) |" in index and "| [Others](results/others.md) |" in index


def test_pages_are_made_from_the_published_records(tmp_path: Path, finished) -> None:
    """Nothing but docs/results/<name>.json is read: neither the folder of the run nor the spec."""
    path = results.write_results(finished[0].folder, tmp_path, notes=("Mind the gap.",))
    first = path.read_text()
    path.unlink()
    assert results.write_pages(tmp_path) == [path] and path.read_text() == first


@pytest.mark.parametrize("name", results.published())
def test_published_pages_are_what_their_records_make(name: str) -> None:
    record = results.published()[name]
    page = (results.DOCS / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert page == results.experiment_page(record), "run python -m experiments.results"
    assert all((results.DOCS / "figures" / figure).is_file() for figure in record["figures"])


def test_every_page_has_a_record() -> None:
    pages = {path.stem for path in (results.DOCS / "results").glob("*.md")}
    known = {*results.published(), "claims"}
    known |= {ingredients.PAGE} if known & ingredients.COLUMNS.keys() else set()
    assert pages == known


def test_ingredients_are_the_last_gaps_of_the_published_ablations(tmp_path: Path) -> None:
    def row(arm: str, iteration: int, mean: float) -> dict[str, Any]:
        low, high = mean - 0.01, mean + 0.01
        return {
            "arm": arm, "column": "exploitability", "iteration": iteration, "mean": mean, "low": low, "high": high,
            "seeds": 5,
        }  # fmt: skip

    one = {
        "processor": "A",
        "cpus": 2,
        "numbers": [row("pairs", 40, 0.2), row("pairs", 5, 0.7), row("replay", 40, 0.1)],
    }
    other = {"processor": "B", "cpus": 8, "numbers": [row("replay", 40, 0.3)]}
    page = ingredients.ingredients_page({"ablate_reuse": one, "ablate_reuse_leduc": other, "kuhn": {}})
    assert "| pairs | 0.2000 ± 0.0100 | – |" in page and "| replay | 0.1000 ± 0.0100 | 0.3000 ± 0.0100 |" in page
    assert page.splitlines()[-3:] == ["| seeds | 5 | 5 |", "", "- Hardware: A, 2 cores; B, 8 cores"]
    assert "[Leduc, 1M](ablate_reuse_leduc.md)" in page
    assert results.write_ingredients(tmp_path) == []  # nothing is published there


def test_the_page_of_ingredients_is_what_the_records_make() -> None:
    path = results.DOCS / "results" / f"{ingredients.PAGE}.md"
    records = results.published()
    if records.keys() & ingredients.COLUMNS.keys():
        assert path.read_text() == ingredients.ingredients_page(records), "run python -m experiments.results"


def test_reasons_at_the_last_iteration() -> None:
    row = {"arm": "a", "column": "budget_oracle", "iteration": 40, "mean": 0.25}
    numbers = [row, {**row, "iteration": 1, "mean": 9.0}, {**row, "arm": "b", "column": "abr_gap", "mean": 0.5}]
    table = describing.reasons({"numbers": numbers, "arms": {"a": {}, "b": {}}})
    assert table is not None
    lines = results.reasons_lines(dataclasses.asdict(table))
    assert lines[0] == "| diagnostics: mean over seeds at iteration 40 | a | b |"
    assert lines[2:4] == ["| budget oracle | 0.25 |  |", "| abr gap |  | 0.5 |"]
    assert describing.reasons({"numbers": [{**row, "column": "seconds"}], "arms": {"a": {}}}) is None
    assert results.reasons_lines(None) == []


def test_results_refuse_what_they_cannot_write(tmp_path: Path, finished) -> None:
    with pytest.raises(RunError, match="no finished experiment"):
        results.write_results(tmp_path, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(finished[0].folder, copy)
    (copy / "figures" / "exploitability.png").write_bytes(b"0" * 300_000)
    with pytest.raises(RunError, match="300000 bytes"):
        results.write_results(copy, tmp_path)
    assert not (tmp_path / "results").exists()
