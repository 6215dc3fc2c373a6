"""Comparison of runs at equal iterations, environment steps, seconds, episodes or gradient steps.

    comparison = compare_runs(["runs/kuhn_poker", "runs/other"], metric="exploitability")

Runs with the same game, method and settings are one *group*; their seeds are its sample. Two runs of one seed count
once, and runs without rows are skipped; `Comparison.notes` reports both. Estimates are the interquartile mean and the
mean over seeds, with 95 % intervals by bootstrap from three seeds on. Groups of the same label on several games are
also combined: each game is then a stratum, with scores in units of its range of returns.

A number within a budget is that of the last *measured* iteration within it. There is none before the first measurement,
and curves have a point at measured iterations only. `runner.labels.higher_is_better` knows the direction of a metric.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gems_jax.evaluate.statistics import LEAST_SEEDS, Interval, interquartile_mean, stratified_bootstrap
from gems_jax.runner.console import format_number
from gems_jax.runner.directory import open_run, read_config
from gems_jax.runner.errors import RunError, report_write_errors
from gems_jax.runner.files import replace_text, resolve, write_json
from gems_jax.runner.labels import column_label, describe_direction, higher_is_better
from gems_jax.runner.writers import read_metrics
from gems_jax.types import Game

if TYPE_CHECKING:
    from gems_jax.viz.plotting import Style

HEADLINES = ("exploitability", "nash_conv")
AXES = {
    "iteration": "iterations",
    "total_env_steps": "env steps",
    "seconds": "seconds",
    "total_episodes": "episodes",
    "total_gradient_steps": "gradient steps",
}
USUAL = ("iteration", "total_env_steps", "seconds")
_DEPTH = 5  # maximum depth of runs below a folder
_POINTS = 40  # points of a curve
_NONE = np.zeros(1)  # replaces a missing column
_NOTHING = Interval(np.nan, np.nan, np.nan)


class CompareError(RunError):
    """Raised if runs cannot be compared."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Seed:
    """Run of one seed: its folder, its config.json and its rows."""

    folder: Path
    record: Mapping[str, Any]
    rows: Mapping[str, np.ndarray]

    def measured(self, metric: str) -> np.ndarray:
        """Lists the rows (from 0) in which the metric was measured."""
        return np.flatnonzero(~np.isnan(self.rows[metric]))

    def last_measured(self, metric: str, axis: str, budget: float) -> int | None:
        """Returns the last row (from 0) within the budget in which the metric was measured; None if there is none."""
        rows = self.measured(metric)
        within = rows[self.rows[axis][rows] <= budget]
        return int(within[-1]) if within.size else None


@dataclasses.dataclass(frozen=True)
class Group:
    """Seeds of one method with one set of settings on one game."""

    game: str
    label: str
    seeds: tuple[Seed, ...]

    def values_at(self, metric: str, axis: str, budget: float) -> np.ndarray:
        """Returns the metric [seeds] at the last measured iteration within the budget; NaN before the first."""
        rows = [seed.last_measured(metric, axis, budget) for seed in self.seeds]
        found = [np.nan if row is None else seed.rows[metric][row] for seed, row in zip(self.seeds, rows, strict=True)]
        return np.asarray(found, np.float64)

    def iterations_at(self, metric: str, axis: str, budget: float) -> tuple[int, ...]:
        """Returns the iterations at which `values_at` was measured, ascending, without repetitions."""
        rows = [seed.last_measured(metric, axis, budget) for seed in self.seeds]
        found = zip(self.seeds, rows, strict=True)
        return tuple(sorted({int(seed.rows["iteration"][row]) for seed, row in found if row is not None}))

    def reach(self, axis: str) -> float:
        """Returns the largest value of the axis that every seed has reached."""
        return min(float(seed.rows[axis][-1]) for seed in self.seeds)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the final table. Estimates are NaN if a seed has no measurement within the budget."""

    game: str
    label: str
    axis: str
    budget: float
    seeds: int
    iqm: Interval
    mean: Interval
    values: tuple[float, ...] = ()  # of the seeds, if there are fewer than an interval needs
    iterations: tuple[int, ...] = ()  # at which the values were measured


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Compared groups, and the lines of their table."""

    metric: str
    axes: tuple[str, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()  # runs that do not count, and why


def compare_runs(
    paths: Sequence[Path | str], *, metric: str = "", axes: Sequence[str] = USUAL, trust: bool = False
) -> Comparison:
    """Reads runs and compares them at equal budgets.

    Args:
      paths: run directories, or folders that contain some.
      metric: column to compare; by default the first of `HEADLINES`, or of the columns that rank sampled runs, that all
        runs have.
      axes: columns of equal budgets.
      trust: import users' own games, whose range of returns a comparison over several games needs.

    Returns:
      The comparison.

    Raises:
      RunError: if there is no run with rows, or a column is missing.
    """
    axes = tuple(_axis(name) for name in axes)
    seeds, skipped = collect_seeds(paths)
    groups, repeated = group_seeds(seeds)
    metric = metric or _headline(groups, trust)
    _check_metric(groups, metric)
    lines = [line for here in _group_by_game(groups).values() for line in _lines_of_game(here, metric, axes)]
    lines += _compare_over_games(groups, metric, trust)
    return Comparison(metric, axes, tuple(groups), tuple(lines), (*skipped, *repeated))


def _group_by_game(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for each in groups:
        found.setdefault(each.game, []).append(each)
    return found


def _lines_of_game(groups: Sequence[Group], metric: str, axes: Sequence[str]) -> Iterator[Line]:
    for axis in _axes(groups, axes):
        budget = min(each.reach(axis) for each in groups)
        for each in groups:
            line = _line(each.game, each.label, axis, budget, each.values_at(metric, axis, budget)[:, None])
            yield dataclasses.replace(line, iterations=each.iterations_at(metric, axis, budget))


def _axis(name: str) -> str:
    """Finds the column of an axis by any of its names: `env_steps`, `env steps`, `total_env_steps`."""
    for column, label in AXES.items():
        if name.replace("_", " ") in (column.replace("_", " "), label):
            return column
    raise CompareError(f"unknown axis {name!r}; known: {', '.join(w.replace(' ', '_') for w in AXES.values())}")


def collect_seeds(paths: Sequence[Path | str]) -> tuple[list[Seed], list[str]]:
    """Collects every seed's run at or below the paths, each once, and a sentence for every run without rows.

    Raises:
      RunError: if there is no run, or none that has rows.
    """
    folders: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise CompareError(f"no run at {path}: there is no such file or folder")
        found = [member.resolve() for member in _members(path)]
        if not found:
            raise CompareError(f"{path} contains no run: there is no config.json in it or below it")
        folders |= dict.fromkeys(found)
    read = {folder: _read_seed(folder) for folder in folders}
    empty = [f"{_relative(folder)} was skipped: it has no rows yet" for folder, seed in read.items() if seed is None]
    if len(empty) == len(read):
        raise CompareError(f"nothing to compare: {'; '.join(empty)}")
    return [seed for seed in read.values() if seed is not None], empty


def _relative(folder: Path) -> Path:
    """Shortens a path below the current folder."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _read_seed(folder: Path) -> Seed | None:
    """Reads the rows of a seed; None if it has none yet."""
    if not (folder / "metrics.csv").exists():
        return None
    try:
        rows = read_metrics(folder)
    except ValueError as error:
        raise RunError(f"cannot read {folder / 'metrics.csv'}: {error}") from error
    if not len(rows.get("iteration", ())):
        return None
    if "gradient_steps" in rows:
        rows["total_gradient_steps"] = np.cumsum(rows["gradient_steps"])
    return Seed(folder, read_config(folder), rows)


def _members(path: Path) -> list[Path]:
    """Lists the seed folders of a run, or of all runs below a folder."""
    if (path / "config.json").is_file():
        return [path] if _is_seed(path) else list(open_run(path).members)
    below = {found.parent for depth in range(1, _DEPTH + 1) for found in path.glob("*/" * depth + "config.json")}
    return sorted(filter(_is_seed, below))


def _is_seed(folder: Path) -> bool:
    return read_config(folder).get("seed") is not None


def group_seeds(seeds: Sequence[Seed]) -> tuple[list[Group], list[str]]:
    """Groups seeds of equal game, method and settings; groups of the same game get distinct labels.

    Args:
      seeds: the runs. Of several runs of one seed with equal settings the longest counts, of equals the first.

    Returns:
      The groups, and a sentence for every run that does not count.
    """
    kinds: dict[str, list[Seed]] = {}
    for seed in seeds:
        kinds.setdefault(json.dumps(_kind(seed.record), sort_keys=True), []).append(seed)
    notes: list[str] = []
    for name, members in kinds.items():
        kinds[name], repeated = _drop_repetitions(members)
        notes += repeated
    rivals: dict[tuple[str, str], list[list[Seed]]] = {}
    for members in kinds.values():
        rivals.setdefault((_game_name(members[0].record), _label(members[0].record)), []).append(members)
    named = {id(members): name for name, same in rivals.items() for members in same}
    groups = [_group(*named[id(members)], members, rivals[named[id(members)]]) for members in kinds.values()]
    return groups, notes


def _drop_repetitions(members: Sequence[Seed]) -> tuple[list[Seed], list[str]]:
    """Keeps one run of each seed: runs of one seed with equal settings are not a larger sample."""
    chosen: dict[Any, Seed] = {}
    for seed in members:
        other = chosen.get(seed.record["seed"])
        if other is None or len(seed.rows["iteration"]) > len(other.rows["iteration"]):
            chosen[seed.record["seed"]] = seed
    notes = [
        f"{_relative(seed.folder)} was skipped: it repeats seed {number} of {_relative(chosen[number].folder)}, "
        "with equal settings"
        for seed in members
        if seed is not chosen[number := seed.record["seed"]]
    ]
    return list(chosen.values()), notes


def _group(game: str, label: str, members: list[Seed], same: list[list[Seed]]) -> Group:
    suffix = _difference(members[0].record, [other[0].record for other in same if other is not members])
    return Group(game, f"{label} {suffix}".strip(), tuple(members))


def _kind(record: Mapping[str, Any]) -> dict[str, Any]:
    config = {k: v for k, v in (record["config"] or {}).items() if k != "iterations"}  # a longer run is the same kind
    options = record.get("options") or {}
    return {"game": record["game"], "options": options.get("game"), "method": record["method"], "config": config}


def _game_name(record: Mapping[str, Any]) -> str:
    options = (record.get("options") or {}).get("game") or {}
    return record["game"] + "".join(f" {name}={value}" for name, value in options.items())


def _label(record: Mapping[str, Any]) -> str:
    preset = (record.get("options") or {}).get("preset")
    return f"{record['method']} {preset}" if preset else record["method"]


def _difference(own: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Formats the settings in which a group differs from others of the same name: `eta=0.1`."""
    mine, theirs = _kind(own)["config"], [_kind(other)["config"] for other in others]
    names = [name for name in mine if any(config.get(name) != mine[name] for config in theirs)]
    shown = ", ".join(f"{name}={mine[name]}" for name in names[:3])
    return f"({shown}{', ...' * (len(names) > 3)})" if shown else ""


def _headline(groups: Sequence[Group], trust: bool) -> str:
    shared = _columns(groups)
    for name in HEADLINES:
        if name in shared:
            return name
    if any(f"{name}_interval" in shared for name in shared):
        from gems_jax.evaluate.sampled import headlines

        for name in headlines(_game(groups[0], trust)):
            if name in shared:
                return name
    raise CompareError(f"not all runs have {' or '.join(HEADLINES)}; choose with --metric: {', '.join(shared)}")


def _seeds_of(groups: Sequence[Group]) -> list[Seed]:
    return [seed for each in groups for seed in each.seeds]


def _columns(groups: Sequence[Group]) -> list[str]:
    first, *rest = [seed.rows for seed in _seeds_of(groups)]
    return [name for name in first if name not in AXES and all(name in rows for rows in rest)]


def _check_metric(groups: Sequence[Group], metric: str) -> None:
    for seed in _seeds_of(groups):
        if metric not in seed.rows:
            raise CompareError(
                f"{seed.folder} has no column {metric!r}; columns of all runs: {', '.join(_columns(groups))}"
            )


def _axes(groups: Sequence[Group], axes: Sequence[str]) -> list[str]:
    """Selects the axes that are positive in all groups: exact methods take no environment steps."""
    seeds = _seeds_of(groups)
    return [axis for axis in axes if all(seed.rows.get(axis, _NONE)[-1] > 0 for seed in seeds)]


def _line(game: str, label: str, axis: str, budget: float, scores: np.ndarray) -> Line:
    """Makes a line of the table from scores [seeds, games]."""
    if np.isnan(scores).any():
        return Line(game, label, axis, budget, len(scores), _NOTHING, _NOTHING)
    few = len(scores) < LEAST_SEEDS and scores.shape[1] == 1
    return Line(
        game, label, axis, budget, len(scores),
        iqm=stratified_bootstrap(scores, interquartile_mean),
        mean=stratified_bootstrap(scores, lambda table: float(table.mean())),
        values=tuple(map(float, scores[:, 0])) if few else (),
    )  # fmt: skip


def _compare_over_games(groups: Sequence[Group], metric: str, trust: bool) -> list[Line]:
    """Combines labels that occur on every game: each game is a stratum, in units of its range of returns."""
    games = _group_by_game(groups)
    if len(games) < 2:
        return []
    budgets = {game: min(each.reach("iteration") for each in here) for game, here in games.items()}
    labels: dict[str, list[Group]] = {}
    for each in groups:
        labels.setdefault(each.label, []).append(each)
    return [
        _line("all games, in units of their returns", label, "iteration", np.nan, _scores(here, metric, budgets, trust))
        for label, here in labels.items()
        if [each.game for each in here] == list(games)
    ]


def _scores(groups: Sequence[Group], metric: str, budgets: Mapping[str, float], trust: bool) -> np.ndarray:
    """Returns scores [seeds, games] of as many seeds as every game has."""
    columns = [each.values_at(metric, "iteration", budgets[each.game]) / _return_range(each, trust) for each in groups]
    count = min(map(len, columns))
    return np.stack([column[:count] for column in columns], 1)


def _return_range(each: Group, trust: bool) -> float:
    low, high = _game(each, trust).return_bounds
    return high - low


def _game(each: Group, trust: bool) -> Game:
    from gems_jax.runner.rebuild import rebuild

    return rebuild(each.seeds[0].record, str(each.seeds[0].folder), trust=trust).game


def comparison_table(comparison: Comparison) -> Any:
    """Builds the table of rich for the terminal."""
    from rich import box
    from rich.table import Table

    result = Table(
        title=_title(comparison), caption=CAPTION, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD,
        collapse_padding=True, pad_edge=False,
    )  # fmt: skip
    for name in HEADER:
        result.add_column(name, justify="left" if name in HEADER[:2] else "right", overflow="fold")
    for _, section in itertools.groupby(comparison.lines, lambda line: (line.game, line.axis)):
        result.add_section()
        for line in section:
            result.add_row(*_cells(line))
    return result


HEADER = ("game", "run", "at", "seeds", "measured", "IQM", "mean")
CAPTION = (
    "IQM: interquartile mean; [95 % interval by bootstrap], for two seeds their values; measured: the last measured "
    "iteration within the budget; –: nothing was measured yet; seconds are of all seeds of a batch, excluding "
    "compilation"
)


def _title(comparison: Comparison) -> str:
    return f"{column_label(comparison.metric)}, {describe_direction(comparison.metric)}"


def _cells(line: Line) -> tuple[str, ...]:
    estimates = (_text(line.iqm, line.values), _text(line.mean, line.values))
    return (line.game, line.label, _budget(line), str(line.seeds), _iterations(line.iterations), *estimates)


def _iterations(iterations: tuple[int, ...]) -> str:
    """Formats the iterations of the seeds' measurements: 20, or 18 to 20."""
    if not iterations:
        return "–"
    return f"{iterations[0]} to {iterations[-1]}" if len(iterations) > 1 else str(iterations[0])


def _budget(line: Line) -> str:
    if np.isnan(line.budget):
        return "the last common iteration"
    number = f"{line.budget:.1f}" if line.axis == "seconds" else format_number(line.budget)
    return f"{number} {AXES[line.axis]}"


def _text(interval: Interval, values: tuple[float, ...]) -> str:
    if np.isnan(interval.mean):
        return "–"
    if np.isnan(interval.low):
        return f"{interval.mean:.4f}" + (f" ({values[0]:.4f}, {values[1]:.4f})" if len(values) == 2 else "")
    return f"{interval.mean:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def _escape_cell(text: str) -> str:
    """Escapes what would end a cell of Markdown, or begin an element of HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def comparison_markdown(comparison: Comparison) -> str:
    """Formats the table as Markdown."""
    rows = [HEADER, ("---", "---", "---", *["---:"] * 4), *(_cells(line) for line in comparison.lines)]
    table = "\n".join(f"| {' | '.join(map(_escape_cell, row))} |" for row in rows)
    notes = "".join(f"\n- {note}" for note in comparison.notes)
    return f"{_title(comparison)}\n\n{table}\n\n{CAPTION}\n{notes}{chr(10) * bool(notes)}"


def write_comparison(comparison: Comparison, folder: Path | None = None) -> list[Path]:
    """Writes figures (one per game), table.md and table.json to `folder` (default: below runs/compare)."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = folder or Path("runs") / "compare" / stamp
    games = _group_by_game(comparison.groups)
    names = ["curves.png"] if len(games) == 1 else [f"curves-{number}.png" for number in range(1, len(games) + 1)]
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, game in zip(names, games, strict=True):
            draw_comparison(comparison, game).savefig(folder / name, dpi=130)
    replace_text(folder / "table.md", comparison_markdown(comparison))
    lines = [
        {**dataclasses.asdict(line), "iqm": line.iqm._asdict(), "mean": line.mean._asdict()}
        for line in comparison.lines
    ]
    direction = describe_direction(comparison.metric)
    record = {"metric": comparison.metric, "direction": direction, "lines": lines, "notes": comparison.notes}
    write_json(folder / "table.json", resolve(record))
    return [folder / name for name in (*names, "table.md", "table.json")]


def draw_comparison(comparison: Comparison, game: str) -> Any:
    """Draws the metric of one game's groups against every axis: interquartile mean and its band.

    Curves have a point at iterations that every seed of the group has measured, at the mean of the seeds' axis.
    """
    from gems_jax.viz.plotting import choose_styles, draw_grid, make_panels

    here = _group_by_game(comparison.groups)[game]
    names = _axes(here, comparison.axes)
    figure, (panels,) = make_panels(1, len(names), width=4.2 * len(names), height=4.2, sharey=True)
    gap = higher_is_better(comparison.metric) is False
    positive = all((each.values_at(comparison.metric, "iteration", np.inf) > 0).all() for each in here)
    for panel, axis in zip(panels, names, strict=True):
        for style, each in zip(choose_styles(here), here, strict=True):
            _draw_group(panel, each, comparison.metric, axis, style)
        panel.set_xlabel(AXES[axis])
        panel.xaxis.get_major_locator().set_params(integer=axis == "iteration")
        draw_grid(panel)
        panel.set_yscale("log" if gap and positive else "linear")
    panels[0].set_ylabel(f"{_title(comparison)}\n(interquartile mean)")
    figure.suptitle(game, fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), fontsize=8, frameon=False)
    return figure


def _draw_group(panel: Any, each: Group, metric: str, axis: str, style: Style) -> None:
    x, bands = _curve(each, metric, axis)
    sparse = any(seed.measured(metric).size < len(seed.rows[metric]) for seed in each.seeds) or len(x) == 1
    panel.plot(
        x, bands[:, 0], color=style.color, linestyle=style.line, label=each.label, marker=style.marker, markersize=4,
        markevery=1 if sparse else max(len(x) // 8, 1),
    )  # fmt: skip
    if len(each.seeds) >= LEAST_SEEDS:
        panel.fill_between(x, bands[:, 1], bands[:, 2], color=style.color, alpha=0.15, linewidth=0)


def _curve(each: Group, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Computes x [n] and (estimate, low, high) [n, 3] at the iterations that every seed has measured."""
    shared = set.intersection(*(set(map(int, seed.measured(metric))) for seed in each.seeds))
    rows = np.asarray(sorted(shared), int)
    if len(rows) > _POINTS:
        rows = rows[np.unique(np.round(np.linspace(0, len(rows) - 1, _POINTS)).astype(int))]
    x = np.mean([seed.rows[axis][rows] for seed in each.seeds], axis=0)
    values = np.stack([seed.rows[metric][rows] for seed in each.seeds])
    intervals = [stratified_bootstrap(column, replicates=400) for column in values.T]
    return x, np.asarray(intervals).reshape(-1, 3)
