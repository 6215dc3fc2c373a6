"""Parts of figures: styles, panels, curves with bands, ticks, legends, files.

Arms differ by color (the Okabe-Ito set, safe for color-blind readers), line style and marker, so that they are distinct
in grayscale as well. matplotlib is loaded on first use.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.evaluate.statistics import LEAST_SEEDS, mean_band
from gems_jax.runner.errors import report_write_errors

DPI = 130
_TICK = re.compile(r"\$\\mathdefault\{[\w{}^.\\\u2212-]*\}\$")  # what matplotlib writes for powers of ten


class Style(NamedTuple):
    """Color, line style and marker of a curve."""

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


def silence_matplotlib() -> None:
    """Silences warnings that matplotlib builds its font cache, or cannot write its folder, unless a level is set."""
    logger = logging.getLogger("matplotlib")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)


def make_panels(
    rows: int, columns: int, width: float, height: float, sharey: bool = False, sharex: bool = True
) -> tuple[Any, Any]:
    """Makes a figure with panels, without pyplot's global state, so that no display is needed.

    Args:
      rows: rows of panels.
      columns: columns of panels.
      width: width in inches.
      height: height in inches.
      sharey: share the y axis within rows.
      sharex: share the x axis within columns.

    Returns:
      The figure, and its axes [rows, columns].
    """
    silence_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(
            rows, columns, sharey="row" if sharey else False, sharex=sharex and rows > 1, squeeze=False
        )
    return figure, axes


def add_legend(figure: Any, axis: Any, title: str | None = None, columns: int | None = None) -> None:
    """Adds one legend for all panels, below them, with the handles of `axis`."""
    handles, names = axis.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=columns or min(len(names), 5), fontsize=8, frameon=False,
        title=title, title_fontsize=8, handlelength=3.5,
    )  # fmt: skip


def describe_seeds(seeds: int, cut: str = "") -> str:
    """Describes the lines and bands of so many seeds; `cut` is appended to the description of bands."""
    if seeds >= LEAST_SEEDS:
        return f"thick lines: mean over seeds; bands: its 95 % interval{cut}; thin lines: seeds"
    return "thick lines: mean of two seeds; thin lines: the seeds" if seeds == 2 else "one seed"


def halo() -> list[Any]:
    """Returns a white outline for a line or text, which makes it readable on any background."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground="white")]


def choose_styles(curves: Sized) -> list[Style]:
    """Assigns a style to each curve, in order."""
    return [STYLES[position % len(STYLES)] for position in range(len(curves))]


def draw_curve(
    axis: Any,
    x: np.ndarray,
    values: np.ndarray,
    style: Style,
    label: str,
    log: bool = False,
    thin: bool = True,
    every_point: bool = False,
) -> None:
    """Draws the mean of a curve, its 95 % band from three seeds on, and its seeds.

    Args:
      axis: axes of matplotlib.
      x: x values [n].
      values: y values [seeds, n].
      style: style of the curve.
      label: label for the legend.
      log: clip the band at the lowest seed, for a logarithmic axis.
      thin: draw a thin line for every seed.
      every_point: mark every point, for a curve that is measured at some iterations only.
    """
    mean, low, high = mean_band(values)
    if len(values) > 1 and thin:
        for seed in values:
            axis.plot(x, seed, color=style.color, linewidth=0.5, alpha=0.35, zorder=2)
    if len(values) >= LEAST_SEEDS:
        # A symmetric interval may reach below zero, which a logarithmic axis cannot show.
        low = np.maximum(low, np.maximum(values.min(axis=0), 1e-12)) if log else low
        axis.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)
    axis.plot(
        x, mean, color=style.color, linestyle=style.line, linewidth=1.8, marker=style.marker, markersize=4,
        markevery=1 if every_point else max(len(x) // 8, 1), label=label, zorder=3,
    )  # fmt: skip


def draw_grid(axis: Any) -> None:
    """Draws faint lines at the major ticks."""
    axis.grid(True, color="0.9", linewidth=0.6)


def draw_reference(axis: Any, value: float, label: str | None = None) -> None:
    """Draws a dotted horizontal reference line."""
    axis.axhline(value, color="0.35", linewidth=0.8, linestyle=(0, (1, 3)), zorder=1, label=label)


def annotate_line(axis: Any, value: float, text: str, above: bool = True) -> None:
    """Writes a text above or below the horizontal line at `value`, at its right end."""
    axis.annotate(
        text, (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 2 if above else -2),
        textcoords="offset points", ha="right", va="bottom" if above else "top", fontsize=7, color="0.2", zorder=5,
        path_effects=halo(),
    )  # fmt: skip


def label_iterations(axis: Any) -> None:
    """Labels the x axis as iterations, with integer ticks."""
    axis.set_xlabel("iteration")
    axis.xaxis.get_major_locator().set_params(integer=True)


def set_lower_bound(axis: Any, values: Sequence[np.ndarray], lines: Sequence[float]) -> None:
    """Sets the y limits of a logarithmic axis by the seeds and references, not by bands, which may reach zero.

    Values below 1e-5 of the highest are rounding errors and are cut off.

    Args:
      axis: axes of matplotlib.
      values: values of all curves.
      lines: values of reference lines.
    """
    positive = np.concatenate([*(value[value > 0].ravel() for value in values), np.asarray(lines, float)])
    if positive.size:
        axis.set_ylim(max(positive.min() / 1.5, positive.max() * 1e-5), positive.max() * 1.4)


def widen_log_axis(axis: Any, factor: float = 10.0) -> None:
    """Widens a logarithmic y axis to at least this factor, so that a constant curve is flat and has ticks beside it."""
    low, high = axis.get_ylim()
    if high < factor * low:
        middle, half = (low * high) ** 0.5, factor**0.5
        axis.set_ylim(middle / half, middle * half)


def set_log_ticks(axis: Any, sparse: float = 1000.0) -> None:
    """Sets ticks such as 0.01, 0.02, 0.05; only powers of ten if the axis spans a factor above `sparse`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    steps = (1.0,) if high > sparse * low else (1.0, 2.0, 5.0) if high > 5 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _disable_math(figure: Any) -> None:
    """Shows the texts of a figure as they are, dollar signs included: names of files and games are not formulas."""
    from matplotlib.text import Text

    def select(texts: list[Any]) -> None:
        for text in texts:
            text.set_parse_math(bool(_TICK.fullmatch(text.get_text())))

    select([text for text in figure.findobj(Text) if text.get_text()])
    figure.draw_without_rendering()  # the labels of ticks have no text before
    select(figure.findobj(Text))


def save_figure(figure: Any, path: Path) -> Path:
    """Writes a figure as a PNG with a palette, which has a third of the size, and returns the path."""
    from matplotlib import rc_context
    from PIL import Image

    _disable_math(figure)
    buffer = io.BytesIO()
    with rc_context({"hatch.linewidth": 0.5}):
        figure.savefig(buffer, dpi=DPI, format="png")
    image = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    with report_write_errors(path):
        image.save(path, optimize=True)
    return path
