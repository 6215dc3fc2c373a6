"""Ablations one factor at a time, and the figures of many arms and of what they cost."""

import numpy as np
import pytest

from experiments.figures.ablation import grid, strip
from experiments.harness.ablation import levels, one_at_a_time
from experiments.harness.spec import Arm


def rows(end: float = 1.0, seeds: int = 2, iterations: int = 6, bytes_each: float = 1000.0) -> dict[str, np.ndarray]:
    iteration = np.tile(np.arange(1, iterations + 1), (seeds, 1))
    return {
        "iteration": iteration,
        "seconds": 0.5 * iteration,
        "nash_conv": np.full(iteration.shape, end) + np.arange(seeds)[:, None] * 0.1,
        "memory_mb": 500.0 + iteration,
        "parameter_bytes": np.full(iteration.shape, bytes_each),
        "payoff_bytes": bytes_each * iteration,
        "meta_bytes": np.full(iteration.shape, 24.0),
    }


def test_one_factor_at_a_time() -> None:
    base = Arm("paper", preset="paper", overrides={"eta": 0.03})
    found = one_at_a_time(base, {"steps": levels("abr_steps", 0, 10), "pools": [{"mutations": 1, "randoms": 2}]})
    assert [arm.label for arm in found.arms] == ["paper", "abr_steps 0", "abr_steps 10", "mutations 1, randoms 2"]
    assert found.arms[3].overrides == {"eta": 0.03, "mutations": 1, "randoms": 2} and found.arms[3].preset == "paper"
    assert found.groups == (
        ("steps", ("paper", "abr_steps 0", "abr_steps 10")),
        ("pools", ("paper", "mutations 1, randoms 2")),
    )


def test_a_strip_has_the_means_beside_the_base() -> None:
    curves = {"paper": rows(1.0), "eta 2": rows(3.0), "a 1, b 5": rows(7.0)}
    groups = (("eta (1)", ("paper", "eta 2")), ("pools", ("paper", "a 1, b 5")))
    figure = strip(curves, ["nash_conv"], groups)
    top, below = figure.axes
    assert [label.get_text() for label in below.get_xticklabels()] == ["paper", "2", "paper", "1, 5"]
    marks = [line.get_xydata()[0].tolist() for line in top.lines if line.get_marker() in "so"]
    np.testing.assert_allclose(marks, [[0, 1.05], [1, 3.05], [3, 1.05], [4, 7.05]])
    dotted = [
        line for line in top.lines if len(line.get_xydata()) == 2 and line.get_xydata()[0, 1] == pytest.approx(1.05)
    ]
    assert dotted and [text.get_text() for text in top.texts] == ["eta\n(1)", "pools"]
    # 0.5 s an iteration of two seeds
    np.testing.assert_allclose([line.get_ydata()[0] for line in below.lines if line.get_marker() in "so"], 250.0)


def test_many_arms_get_a_panel_each() -> None:
    curves = {f"arm {n}": rows(1.0 + n) for n in range(12)}
    figure = grid(curves, "nash_conv", "NashConv", [("uniform", 2.0)], (("all", tuple(curves)),))
    shown = [axis for axis in figure.axes if axis.axison]
    assert [axis.get_title() for axis in shown] == list(curves)
    assert "250 ms, 7.02 kB" in [text.get_text() for text in shown[0].texts]
    assert len({axis.get_ylim() for axis in shown}) == 1
