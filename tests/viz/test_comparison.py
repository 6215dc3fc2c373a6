"""compare: groups, budgets and estimates against numbers worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from cli import assert_one_line, call
from gems_jax.config import GemsConfig
from gems_jax.runner.directory import create_run
from gems_jax.runner.writers import CsvWriter
from gems_jax.viz.comparison import (
    CompareError,
    collect_seeds,
    compare_runs,
    comparison_markdown,
    draw_comparison,
    group_seeds,
    write_comparison,
)


def logged(path: Path, values, steps=100, seconds=1.0, game="kuhn_poker", config=None, preset="", seeds=None, **extra):
    """A run whose metrics are given: values [seeds, iterations]; the n-th seed makes n `steps` per iteration."""
    values = np.asarray(values, np.float64)
    seeds = seeds or range(len(values))
    run = create_run(
        game=game, method="gems", config=config or GemsConfig(), seeds=seeds, iterations=values.shape[1], path=path,
        options={"game": {}, "preset": preset},
    )  # fmt: skip
    count = np.tile(np.arange(1, values.shape[1] + 1), (len(values), 1))
    writer = CsvWriter(run)
    rows = {"iteration": count, "exploitability": values, **{name: np.asarray(v) for name, v in extra.items()}}
    factor = np.arange(1, len(values) + 1)[:, None]
    writer.write({**rows, "total_env_steps": steps * factor * count, "seconds": seconds * count})
    writer.close()
    return run


def lines_of(comparison, axis: str, game: str = "kuhn_poker"):
    return {line.label: line for line in comparison.lines if line.axis == axis and line.game == game}


def test_equal_budgets(tmp_path: Path) -> None:
    """The slower run decides how far all are compared, on each axis for itself."""
    fast = [[8.0, 6.0, 4.0, 2.0], [9.0, 7.0, 5.0, 3.0]]
    logged(tmp_path / "a", fast, steps=10, seconds=1.0, preset="a")
    logged(tmp_path / "b", [[1.0, 0.5], [1.0, 0.7]], steps=10, seconds=2.5, preset="b", config=GemsConfig(eta=1.0))
    comparison = compare_runs([tmp_path])
    assert comparison.metric == "exploitability"
    by_iteration = lines_of(comparison, "iteration")
    assert by_iteration["gems a"].budget == 2 and by_iteration["gems a"].mean.mean == pytest.approx(6.5)
    assert by_iteration["gems b"].mean.mean == pytest.approx(0.6)
    # b's first seed makes 20 steps in all: a's seeds are read at 20 steps, iterations 2 and 1
    by_steps = lines_of(comparison, "total_env_steps")
    assert by_steps["gems a"].budget == 20 and by_steps["gems a"].mean.mean == pytest.approx((6.0 + 9.0) / 2)
    # a is done after 4 seconds, when b has finished its first iteration
    assert by_steps["gems a"].iterations == (1, 2)
    by_seconds = lines_of(comparison, "seconds")
    assert by_seconds["gems a"].budget == 4.0 and by_seconds["gems a"].mean.mean == pytest.approx(2.5)
    assert by_seconds["gems b"].mean.mean == pytest.approx(1.0)


def test_estimates_and_their_intervals(tmp_path: Path) -> None:
    scores = np.arange(8.0)[::-1, None] ** 2  # 49 36 25 16 9 4 1 0
    logged(tmp_path / "run", scores)
    line = lines_of(compare_runs([tmp_path / "run"]), "iteration")["gems"]
    assert line.seeds == 8 and line.iqm.mean == pytest.approx(np.mean([25, 16, 9, 4]))
    assert line.mean.mean == pytest.approx(np.mean(np.arange(8) ** 2))
    assert line.iqm.low < line.iqm.mean < line.iqm.high and 0 <= line.mean.low < line.mean.high <= 49
    single = lines_of(compare_runs([tmp_path / "run" / "s3"]), "iteration")["gems"]
    assert single.seeds == 1 and single.mean.mean == 16.0 and np.isnan(single.mean.low)


def test_groups(tmp_path: Path) -> None:
    """Seeds of equal settings are one group wherever they lie; a longer run too; others are told apart by settings."""
    logged(tmp_path / "x" / "a", [[1.0, 1.0]])
    logged(tmp_path / "x" / "b", [[2.0, 1.0, 1.0]], seeds=(7,), config=GemsConfig(iterations=3))
    logged(tmp_path / "c", [[3.0]], config=GemsConfig(eta=0.5))
    found = {each.label: each for each in group_seeds(collect_seeds([tmp_path, tmp_path / "c"])[0])[0]}
    assert set(found) == {"gems (eta=0.03)", "gems (eta=0.5)"}
    assert sorted(seed.record["seed"] for seed in found["gems (eta=0.03)"].seeds) == [0, 7]


def test_several_games_are_strata(tmp_path: Path) -> None:
    """Kuhn's returns span 4, matching pennies' 2: scores count in these units."""
    logged(tmp_path / "a", [[0.4], [0.8]])
    logged(tmp_path / "b", [[0.1], [0.3], [9.9]], game="matching_pennies")
    comparison = compare_runs([tmp_path])
    overall = [line for line in comparison.lines if line.game.startswith("all games")]
    assert len(overall) == 1 and overall[0].seeds == 2  # the third seed of one game has no partner
    assert overall[0].mean.mean == pytest.approx(np.mean([0.1, 0.2, 0.05, 0.15]))


def test_files(tmp_path: Path) -> None:
    logged(tmp_path / "a", [[1.0, 0.5, 0.2], [1.1, 0.6, 0.1]], preset="tuned")
    logged(tmp_path / "b", [[1.0, 0.9, 0.8]], preset="paper", config=GemsConfig(eta=1.0))
    comparison = compare_runs([tmp_path / "a", tmp_path / "b"])
    paths = write_comparison(comparison, tmp_path / "out")
    assert [path.name for path in paths] == ["curves.png", "table.md", "table.json"]
    assert paths[0].read_bytes().startswith(b"\x89PNG") and paths[0].stat().st_size > 5000
    record = json.loads(paths[2].read_text())
    assert record["metric"] == "exploitability" and len(record["lines"]) == 6
    assert "| gems tuned | 3 iterations | 2 | 3 | 0.1500 (0.2000, 0.1000) |" in comparison_markdown(comparison)
    axes = draw_comparison(comparison, "kuhn_poker").axes
    assert [axis.get_xlabel() for axis in axes] == ["iterations", "env steps", "seconds"]
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), [1.05, 0.55, 0.15])  # the mean of two is their IQM


def test_mistakes(tmp_path: Path) -> None:
    logged(tmp_path / "a", [[1.0]], extra=[[2.0]])
    logged(tmp_path / "b", [[1.0]], seeds=(1,))
    with pytest.raises(CompareError, match="b/?.* has no column 'extra'; columns of all runs: exploitability"):
        compare_runs([tmp_path], metric="extra")
    with pytest.raises(CompareError, match="no run at .*nowhere"):
        compare_runs([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    assert_one_line(call("compare", tmp_path / "empty"), 2, "contains no run")
    assert_one_line(call("compare"), 2, "no runs given")
    run = create_run(
        game="kuhn_poker", method="gems", config=GemsConfig(), seeds=[0], iterations=1, path=tmp_path / "c"
    )
    assert_one_line(call("compare", run.shared), 2, "nothing to compare", "was skipped: it has no rows yet")
    (run.shared / "metrics.csv").write_text("iteration,exploitability\n1,abc\n")
    assert_one_line(call("compare", run.shared), 1, "metrics.csv")


def test_numbers_of_sampled_games_are_those_that_were_measured(tmp_path: Path) -> None:
    """Measured after iterations 1, 4 and 6: within 5 iterations the number of iteration 4 counts, and says so."""
    nan = np.nan
    scores = [[0.1, nan, nan, 0.4, nan, 0.6]]
    logged(tmp_path / "a", scores, score_random=scores, preset="a")
    logged(tmp_path / "b", [scores[0][:5]], score_random=[[0.2, nan, nan, 0.3, 0.5]], config=GemsConfig(eta=1.0))
    comparison = compare_runs([tmp_path], metric="score_random", axes=("iterations",))
    line = lines_of(comparison, "iteration")["gems a"]
    assert (line.budget, line.mean.mean, line.iterations) == (5, 0.4, (4,))
    curve = draw_comparison(comparison, "kuhn_poker").axes[0].lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), [1, 4, 6])
    np.testing.assert_allclose(curve.get_ydata(), [0.1, 0.4, 0.6])
    assert curve.get_marker() not in ("", "None") and curve.get_markevery() == 1


def test_a_run_has_no_number_before_its_first_iteration_ended(tmp_path: Path) -> None:
    """b's first iteration takes 10 seconds, a's three take 3: at 3 seconds there is no number of b."""
    logged(tmp_path / "a", [[3.0, 2.0, 1.0]], preset="a")
    logged(tmp_path / "b", [[0.5, 0.4, 0.3]], seconds=10.0, preset="b", config=GemsConfig(eta=1.0))
    comparison = compare_runs([tmp_path], axes=("seconds",))
    line = lines_of(comparison, "seconds")["gems b"]
    assert np.isnan(line.mean.mean) and line.iterations == ()
    assert "| gems b | 3.0 seconds | 1 | – | – | – |" in comparison_markdown(comparison)


@pytest.mark.parametrize(
    ("metric", "direction", "scale"),
    [("exploitability", "lower is better", "log"), ("score_random", "higher is better", "linear")],
)
def test_the_direction_of_the_metric_is_known(tmp_path: Path, metric: str, direction: str, scale: str) -> None:
    logged(tmp_path / "a", [[0.5, 0.6]], score_random=[[0.5, 0.6]])
    comparison = compare_runs([tmp_path], metric=metric, axes=("iterations",))
    assert comparison_markdown(comparison).splitlines()[0].endswith(direction)
    assert json.loads(write_comparison(comparison, tmp_path / "out")[2].read_text())["direction"] == direction
    (axis,) = draw_comparison(comparison, "kuhn_poker").axes
    assert direction in axis.get_ylabel() and axis.get_yscale() == scale


def test_two_runs_of_one_seed_are_one_seed(tmp_path: Path) -> None:
    """The longer one counts, and a run without rows is skipped: a sentence says so."""
    logged(tmp_path / "a", [[1.0, 0.5]])
    logged(tmp_path / "b", [[1.0, 0.5, 0.2]])
    create_run(game="kuhn_poker", method="gems", config=GemsConfig(), seeds=[0], iterations=1, path=tmp_path / "c")
    comparison = compare_runs([tmp_path])
    line = lines_of(comparison, "iteration")["gems"]
    assert (line.seeds, line.budget, line.mean.mean) == (1, 3, 0.2)
    empty, repeated = comparison.notes
    assert "c was skipped: it has no rows yet" in empty
    assert "a was skipped: it repeats seed 0 of " in repeated and str(tmp_path / "b") in repeated
    said = call("compare", tmp_path, "--output", tmp_path / "out")
    assert said.code == 0 and all(note in said.out for note in comparison.notes)
