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
    found = {each.label: each for each in group_seeds(collect_seeds([tmp_path, tmp_path / "c"]))}
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
    assert "| kuhn_poker | gems tuned | 3 iterations | 2 | 0.1500 [0.1000, 0.2000]" in comparison_markdown(comparison)
    axes = draw_comparison(comparison, "kuhn_poker").axes
    assert [axis.get_xlabel() for axis in axes] == ["iterations", "env steps", "seconds"]
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), [1.05, 0.55, 0.15])  # the mean of two is their IQM


def test_mistakes(tmp_path: Path) -> None:
    logged(tmp_path / "a", [[1.0]], extra=[[2.0]])
    logged(tmp_path / "b", [[1.0]])
    with pytest.raises(CompareError, match="b/?.* has no column 'extra'; all these runs have: exploitability"):
        compare_runs([tmp_path], metric="extra")
    with pytest.raises(CompareError, match="no run at .*nowhere"):
        compare_runs([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    assert_one_line(call("compare", tmp_path / "empty"), 2, "holds no run")
    assert_one_line(call("compare"), 2, "which runs?")
    run = create_run(
        game="kuhn_poker", method="gems", config=GemsConfig(), seeds=[0], iterations=1, path=tmp_path / "c"
    )
    assert_one_line(call("compare", run.shared), 1, "has no metrics.csv yet")
    (run.shared / "metrics.csv").write_text("iteration,exploitability\n1,abc\n")
    assert_one_line(call("compare", run.shared), 1, "metrics.csv")
