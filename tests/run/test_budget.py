"""`gems train --budget`, and runs put side by side at equal episodes or gradient steps."""

from pathlib import Path

import numpy as np
import pytest

from cli import assert_one_line, call
from gems_jax.run.compare import CompareError, compare
from gems_jax.run.directory import read_config
from gems_jax.run.figures import draw, league
from gems_jax.run.summary import ArmResult, ranking
from gems_jax.run.writers import read_metrics


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--budget", "-1"], "--budget must be at least 0: got -1"),
        (["--method", "cfr", "--budget", "9"], "the method cfr learns nothing from episodes"),
        (["--method", "psro", "--oracle", "exact", "--budget", "9"], "exact responses take no env steps"),
        (["--preset", "tuned", "--budget", "9"], "a budget of 9 env steps leaves no training"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(words: list[str], told: str) -> None:
    assert_one_line(call("train", "biased_rps", *words), 2, told)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PSRO with two meta-solvers, four iterations of 400 env steps, then two more of the first."""
    folder = tmp_path_factory.mktemp("budget")
    small = ["--opponents", 16, "--critic-hidden", 4, "--budget", 400, "--iterations", 4, "--quiet"]
    for name in ("uniform", "last_k"):
        words = ["--method", "psro", "--meta-solver", name, "--entry-episodes", 4, "--run-dir", folder / name]
        done = call("train", "rock_paper_scissors", *words, *small)
        assert done.code == 0, done
    assert call("resume", folder / "uniform", "--iterations", 6, "--quiet").code == 0
    return folder


def test_a_budget_is_kept(runs: Path) -> None:
    """Within a round of 16 episodes for each of two players, over the whole run, also where it was taken up again."""
    for name, iterations in (("uniform", 6), ("last_k", 4)):
        rows = read_metrics(runs / name)
        assert abs(rows["total_env_steps"][-1] - 400 * iterations) <= 32 + 8, rows["env_steps"]
        assert read_config(runs / name)["config"]["env_steps"] == 400


def test_runs_at_equal_gradient_steps_and_episodes(runs: Path) -> None:
    found = compare([runs], metric="nash_conv", axes=("gradient_steps", "episodes"))
    assert [line.axis for line in found.lines] == ["total_gradient_steps"] * 2 + ["total_episodes"] * 2
    line = next(line for line in found.lines if "uniform" in line.label and line.axis == "total_episodes")
    longer, shorter = (read_metrics(runs / name) for name in ("uniform", "last_k"))
    within = int(np.searchsorted(longer["total_episodes"], shorter["total_episodes"][-1], side="right")) - 1
    assert line.budget == shorter["total_episodes"][-1] and line.mean.mean == longer["nash_conv"][within]
    with pytest.raises(CompareError, match="unknown axis 'steps'; known: iterations, env_steps, seconds, episodes"):
        compare([runs], axes=("steps",))


def arm(label: str, end: float, **columns: float) -> ArmResult:
    """Two seeds, two iterations: the headline goes from 1 to `end`, all else stays."""
    rows = {"iteration": np.array([[1, 2]] * 2), "exploitability": np.array([[1.0, end]] * 2)}
    return ArmResult(label, rows | {name: np.full((2, 2), value) for name, value in columns.items()}, 3.0)


def test_a_ranking_by_hand() -> None:
    """The best of each group first; bytes are added up, seconds include compilation, what is not logged is left out."""
    big = arm("big", 0.1, env_steps=1500, gradient_steps=20, seconds=7, parameter_bytes=2000, payoff_bytes=500)
    small = arm("small", 0.3, env_steps=90, seconds=1, parameter_bytes=100, meta_bytes=100)
    groups = [("A", ["small", "big"]), ("B", ["other"])]
    table = ranking([small, big, arm("other", 0.2, seconds=0)], ["exploitability"], [1], groups)
    assert table.header == ("exploitability", "#", "at 1", "at 2", "steps", "updates", "s", "kB", "payoffs")
    assert [row[0].strip() for row in table.rows] == ["A", "big", "small", "B", "other"] and table.sections == (2, 4)
    assert table.rows[1][1:] == ("1", "1.0000", "0.1000 ± 0.0000", "1.5k", "20", "10", "2.5", "0.5")
    assert table.rows[2][4:] == ("90", "", "4", "0.2", "0.0")
    assert table.rows[4][1] == "1"


def test_a_panel_for_each_group(tmp_path: Path) -> None:
    curves = {label: arm(label, end).rows for label, end in (("a", 0.1), ("b", 0.2), ("c", 0.3))}
    groups = (("few steps", ("a", "b")), ("many", ("c",)))
    figure = league(curves, "exploitability", "gap", [("uniform play", 0.5)], groups)
    assert [axis.get_title() for axis in figure.axes] == ["few steps", "many"]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["a", "b", "uniform play"]
    drawn = draw(curves, tmp_path, headline="exploitability", groups=groups)
    assert [path.name for path in drawn] == ["exploitability.png"]
