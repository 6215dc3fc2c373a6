"""Figures are drawn from rows alone, with every curve, axis and convention on them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gems_jax.viz import figures
from gems_jax.viz.plotting import make_panels, save_figure


def make_rows(seeds: int = 3, iterations: int = 12, level: float = 0.1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seeds)
    iteration = np.tile(np.arange(1, iterations + 1), (seeds, 1))
    gap = level + 0.4 * np.exp(-iteration / 4) * generator.uniform(0.8, 1.2, iteration.shape)
    shares = generator.dirichlet(np.ones(4), iteration.shape)
    return {
        "iteration": iteration,
        "seconds": iteration * 0.5,
        "exploitability": gap,
        "budget_total": gap,
        "monte_carlo_error": gap / 3,
        "forgetting_kl": iteration * 0.01,
        "forgetting_value": -iteration * 0.002,
        "effective_policies": 1.0 + np.log(iteration),
        **{column: gap * shares[..., n] for n, (column, *_) in enumerate(figures.BUDGET)},
    }


CURVES = {"paper": make_rows(), "tuned": make_rows(level=0.01)}


def draw(curves, folder: Path, **options) -> list[Path]:
    return figures.draw_run(curves, folder, **({"headline": "exploitability"} | options))


def test_figures_are_small_images(tmp_path: Path) -> None:
    from PIL import Image

    paths = draw(CURVES, tmp_path / "figures")
    assert [path.name for path in paths] == ["exploitability.png", "error_budget.png", "forgetting.png"]
    for path in paths:
        assert path.stat().st_size < 200_000
        with Image.open(path) as image:
            assert image.format == "PNG" and image.width > 600
            assert len(image.convert("RGB").getcolors(1 << 16)) > 20  # something is drawn


def test_only_what_the_rows_hold(tmp_path: Path) -> None:
    plain = {name: CURVES["paper"][name] for name in ("iteration", "seconds", "exploitability")}
    assert [path.name for path in draw({"a": plain}, tmp_path)] == ["exploitability.png"]
    # an arm without the columns does not keep the others from being drawn
    assert len(draw({"a": plain, "b": CURVES["tuned"]}, tmp_path)) == 3
    assert draw({"a": {name: plain[name] for name in ("iteration", "seconds")}}, tmp_path) == []


def test_convergence_shows_mean_band_seeds_and_references() -> None:
    references = (("uniform play", 0.458), ("exact", 0.007))
    figure = figures.draw_convergence(CURVES, "exploitability", "exploitability (chips)", references)
    by_iteration, by_seconds = figure.axes
    for axis, x in ((by_iteration, CURVES["paper"]["iteration"][0]), (by_seconds, CURVES["paper"]["seconds"][0])):
        assert axis.get_yscale() == "log"
        means = [line for line in axis.lines if line.get_label() in CURVES]
        assert [line.get_label() for line in means] == ["paper", "tuned"]
        for line in means:
            np.testing.assert_allclose(line.get_xdata(), x)
            np.testing.assert_allclose(line.get_ydata(), CURVES[line.get_label()]["exploitability"].mean(axis=0))
        seeds = 3 if axis is by_iteration else 0  # thin lines
        assert len(axis.lines) == 2 * (seeds + 1) + len(references) and len(axis.collections) == 2
        for band, rows in zip(axis.collections, CURVES.values(), strict=True):
            lowest, highest = np.sort(np.concatenate([path.vertices[:, 1] for path in band.get_paths()]))[[0, -1]]
            assert lowest >= rows["exploitability"].min() and highest >= rows["exploitability"].mean(axis=0).max()
    assert (
        by_iteration.get_ylabel() == "exploitability (chips) (log scale)" and by_iteration.get_xlabel() == "iteration"
    )
    assert by_seconds.get_xscale() == "log" and "all 3 seeds together" in by_seconds.get_xlabel()
    assert [text.get_text() for text in by_iteration.texts] == ["uniform play: 0.458", "exact: 0.007"]
    low, high = by_iteration.get_ylim()
    assert low < 0.007 and high > 0.458


def test_outcomes_have_a_panel_each_and_their_bars(tmp_path: Path) -> None:
    curves = {"a": {**make_rows(), "coop": np.full((3, 12), 0.2), "value_sender": np.zeros((3, 12))}, "b": make_rows()}
    bounds = {"coop": [("at most", 0.25), ("at least", 0.1)]}
    figure = figures.draw_outcomes(curves, ("coop", "value_sender"), "chips", bounds)
    coop, sender = figure.axes
    assert coop.get_ylabel() == "cooperation" and sender.get_ylabel() == "sender's value (chips)"
    assert coop.get_yscale() == "linear" and [line.get_label() for line in coop.lines if line.get_label() == "a"] == [
        "a"
    ]
    assert [text.get_text() for text in coop.texts] == ["bar: at most 0.25", "bar: at least 0.1"] and not sender.texts
    paths = draw(curves, tmp_path, panels=("coop", "nothing"))
    assert [path.name for path in paths] == ["exploitability.png", "outcomes.png", "error_budget.png", "forgetting.png"]
    assert len(draw({"b": make_rows()}, tmp_path, panels=("coop",))) == 3


def test_rounding_does_not_stretch_the_axis() -> None:
    rows = {**make_rows(), "exploitability": np.geomspace(1.0, 1e-12, 36).reshape(3, 12)}
    axis = figures.draw_convergence({"a": rows}, "exploitability", "gap", ()).axes[0]
    assert axis.get_ylim()[0] == pytest.approx(1e-5) and axis.get_ylim()[1] > 1.0


def test_arms_differ_without_colour() -> None:
    assert len({(str(style.line), style.marker) for style in figures.STYLES}) == len(figures.STYLES)
    assert len({str(style.line) for style in figures.STYLES}) == len(figures.STYLES)
    assert len({hatch for *_, hatch in figures.BUDGET}) == len(figures.BUDGET)


def test_budget_is_stacked_to_its_sum() -> None:
    figure = figures.stack_error_budget(CURVES, "chips")
    above, below = figure.axes[:2], figure.axes[2:]
    assert [axis.get_title() for axis in above] == ["paper", "tuned"]
    for axis, rows in zip(above, CURVES.values(), strict=True):
        top = max(path.vertices[:, 1].max() for area in axis.collections for path in area.get_paths())
        np.testing.assert_allclose(top, rows["budget_total"].mean(axis=0).max())
        assert len(axis.collections) == 4 and axis.get_ylim()[0] == 0
    assert all(axis.get_ylim() == (0, 100) for axis in below)
    assert "chips" in above[0].get_ylabel()


def test_one_seed_and_one_iteration(tmp_path: Path) -> None:
    assert len(draw({"a": make_rows(seeds=1)}, tmp_path)) == 3
    assert len(draw({"a": make_rows(seeds=2, iterations=1)}, tmp_path)) == 3


@pytest.mark.parametrize("level", [0.0, -0.5])
def test_values_that_a_logarithm_cannot_show(tmp_path: Path, level: float) -> None:
    rows = {**make_rows(), "exploitability": np.full((3, 12), level)}
    assert len(draw({"a": rows}, tmp_path)) == 3


def test_matplotlib_is_loaded_on_first_use_only() -> None:
    code = "import sys, gems_jax.viz.figures, experiments.harness.experiment; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def cost_rows(seeds: int = 2, iterations: int = 6, bytes_each: float = 1000.0) -> dict[str, np.ndarray]:
    iteration = np.tile(np.arange(1, iterations + 1), (seeds, 1))
    return {
        "iteration": iteration,
        "seconds": 0.5 * iteration,
        "memory_mb": 500.0 + iteration,
        "parameter_bytes": np.full(iteration.shape, bytes_each),
        "payoff_bytes": bytes_each * iteration,
        "meta_bytes": np.full(iteration.shape, 24.0),
    }


def test_what_is_held_and_what_is_spent() -> None:
    np.testing.assert_allclose(figures.held_bytes(cost_rows())[0, [0, -1]], [2024.0, 7024.0])
    assert figures.held_bytes({"iteration": np.ones((1, 1))}) is None
    assert figures.has_costs({"a": cost_rows()}) and not figures.has_costs({"a": cost_rows(iterations=1)})
    np.testing.assert_allclose(figures.smooth(np.asarray([[1.0, 1.0, 90.0, 1.0, 1.0, 1.0]])), 1.0)
    (total, each, held, grown) = figures.draw_resources({"gems": cost_rows(), "once": cost_rows(iterations=1)}).axes
    assert [len(axis.lines) for axis in (total, each, held, grown)] == [1, 1, 1, 1]
    np.testing.assert_allclose(total.lines[0].get_ydata()[-1], 1.5)  # 3 s of two seeds
    np.testing.assert_allclose(each.lines[0].get_ydata(), 0.25)
    np.testing.assert_allclose(held.lines[0].get_ydata()[[0, -1]], [2.024, 7.024])
    np.testing.assert_allclose(grown.lines[0].get_ydata()[[0, -1]], [0.0, 5.0])


def test_powers_are_typeset_and_names_are_not(tmp_path: Path) -> None:
    figure, axes = make_panels(1, 1, 2, 2)
    axis = axes[0, 0]
    axis.set_yscale("log")
    axis.plot([1, 2], [1e-6, 1.0])
    axis.set_title("$name_1$")
    save_figure(figure, tmp_path / "powers.png")
    figure.draw_without_rendering()
    ticks = [label for label in axis.get_yticklabels() if label.get_text()]
    assert ticks and all(label.get_parse_math() for label in ticks)
    assert not axis.title.get_parse_math()
