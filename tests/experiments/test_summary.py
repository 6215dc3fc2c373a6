"""What arms come to: tables by hand, of one seed, ranked by groups, and a panel for each group."""

import dataclasses
from pathlib import Path

import numpy as np

from experiments.figures import Layout, draw_experiment
from experiments.figures.arms import league
from experiments.harness.summary import ArmResult, comparison, marks, ranking, records


def test_table_by_hand() -> None:
    """Two arms of two seeds; the second lacks a metric and is shorter."""
    iteration = np.tile(np.arange(1, 5), (2, 1))
    first = {
        "iteration": iteration,
        "gap": np.array([[4.0, 3, 2, 1], [4, 3, 2, 2]]),
        "total_episodes": iteration * 1000,
        "total_env_steps": iteration * 2_500_000,
        "seconds": iteration * 0.5,
    }
    second = {"iteration": iteration[:, :2], "seconds": iteration[:, :2] * 1.0}
    table = comparison([ArmResult("a", first, 7.25), ArmResult("b", second, 0.5)], ["gap"], (1, 10))
    assert table.header == ("", "iteration", "a", "b")
    assert table.rows == (
        ("gap", "1", "4.0000, 4.0000", ""),
        ("", "4", "1.0000, 2.0000", ""),
        ("episodes per seed", "4", "4k", ""),
        ("env steps per seed", "4", "10M", ""),
        ("seconds, all seeds", "4", "2.0", "2.0"),
        ("compile seconds", "", "7.2", "0.5"),
    )
    assert "both values of 2 seeds; seconds exclude compilation" in table.caption
    assert table.markdown().splitlines()[2] == "| gap | 1 | 4.0000, 4.0000 |  |"
    assert marks((1, 10, 20, 40), 8) == (1, 8)


def test_one_seed_has_the_interval_of_its_episodes():
    """With several seeds the interval is between them, and that of the episodes is left alone."""
    rows = {
        "iteration": np.asarray([[1, 2]]),
        "win": np.asarray([[0.5, 0.9]]),
        "win_interval": np.asarray([[0.1, 0.02]]),
    }
    alone = ArmResult("a", rows, 1.0)
    np.testing.assert_allclose(alone.at("win", 2), (0.9, 0.88, 0.92))
    assert alone.sampled and "of the measured episodes" in comparison([alone], ("win",), (1, 2)).caption
    assert ("", "2", "0.9000 ± 0.0200") in comparison([alone], ("win",), (1, 2)).rows
    several = ArmResult("b", {name: np.repeat(values, 3, axis=0) for name, values in rows.items()}, 1.0)
    assert several.at("win", 2).half_width == 0.0 and not several.sampled


def test_numbers_are_reported_where_they_were_measured():
    """Measured after iterations 1, 4 and 6: nothing is reported at 5 or under the name of another iteration."""
    win = np.full((1, 6), np.nan)
    win[0, [0, 3, 5]] = 0.1, 0.4, 0.6
    played = ArmResult("a", {"iteration": np.arange(1, 7)[None], "win": win, "seconds": np.ones((1, 6))}, 1.0)
    table = comparison([played], ["win"], (1, 5, 6))
    assert [row[1:] for row in table.rows[:3]] == [("1", "0.1000"), ("4", "0.4000"), ("6", "0.6000")]
    found = [(one["iteration"], one["mean"]) for one in records([played], (5,)) if one["column"] == "win"]
    assert found == [(4, 0.4), (6, 0.6)]
    assert played.at("win", 5) is None and played.text("win", 5) == ""


def arm(label: str, end: float, **columns: float) -> ArmResult:
    """Four seeds, two iterations: the headline goes from 1 to `end`, all else stays."""
    rows = {"iteration": np.array([[1, 2]] * 4), "exploitability": np.array([[1.0, end]] * 4)}
    return ArmResult(label, rows | {name: np.full((4, 2), value) for name, value in columns.items()}, 3.0)


def test_a_ranking_by_hand() -> None:
    """The best of each group first; bytes are added up, seconds exclude compilation, what is not logged is left out."""
    big = arm("big", 0.1, env_steps=1500, gradient_steps=20, seconds=7, parameter_bytes=2000, payoff_bytes=500)
    small = arm("small", 0.3, env_steps=90, seconds=1, parameter_bytes=100, meta_bytes=100)
    groups = [("A", ["small", "big"]), ("B", ["other"])]
    table = ranking([small, big, arm("other", 0.2, seconds=0)], ["exploitability"], [1], groups)
    assert table.header == ("exploitability", "#", "at 1", "at 2", "steps", "updates", "s", "kB", "payoffs")
    assert [row[0].strip() for row in table.rows] == ["A", "big", "small", "B", "other"] and table.sections == (2, 4)
    assert table.rows[1][1:] == ("1", "1.0000", "0.1000 ± 0.0000", "1.5k", "20", "7", "2.5", "0.5")
    assert table.rows[2][4:] == ("90", "", "1", "0.2", "0.0")
    assert table.rows[4][1] == "1"
    each = ranking([small, big], ["exploitability"], [1], groups[:1], each=True)
    assert each.header[6] == "ms" and each.rows[1][6] == "875"  # 7 s of two iterations of four seeds


def test_an_arm_is_ranked_by_the_profile_that_its_method_puts_forward() -> None:
    """0.3 and 0.1 in the average against 0.2: first by its average, which has the interval then."""
    last, average = arm("last", 0.2, exploitability_average=0.4, seconds=1), arm("average", 0.3, seconds=1)
    average.rows["exploitability_average"] = np.array([[1.0, 0.1]] * 4)
    metrics, groups = ["exploitability", "exploitability_average"], [("A", ["last", "average"])]
    table = ranking([last, dataclasses.replace(average, profile="average")], metrics, [2], groups)
    assert [row[:4] for row in table.rows[1:]] == [
        ("  average", "1", "0.3000", "0.1000 ± 0.0000"),
        ("  last", "2", "0.2000 ± 0.0000", "0.4000"),
    ]
    assert "of the profile that ranks an arm" in table.caption
    shown = dataclasses.replace(average, profile="average").rows_put_forward("exploitability")["exploitability"]
    np.testing.assert_array_equal(shown, [[1.0, 0.1]] * 4)


def test_a_panel_for_each_group(tmp_path: Path) -> None:
    curves = {label: arm(label, end).rows for label, end in (("a", 0.1), ("b", 0.2), ("c", 0.3))}
    groups = (("few steps", ("a", "b")), ("many", ("c",)))
    figure = league(curves, "exploitability", "gap", [("uniform play", 0.5)], groups)
    assert [axis.get_title() for axis in figure.axes] == ["few steps", "many"]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["a", "b", "uniform play"]
    drawn = draw_experiment(curves, tmp_path, Layout(headline="exploitability", groups=groups))
    assert [path.name for path in drawn] == ["exploitability.png"]
