"""Several runs side by side: at the same iterations, environment steps and seconds, or episodes and gradient steps.

    comparison = compare_runs(["runs/kuhn_poker", "runs/other"], metric="exploitability")

Runs with the same game, method and settings are one *group*, their seeds its sample. Estimates are the interquartile
mean and the mean over seeds, with 95 % intervals by bootstrap. Groups of the same label on several games are also put
together: each game is then a stratum, and scores count in units of the game's range of returns. Lower is better.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.evaluate.statistics import Interval, interquartile_mean, stratified_bootstrap
from gems_jax.runner.console import short_number
from gems_jax.runner.directory import open_run, read_config
from gems_jax.runner.errors import RunError, writing
from gems_jax.runner.files import replace_text, resolve, write_json
from gems_jax.runner.writers import read_metrics

HEADLINES = ("exploitability", "nash_conv")
AXES = {
    "iteration": "iterations",
    "total_env_steps": "env steps",
    "seconds": "seconds",
    "total_episodes": "episodes",
    "total_gradient_steps": "gradient steps",
}
USUAL = ("iteration", "total_env_steps", "seconds")
_DEPTH = 5  # how deep below a folder runs are looked for
_POINTS = 40  # of a curve


class CompareError(RunError):
    """What was named cannot be compared."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Seed:
    """One seed's run: where it is, what it says it is, and its rows."""

    folder: Path
    record: Mapping[str, Any]
    rows: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Group:
    """Seeds of one method with one set of settings on one game."""

    game: str
    label: str
    seeds: tuple[Seed, ...]

    def at(self, metric: str, axis: str, budget: float) -> np.ndarray:
        """[seeds], the metric at the last iteration within the budget."""
        return np.asarray([_value_at(seed.rows, metric, axis, budget) for seed in self.seeds])

    def reach(self, axis: str) -> float:
        """How far every seed has come."""
        return min(float(seed.rows[axis][-1]) for seed in self.seeds)

    def start(self, axis: str) -> float:
        """Where every seed has its first row."""
        return max(float(seed.rows[axis][0]) for seed in self.seeds)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the final table."""

    game: str
    label: str
    axis: str
    budget: float
    seeds: int
    iqm: Interval
    mean: Interval


@dataclasses.dataclass(frozen=True)
class Comparison:
    metric: str
    axes: tuple[str, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]


def compare_runs(
    paths: Sequence[Path | str], *, metric: str = "", axes: Sequence[str] = USUAL, trust: bool = False
) -> Comparison:
    """Read the runs at or below `paths` and compare them at equal `axes`. RunError says what is missing.

    trust: import games of a user's own, which a comparison over several games asks for their range of returns.
    """
    axes = tuple(_axis(name) for name in axes)
    groups = group_seeds(collect_seeds(paths))
    metric = metric or _headline(groups)
    _check_metric(groups, metric)
    lines: list[Line] = []
    for game in dict.fromkeys(each.game for each in groups):
        here = [each for each in groups if each.game == game]
        for axis in _axes(here, axes):
            budget = min(each.reach(axis) for each in here)
            for each in here:
                scores = each.at(metric, axis, budget)
                lines.append(_line(game, each.label, axis, budget, scores[:, None]))
    return Comparison(metric, axes, tuple(groups), (*lines, *_over_games(groups, metric, trust)))


def _axis(name: str) -> str:
    """A column by its own name or as people say it: `env_steps`, `env steps`, `total_env_steps`."""
    for column, words in AXES.items():
        if name.replace("_", " ") in (column.replace("_", " "), words):
            return column
    raise CompareError(f"unknown axis {name!r}; known: {', '.join(w.replace(' ', '_') for w in AXES.values())}")


def collect_seeds(paths: Sequence[Path | str]) -> list[Seed]:
    """Every seed's run at or below the paths, each once."""
    folders: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise CompareError(f"no run at {path}: there is no such file or folder")
        found = [member.resolve() for member in _members(path)]
        if not found:
            raise CompareError(f"{path} holds no run: there is no config.json in it or below it")
        folders |= dict.fromkeys(found)
    seeds = []
    for folder in folders:
        try:
            rows = read_metrics(folder)
        except ValueError as error:
            raise RunError(f"cannot read {folder / 'metrics.csv'}: {error}") from error
        if not len(rows.get("iteration", ())):
            raise RunError(f"{folder} has no rows yet")
        if "gradient_steps" in rows:
            rows["total_gradient_steps"] = np.cumsum(rows["gradient_steps"])
        seeds.append(Seed(folder, read_config(folder), rows))
    return seeds


def _members(path: Path) -> list[Path]:
    """The seed folders of a run, or of all runs below a folder."""
    if (path / "config.json").is_file():
        if read_config(path).get("seed") is not None:
            return [path]
        return list(open_run(path).members)
    patterns = ["/".join(["*"] * depth) + "/config.json" for depth in range(1, _DEPTH + 1)]
    below = sorted({found.parent for pattern in patterns for found in path.glob(pattern)})
    return [folder for folder in below if read_config(folder).get("seed") is not None]


def group_seeds(seeds: Sequence[Seed]) -> list[Group]:
    """Seeds of equal game, method and settings; labels tell groups of the same game apart."""
    kinds: dict[str, list[Seed]] = {}
    for seed in seeds:
        kinds.setdefault(json.dumps(_kind(seed.record), sort_keys=True), []).append(seed)
    named: list[tuple[str, str, list[Seed]]] = [
        (_game_name(members[0].record), _label(members[0].record), members) for members in kinds.values()
    ]
    result = []
    for game, label, members in named:
        rivals = [other for g, l, other in named if g == game and l == label and other is not members]
        suffix = _difference(members[0].record, [other[0].record for other in rivals])
        result.append(Group(game, f"{label} {suffix}".strip(), tuple(members)))
    return result


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
    """The settings in which a group differs from others of the same name: `eta=0.1`."""
    mine = own["config"] or {}
    names = [
        name
        for name in mine
        if name != "iterations" and any((o["config"] or {}).get(name) != mine[name] for o in others)
    ]
    shown = ", ".join(f"{name}={mine[name]}" for name in names[:3])
    return f"({shown}{', ...' if len(names) > 3 else ''})" if shown else ""


def _headline(groups: Sequence[Group]) -> str:
    for name in HEADLINES:
        if all(name in seed.rows for each in groups for seed in each.seeds):
            return name
    raise CompareError(
        f"the runs share no {' or '.join(HEADLINES)}; choose with --metric: {', '.join(_columns(groups))}"
    )


def _columns(groups: Sequence[Group]) -> list[str]:
    first, *rest = [seed.rows for each in groups for seed in each.seeds]
    return [name for name in first if name not in AXES and all(name in rows for rows in rest)]


def _check_metric(groups: Sequence[Group], metric: str) -> None:
    for each in groups:
        for seed in each.seeds:
            if metric not in seed.rows:
                raise CompareError(
                    f"{seed.folder} has no column {metric!r}; all these runs have: {', '.join(_columns(groups))}"
                )


def _axes(groups: Sequence[Group], axes: Sequence[str]) -> list[str]:
    """Those of `axes` that all groups have moved along: a method that walks the tree takes no environment steps."""
    seeds = [seed for each in groups for seed in each.seeds]
    return [axis for axis in axes if all(axis in seed.rows and seed.rows[axis][-1] > 0 for seed in seeds)]


def _value_at(rows: Mapping[str, np.ndarray], metric: str, axis: str, budget: float) -> float:
    within = np.searchsorted(rows[axis], budget, side="right")
    return float(rows[metric][max(int(within) - 1, 0)])


def _line(game: str, label: str, axis: str, budget: float, scores: np.ndarray) -> Line:
    """scores: [seeds, games]."""
    return Line(
        game, label, axis, budget, len(scores),
        iqm=stratified_bootstrap(scores, interquartile_mean),
        mean=stratified_bootstrap(scores, lambda table: float(table.mean())),
    )  # fmt: skip


def _over_games(groups: Sequence[Group], metric: str, trust: bool) -> list[Line]:
    """Labels that occur on every game, over all games: each game is a stratum, in units of its range of returns."""
    games = list(dict.fromkeys(each.game for each in groups))
    if len(games) < 2:
        return []
    lines = []
    for label in dict.fromkeys(each.label for each in groups):
        here = [each for each in groups if each.label == label]
        if [each.game for each in here] != games:
            continue
        count = min(len(each.seeds) for each in here)
        columns = []
        for each in here:
            budget = min(rival.reach("iteration") for rival in groups if rival.game == each.game)
            columns.append(each.at(metric, "iteration", budget)[:count] / _return_range(each, trust))
        lines.append(_line("all games, in units of their returns", label, "iteration", np.nan, np.stack(columns, 1)))
    return lines


def _return_range(each: Group, trust: bool) -> float:
    from gems_jax.runner.rebuild import rebuild

    low, high = rebuild(each.seeds[0].record, str(each.seeds[0].folder), trust=trust).game.return_bounds
    return high - low


# --- what comes out


def comparison_table(comparison: Comparison) -> Any:
    """The final table, for the terminal."""
    from rich import box
    from rich.table import Table

    title = f"{comparison.metric.replace('_', ' ')}, lower is better"
    caption = (
        "IQM: interquartile mean; [95 % interval by bootstrap over seeds]; seconds of a batch are of all its seeds"
    )
    result = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    for name in HEADER:
        result.add_column(name, justify="left" if name in HEADER[:2] else "right", overflow="fold")
    before = None
    for line in comparison.lines:
        if before is not None and (line.game, line.axis) != before:
            result.add_section()
        before = (line.game, line.axis)
        result.add_row(*_cells(line))
    return result


HEADER = ("game", "run", "at", "seeds", "IQM", "mean")


def _cells(line: Line) -> tuple[str, ...]:
    return (line.game, line.label, _budget(line), str(line.seeds), _text(line.iqm), _text(line.mean))


def _budget(line: Line) -> str:
    if np.isnan(line.budget):
        return "the last common iteration"
    number = f"{line.budget:.1f}" if line.axis == "seconds" else short_number(line.budget)
    return f"{number} {AXES[line.axis]}"


def _text(interval: Interval) -> str:
    if np.isnan(interval.low):
        return f"{interval.mean:.4f}"
    return f"{interval.mean:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def comparison_markdown(comparison: Comparison) -> str:
    rows = [HEADER, ("---", "---", "---", "---:", "---:", "---:"), *(_cells(line) for line in comparison.lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write_comparison(comparison: Comparison, folder: Path | None = None) -> list[Path]:
    """curves.png (one for each game), table.md and table.json in a new folder below runs/compare, or in `folder`."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = folder or Path("runs") / "compare" / stamp
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    games = list(dict.fromkeys(each.game for each in comparison.groups))
    paths = []
    for number, game in enumerate(games, 1):
        path = folder / ("curves.png" if len(games) == 1 else f"curves-{number}.png")
        with writing(path):
            draw_comparison(comparison, game).savefig(path, dpi=130)
        paths.append(path)
    replace_text(folder / "table.md", comparison_markdown(comparison))
    lines = [
        {**dataclasses.asdict(line), "iqm": line.iqm._asdict(), "mean": line.mean._asdict()}
        for line in comparison.lines
    ]
    write_json(folder / "table.json", resolve({"metric": comparison.metric, "lines": lines}))
    return [*paths, folder / "table.md", folder / "table.json"]


def draw_comparison(comparison: Comparison, game: str) -> Any:
    """The metric of one game's groups on every axis: interquartile mean and its band."""
    from matplotlib.figure import Figure

    from gems_jax.viz.plotting import STYLES

    here = [each for each in comparison.groups if each.game == game]
    axes_names = _axes(here, comparison.axes)
    figure = Figure(figsize=(4.2 * len(axes_names), 4.2), layout="constrained")
    panels = figure.subplots(1, len(axes_names), sharey=True, squeeze=False)[0]
    positive = all((each.at(comparison.metric, "iteration", np.inf) > 0).all() for each in here)
    for panel, axis in zip(panels, axes_names, strict=True):
        for number, each in enumerate(here):
            style = STYLES[number % len(STYLES)]
            x, bands = _curve(each, comparison.metric, axis)
            panel.plot(x, bands[:, 0], color=style.color, linestyle=style.line, label=each.label)
            if len(each.seeds) > 1:
                panel.fill_between(x, bands[:, 1], bands[:, 2], color=style.color, alpha=0.15, linewidth=0)
        panel.set_xlabel(AXES[axis])
        panel.xaxis.get_major_locator().set_params(integer=axis == "iteration")
        panel.grid(True, color="0.9", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        if positive:
            panel.set_yscale("log")
    panels[0].set_ylabel(f"{comparison.metric.replace('_', ' ')}, interquartile mean")
    figure.suptitle(game, fontsize=10)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 3), fontsize=8, frameon=False)
    return figure


def _curve(each: Group, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """x [n] and (estimate, low, high) [n, 3] where every seed has a row."""
    start, reach = each.start(axis), each.reach(axis)
    if axis == "iteration":
        x = np.unique(np.round(np.linspace(start, reach, _POINTS)))
    else:
        x = np.linspace(start, reach, _POINTS) if reach > start else np.asarray([reach])
    intervals = [stratified_bootstrap(each.at(metric, axis, point), replicates=400) for point in x]
    return x, np.asarray(intervals)
