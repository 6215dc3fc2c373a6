"""Figures of an experiment: those of its arms together, with references and bars, and those that compare arms."""

from pathlib import Path

import numpy as np

from experiments.figures import Layout, draw_experiment
from experiments.figures.arms import dependence
from gems_jax.viz.figures import BUDGET


def make_rows(seeds: int = 3, iterations: int = 12, level: float = 0.1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seeds)
    iteration = np.tile(np.arange(1, iterations + 1), (seeds, 1))
    gap = level + 0.4 * np.exp(-iteration / 4) * generator.uniform(0.8, 1.2, iteration.shape)
    terms = {column: gap / len(BUDGET) for column, *_ in BUDGET}
    return {
        "iteration": iteration,
        "seconds": iteration * 0.5,
        "exploitability": gap,
        "budget_total": gap,
        "monte_carlo_error": gap / 3,
        "coop": np.full(iteration.shape, 0.2),
        **terms,
    }


CURVES = {"paper": make_rows(), "tuned": make_rows(level=0.01)}
LAYOUT = Layout(headline="exploitability", convention="exploitability = NashConv / 2 (chips)", unit="chips")


def test_all_figures_of_an_experiment(tmp_path: Path) -> None:
    """One file for each, PNGs of a few kilobytes, also against minutes and with references and bars."""
    layout = LAYOUT._replace(
        references=(("uniform play", 0.458),), panels=("coop", "nothing"), bounds={"coop": [("at most", 0.25)]},
        over_time=True,
    )  # fmt: skip
    paths = draw_experiment(CURVES, tmp_path / "figures", layout)
    assert [path.name for path in paths] == ["exploitability.png", "outcomes.png", "error_budget.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size < 200_000 for path in paths)


def test_the_headline_against_what_the_arms_differ_in(tmp_path: Path) -> None:
    """A point for each arm, at its number; the terms beside it; one seed has no band."""
    figure = dependence(CURVES, "exploitability", "gap", ("episodes", (2, 32)))
    left, right = figure.axes
    (x, y), *_ = (line.get_data() for line in left.lines)
    np.testing.assert_array_equal(x, [2, 32])
    np.testing.assert_allclose(y, [rows["exploitability"][:, -5:].mean() for rows in CURVES.values()])
    assert len(left.collections) == 1 and left.get_xlabel() == right.get_xlabel() == "episodes"
    assert [line.get_label() for line in right.lines][0] == "meta regret" and len(right.lines) == 4
    one = {arm: {name: values[:1] for name, values in rows.items()} for arm, rows in CURVES.items()}
    assert not dependence(one, "exploitability", "gap", ("episodes", (2, 32))).axes[0].collections
    drawn = draw_experiment(CURVES, tmp_path, LAYOUT._replace(against=("episodes", (2, 32))))
    assert "against.png" in [path.name for path in drawn]
