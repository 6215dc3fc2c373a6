"""What figures are put together from: styles, panels, curves with their bands, ticks, legends, a file.

Arms differ by colour (the Okabe-Ito set, safe for colour-blind readers), line style and marker, so that they can be
told apart in black and white too. matplotlib is loaded on first use.
"""

from __future__ import annotations

import io
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.evaluate.statistics import mean_band
from gems_jax.runner.errors import writing

DPI = 130


class Style(NamedTuple):
    color: str
    line: Any
    marker: str


STYLES = (
    Style("#0072B2", "-", "o"),
    Style("#D55E00", (0, (5, 1.5)), "s"),
    Style("#009E73", (0, (1, 1)), "^"),
    Style("#CC79A7", (0, (5, 1, 1, 1)), "D"),
    Style("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "v"),
    Style("#56B4E9", (0, (8, 2)), "P"),
    Style("#000000", (0, (2, 2)), "X"),
    Style("#8B4513", (0, (6, 1, 1, 1, 1, 1)), "<"),
    Style("#7F7F7F", (0, (4, 2)), ">"),
    Style("#5D3A9B", (0, (1, 2)), "*"),
    Style("#A6761D", (0, (10, 1, 2, 1)), "h"),
)


def panels_of(
    rows: int, columns: int, width: float, height: float, sharey: bool = False, sharex: bool = True
) -> tuple[Any, Any]:
    """A figure of its own, without pyplot's global state, so that no display and no backend is asked for."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(
            rows, columns, sharey="row" if sharey else False, sharex=sharex and rows > 1, squeeze=False
        )
    return figure, axes


def legend(figure: Any, axis: Any, title: str | None = None, columns: int | None = None) -> None:
    """One legend for all panels, below them."""
    handles, names = axis.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=columns or min(len(names), 5), fontsize=8, frameon=False,
        title=title, title_fontsize=8, handlelength=3.5,
    )  # fmt: skip


def of_seeds(seeds: int, cut: str = "") -> str:
    """What lines and bands mean."""
    return (
        f"thick lines: mean over seeds; bands: its 95 % interval{cut}; thin lines: seeds" if seeds > 1 else "one seed"
    )


def halo() -> list[Any]:
    """White around a line or a text, so that it can be read on any ground."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground="white")]


def styles_of(curves: Sized) -> list[Style]:
    """One style for each."""
    return [STYLES[position % len(STYLES)] for position in range(len(curves))]


def draw_curve(
    axis: Any, x: np.ndarray, values: np.ndarray, style: Style, label: str, log: bool = False, thin: bool = True
) -> None:
    """values: [seeds, n]. `thin`: a line for every seed."""
    mean, low, high = mean_band(values)
    if len(values) > 1:
        for seed in values if thin else ():
            axis.plot(x, seed, color=style.color, linewidth=0.5, alpha=0.35, zorder=2)
        # A symmetric interval may reach below zero, which a logarithmic axis has no place for.
        low = np.maximum(low, np.maximum(values.min(axis=0), 1e-12)) if log else low
        axis.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)
    axis.plot(
        x, mean, color=style.color, linestyle=style.line, linewidth=1.8, marker=style.marker, markersize=4,
        markevery=max(len(x) // 8, 1), label=label, zorder=3,
    )  # fmt: skip


def draw_grid(axis: Any) -> None:
    """Draws faint lines at the major ticks."""
    axis.grid(True, color="0.9", linewidth=0.6)


def draw_reference(axis: Any, value: float, label: str | None = None) -> None:
    """Draws a dotted level to hold curves against."""
    axis.axhline(value, color="0.35", linewidth=0.8, linestyle=(0, (1, 3)), zorder=1, label=label)


def write_beside_line(axis: Any, value: float, text: str, above: bool = True) -> None:
    """Writes what the level at `value` is, at its right end."""
    axis.annotate(
        text, (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 2 if above else -2),
        textcoords="offset points", ha="right", va="bottom" if above else "top", fontsize=7, color="0.2", zorder=5,
        path_effects=halo(),
    )  # fmt: skip


def along_iterations(axis: Any) -> None:
    """Iterations along x: there is no half of one."""
    axis.set_xlabel("iteration")
    axis.xaxis.get_major_locator().set_params(integer=True)


def bound_below(axis: Any, values: Sequence[np.ndarray], lines: Sequence[float]) -> None:
    """The lowest seed or reference decides, not the end of a band: that may go down to zero.

    What is less than 1e-5 of the highest is rounding, and not shown.
    """
    positive = np.concatenate([*(value[value > 0].ravel() for value in values), np.asarray(lines, float)])
    if positive.size:
        axis.set_ylim(max(positive.min() / 1.5, positive.max() * 1e-5), positive.max() * 1.4)


def plain_log_ticks(axis: Any, sparse: float = 1000.0) -> None:
    """0.01, 0.02, 0.05, 0.1 instead of powers of ten; only tens where the axis spans more than `sparse` times."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    steps = (1.0,) if high > sparse * low else (1.0, 2.0, 5.0) if high > 5 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save_figure(figure: Any, path: Path) -> Path:
    """A PNG with a palette: a third of the size, and no difference to the eye."""
    from matplotlib import rc_context
    from PIL import Image

    buffer = io.BytesIO()
    with rc_context({"hatch.linewidth": 0.5}):
        figure.savefig(buffer, dpi=DPI, format="png")
    image = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    with writing(path):
        image.save(path, optimize=True)
    return path
