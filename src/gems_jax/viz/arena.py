"""Tables, files and heat map of an arena (`evaluate/arena.py`): who plays how against whom."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.evaluate.arena import ArenaRanking, Match, Spread
from gems_jax.meta.elo import Elo
from gems_jax.runner.errors import report_write_errors
from gems_jax.runner.files import resolve, write_csv, write_json
from gems_jax.viz.plotting import make_panels, save_figure
from gems_jax.viz.tables import TextTable

PRINTED = 12  # entrants whose matrix fits a terminal
_CELL, _WIDEST_CELL = 0.42, 0.85  # sides of a cell of many and of few entrants, in inches
_RATINGS = 2.4  # width of the ratings, in inches
_LETTER = 0.078  # width of a letter of a label, in inches


def standings_table(ranking: ArenaRanking, labels: Sequence[str]) -> Any:
    """Builds the table of rich with one line per entrant, the best first.

    Args:
      ranking: the statistics.
      labels: names of the entrants [n].

    Returns:
      The table.
    """
    played_itself = not np.isnan(ranking.returns.mean.diagonal()).all()
    header = (
        "entrant", *(("Elo",) if ranking.elo else ()), *(("score",) if ranking.average_score else ()), "mean return",
        *(("self-play",) if played_itself else ()), "alpha-Rank",
    )  # fmt: skip
    rows = []
    for place, entrant in enumerate(ranking.order, 1):
        row = [_numbered(place, labels[entrant])]
        row += [_elo_cell(ranking.elo, entrant)] if ranking.elo else []
        row += [_spread_cell(ranking.average_score, entrant)] if ranking.average_score else []
        row += [_spread_cell(ranking.average_return, entrant)]
        row += [_spread_cell(ranking.returns, (entrant, entrant))] if played_itself else []
        rows.append((*row, f"{ranking.alpha_rank[entrant]:.3f}"))
    title = "ranking by Elo" if ranking.by_score else "ranking by mean return"
    return TextTable(header, tuple(rows), (), _ranking_caption(ranking)).rich(title)


def _numbered(place: int, label: str) -> str:
    return f"{place:>2} {label}"


def _ranking_caption(ranking: ArenaRanking) -> str:
    parts = ["[95 % interval, bootstrap over games]"]
    if ranking.elo is not None:
        largest = "all entrants" if not ranking.elo.group.any() else "the largest group linked by points"
        parts.append(f"Elo 0: mean of {largest}")
        if ranking.elo.group.any():
            parts.append("≥, ≤: bounds, because hardly a point was won across groups")
        if not ranking.by_score:
            parts.append("Elo and score count games won, whatever their stakes")
    return "; ".join(parts)


def _spread_cell(spread: Spread, index: Any) -> str:
    mean, low, high = (float(each[index]) for each in spread)
    return f"{_plain(mean)} [{_plain(low)}, {_plain(high)}]"


def _plain(value: float) -> str:
    """Formats a number with three digits after the point, fewer for large ones."""
    digits = max(0, 3 - max(0, int(math.log10(max(abs(value), 1.0)))))
    return f"{value + 0.0:.{digits}f}"


def _elo_cell(elo: Elo, entrant: int) -> str:
    rating, low, high, _ = (float(each[entrant]) for each in elo)
    if math.isinf(low) or math.isinf(high):
        return f"{'≤' if math.isinf(low) else '≥'} {rating:.0f}"
    return f"{rating:.0f} [{low:.0f}, {high:.0f}]"


def matrix_table(ranking: ArenaRanking, labels: Sequence[str]) -> Any:
    """Builds the cross-play matrix as a table of rich, rows and columns in the order of the ranking.

    Args:
      ranking: the statistics.
      labels: names of the entrants [n].

    Returns:
      The table, or a sentence if there are too many entrants for a terminal.
    """
    order = ranking.order
    if len(order) > PRINTED:
        return f"The matrix of {len(order)} entrants is in matrix.csv and arena.png."
    header = ("entrant", *(f"{place}" for place in range(1, len(order) + 1)))
    rows = [
        (_numbered(place, labels[row]), *(_matrix_cell(ranking, row, column) for column in order))
        for place, row in enumerate(order, 1)
    ]
    what = _quantity(ranking)
    return TextTable(header, tuple(rows), (), f"{what} of the row against the column, over all positions").rich(
        "cross-play"
    )


def _quantity(ranking: ArenaRanking) -> str:
    return "score (wins + draws / 2)" if ranking.by_score else "mean return"


def _matrix_cell(ranking: ArenaRanking, row: int, column: int) -> str:
    value = float(ranking.matrix.mean[row, column])
    return "–" if math.isnan(value) else _plain(value)


def write_arena(
    ranking: ArenaRanking,
    matches: Sequence[Match],
    labels: Sequence[str],
    record: Mapping[str, Any],
    folder: Path | None = None,
) -> list[Path]:
    """Writes arena.json, matrix.csv, ranking.csv and the heat map arena.png.

    Args:
      ranking: the statistics.
      matches: the matches behind them.
      labels: names of the entrants [n].
      record: what played and how, for arena.json; its `game` is the title of the heat map.
      folder: folder of the files (default: below runs/arena).

    Returns:
      The paths.
    """
    folder = folder or Path("runs") / "arena" / datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lines = _ranking_lines(ranking, labels)
    write_json(folder / "arena.json", resolve(_arena_record(ranking, matches, labels, record, lines)))
    write_csv(folder / "matrix.csv", _matrix_lines(ranking, labels))
    write_csv(folder / "ranking.csv", lines)
    figure = draw_arena(ranking, labels, str(record.get("game", "")))
    save_figure(figure, folder / "arena.png")
    return [folder / name for name in ("arena.json", "matrix.csv", "ranking.csv", "arena.png")]


def _ranking_lines(ranking: ArenaRanking, labels: Sequence[str]) -> list[dict[str, Any]]:
    columns: dict[str, Iterable[Any]] = {"entrant": labels}
    elo = Spread(*ranking.elo[:3]) if ranking.elo else None
    for name, spread in (("elo", elo), ("score", ranking.average_score), ("return", ranking.average_return)):
        if spread is not None:
            columns |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
    columns["alpha_rank"] = ranking.alpha_rank
    lines = [dict(zip(columns, map(resolve, line), strict=True)) for line in zip(*columns.values(), strict=True)]
    return [lines[entrant] for entrant in ranking.order]


def _matrix_lines(ranking: ArenaRanking, labels: Sequence[str]) -> list[dict[str, Any]]:
    order = ranking.order
    table = ranking.matrix.mean
    return [
        {"entrant": labels[row]}
        | {labels[column]: "" if np.isnan(table[row, column]) else float(table[row, column]) for column in order}
        for row in order
    ]


def _arena_record(
    ranking: ArenaRanking,
    matches: Sequence[Match],
    labels: Sequence[str],
    record: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    def spread(tables: Spread) -> dict[str, list[list[float | None]]]:
        """Converts tables to lists, in the order of the labels, with None for NaN."""
        return {
            end: [[None if np.isnan(value) else float(value) for value in row] for row in table]
            for end, table in tables._asdict().items()
        }

    played = [
        {
            "entrant": labels[match.row],
            "opponent": labels[match.column],
            "position": match.position,
            "games": match.games,
            "return": match.returns[0].mean(),
            "opponent_return": match.returns[1].mean(),
            **({"score": match.scores[0].mean()} if ranking.scores else {}),
        }
        for match in matches
    ]
    return {
        **record,
        "entrants": list(labels),
        "ranked_by": "score" if ranking.by_score else "return",
        "returns": spread(ranking.returns),
        **({"scores": spread(ranking.scores)} if ranking.scores else {}),
        "ranking": list(lines),
        "matches": played,
    }


def draw_arena(ranking: ArenaRanking, labels: Sequence[str], title: str = "") -> Any:
    """Draws the cross-play matrix as a heat map, beside the ratings or mean returns with their intervals.

    Args:
      ranking: the statistics.
      labels: names of the entrants [n].
      title: title of the figure.

    Returns:
      The figure of matplotlib.
    """
    names = [labels[entrant] for entrant in ranking.order]
    cell = min(_WIDEST_CELL, max(_CELL, 4.0 / len(names)))
    side, longest = cell * len(names), max(map(len, names)) * _LETTER
    upright = longest > 0.95 * cell  # names of columns are written upwards
    left, top, bottom, right = longest + 0.2, 0.45 + (longest if upright else 0.2), 0.65, _RATINGS + 0.45
    width, height = max(left + side + right, 5.4), top + side + bottom
    figure, ((heat, bars),) = make_panels(1, 2, width=width, height=height)
    figure.set_layout_engine("none")
    heat.set_position((left / width, bottom / height, side / width, side / height))
    bars.set_position(((left + side + 0.2) / width, bottom / height, _RATINGS / width, side / height))
    _draw_matrix(heat, ranking, names, 8.5 if cell > 0.6 else 7, 90 if upright else 0)
    _draw_ratings(bars, ranking)
    bars.set_ylim(*heat.get_ylim())
    what = _quantity(ranking)
    text = f"{title}: {what} of the row against the column".lstrip(": ")
    figure.text(0.5, 1.0 - 0.12 / height, text, ha="center", va="top", fontsize=10)
    return figure


def _draw_matrix(axis: Any, ranking: ArenaRanking, names: Sequence[str], size: float, rotation: float) -> None:
    """Draws the matrix with a number in every cell, the names of rows on the left and of columns on top."""
    from matplotlib import colormaps

    order, count = ranking.order, len(names)
    table = ranking.matrix.mean[np.ix_(order, order)]
    colors, low, high = _color_range(ranking, table)
    palette = colormaps[colors].with_extremes(bad="0.93")
    axis.imshow(np.ma.masked_invalid(table), cmap=palette, vmin=low, vmax=high, aspect="equal")
    for row in range(count):
        for column in range(count):
            value = table[row, column]
            if not np.isnan(value):
                red, green, blue, _ = palette((value - low) / (high - low))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
                axis.text(
                    column, row, _short(value, ranking.by_score), ha="center", va="center", fontsize=size,
                    color="white" if dark else "black",
                )  # fmt: skip
    axis.set_xticks(range(count), names, rotation=rotation)
    axis.set_yticks(range(count), names)
    axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axis.set_xticks(np.arange(1, count) - 0.5, minor=True)
    axis.set_yticks(np.arange(1, count) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=1.0)
    axis.tick_params(which="minor", length=0)
    for edge in axis.spines.values():
        edge.set_visible(False)


def _color_range(ranking: ArenaRanking, table: np.ndarray) -> tuple[str, float, float]:
    """Chooses colors and their range: symmetric around an even score, or around 0 if returns have both signs."""
    if ranking.by_score:
        return "RdBu", 0.0, 1.0
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    if low < 0.0 < high:
        return "RdBu", -max(-low, high), max(-low, high)
    return "viridis", low, high if high > low else low + 1.0


def _short(value: float, score: bool) -> str:
    """Formats a cell: a score with two digits, a return with three figures at most."""
    if score:
        return f"{value:.2f}"
    return f"{value + 0.0:.{0 if abs(value) >= 99.5 else 1 if abs(value) >= 9.95 else 2}f}"


def _draw_ratings(axis: Any, ranking: ArenaRanking) -> None:
    """Draws Elo, or the mean return with the others, with intervals; an arrow marks a bound."""
    order = ranking.order
    spread = Spread(*ranking.elo[:3]) if ranking.by_score and ranking.elo else ranking.average_return
    mean, low, high = (each[order] for each in spread)
    places = np.arange(len(order))
    for place, left, right, value in zip(places, low, high, mean, strict=True):
        axis.plot(
            [value if np.isinf(left) else left, value if np.isinf(right) else right], [place, place],
            color="#0072B2", linewidth=1.6, solid_capstyle="butt",
        )  # fmt: skip
        if np.isinf(left) or np.isinf(right):
            marker = "<" if np.isinf(left) else ">"
            axis.plot([value], [place], marker=marker, markersize=7, color="#0072B2", clip_on=False)
    finite = ~(np.isinf(low) | np.isinf(high))
    axis.plot(mean[finite], places[finite], "o", color="#0072B2", markersize=4.5)
    axis.set_yticks([])
    axis.grid(True, axis="x", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    bound = " (arrow: bound)" * (not finite.all())
    name = "Elo" if ranking.by_score else "mean return with the others"
    axis.set_xlabel(f"{name},\n95 % interval{bound}", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.margins(x=0.12)
    axis.spines["left"].set_visible(False)
