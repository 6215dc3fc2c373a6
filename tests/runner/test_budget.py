"""`gems train --budget`, and runs put side by side at equal episodes or gradient steps."""

from pathlib import Path

import numpy as np
import pytest

from cli import assert_one_line, call
from gems_jax.runner.directory import read_config
from gems_jax.runner.writers import read_metrics
from gems_jax.viz.comparison import CompareError, compare_runs


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--budget", "-1"], "--budget must be at least 0, got -1"),
        (["--method", "cfr", "--budget", "9"], "method cfr does not learn from episodes"),
        (["--method", "psro", "--oracle", "exact", "--budget", "9"], "exact responses take no env steps"),
        (["--preset", "tuned", "--budget", "9"], "a budget of 9 env steps per iteration is too small"),
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
    found = compare_runs([runs], metric="nash_conv", axes=("gradient_steps", "episodes"))
    assert [line.axis for line in found.lines] == ["total_gradient_steps"] * 2 + ["total_episodes"] * 2
    line = next(line for line in found.lines if "uniform" in line.label and line.axis == "total_episodes")
    longer, shorter = (read_metrics(runs / name) for name in ("uniform", "last_k"))
    within = int(np.searchsorted(longer["total_episodes"], shorter["total_episodes"][-1], side="right")) - 1
    assert line.budget == shorter["total_episodes"][-1] and line.mean.mean == longer["nash_conv"][within]
    with pytest.raises(CompareError, match="unknown axis 'steps'; known: iterations, env_steps, seconds, episodes"):
        compare_runs([runs], axes=("steps",))
