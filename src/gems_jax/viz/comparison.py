"""Several runs side by side: at the same iterations, environment steps and seconds, or episodes and gradient steps.

    comparison = compare_runs(["runs/kuhn_poker", "runs/other"], metric="exploitability")

Runs with the same game, method and settings are one *group*, their seeds its sample. Estimates are the interquartile
mean and the mean over seeds, with 95 % intervals by bootstrap. Groups of the same label on several games are also put
together: each game is then a stratum, and scores count in units of the game's range of returns. Lower is better.
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

from gems_jax.evaluate.statistics import Interval, interquartile_mean, stratified_bootstrap
from gems_jax.runner.console import short_number
from gems_jax.runner.directory import open_run, read_config
from gems_jax.runner.errors import RunError, writing
from gems_jax.runner.files import replace_text, resolve, write_json
from gems_jax.runner.writers import read_metrics

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
_DEPTH = 5  # how deep below a folder runs are looked for
_POINTS = 40  # of a curve
_NONE = np.zeros(1)  # a column that a run lacks


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
    """Reads the runs at or below `paths` and compares them at equal `axes`. RunError says what is missing.

    trust: import games of a user's own, which a comparison over several games asks for their range of returns.
    """
    axes = tuple(_axis(name) for name in axes)
    groups = group_seeds(collect_seeds(paths))
    metric = metric or _headline(groups)
    _check_metric(groups, metric)
    lines = [line for here in _by_game(groups).values() for line in _lines_of_game(here, metric, axes)]
    return Comparison(metric, axes, tuple(groups), (*lines, *_over_games(groups, metric, trust)))


def _by_game(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for each in groups:
        found.setdefault(each.game, []).append(each)
    return found


def _lines_of_game(groups: Sequence[Group], metric: str, axes: Sequence[str]) -> Iterator[Line]:
    for axis in _axes(groups, axes):
        budget = min(each.reach(axis) for each in groups)
        for each in groups:
            yield _line(each.game, each.label, axis, budget, each.at(metric, axis, budget)[:, None])


def _axis(name: str) -> str:
    """A column by its own name or as people say it: `env_steps`, `env steps`, `total_env_steps`."""
    for column, words in AXES.items():
        if name.replace("_", " ") in (column.replace("_", " "), words):
            return column
    raise CompareError(f"unknown axis {name!r}; known: {', '.join(w.replace(' ', '_') for w in AXES.values())}")


def collect_seeds(paths: Sequence[Path | str]) -> list[Seed]:
    """Collects every seed's run at or below the paths, each once."""
    folders: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise CompareError(f"no run at {path}: there is no such file or folder")
        found = [member.resolve() for member in _members(path)]
        if not found:
            raise CompareError(f"{path} holds no run: there is no config.json in it or below it")
        folders |= dict.fromkeys(found)
    return [_read_seed(folder) for folder in folders]


def _read_seed(folder: Path) -> Seed:
    try:
        rows = read_metrics(folder)
    except ValueError as error:
        raise RunError(f"cannot read {folder / 'metrics.csv'}: {error}") from error
    if not len(rows.get("iteration", ())):
        raise RunError(f"{folder} has no rows yet")
    if "gradient_steps" in rows:
        rows["total_gradient_steps"] = np.cumsum(rows["gradient_steps"])
    return Seed(folder, read_config(folder), rows)


def _members(path: Path) -> list[Path]:
    """The seed folders of a run, or of all runs below a folder."""
    if (path / "config.json").is_file():
        return [path] if _is_seed(path) else list(open_run(path).members)
    below = {found.parent for depth in range(1, _DEPTH + 1) for found in path.glob("*/" * depth + "config.json")}
    return sorted(filter(_is_seed, below))


def _is_seed(folder: Path) -> bool:
    return read_config(folder).get("seed") is not None


def group_seeds(seeds: Sequence[Seed]) -> list[Group]:
    """Groups seeds of equal game, method and settings; labels tell groups of the same game apart."""
    kinds: dict[str, list[Seed]] = {}
    for seed in seeds:
        kinds.setdefault(json.dumps(_kind(seed.record), sort_keys=True), []).append(seed)
    rivals: dict[tuple[str, str], list[list[Seed]]] = {}
    for members in kinds.values():
        rivals.setdefault((_game_name(members[0].record), _label(members[0].record)), []).append(members)
    named = {id(members): name for name, alike in rivals.items() for members in alike}
    return [_group(*named[id(members)], members, rivals[named[id(members)]]) for members in kinds.values()]


def _group(game: str, label: str, members: list[Seed], alike: list[list[Seed]]) -> Group:
    suffix = _difference(members[0].record, [other[0].record for other in alike if other is not members])
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
    """The settings in which a group differs from others of the same name: `eta=0.1`."""
    mine, theirs = _kind(own)["config"], [_kind(other)["config"] for other in others]
    names = [name for name in mine if any(config.get(name) != mine[name] for config in theirs)]
    shown = ", ".join(f"{name}={mine[name]}" for name in names[:3])
    return f"({shown}{', ...' * (len(names) > 3)})" if shown else ""


def _headline(groups: Sequence[Group]) -> str:
    shared = _columns(groups)
    for name in HEADLINES:
        if name in shared:
            return name
    raise CompareError(f"the runs share no {' or '.join(HEADLINES)}; choose with --metric: {', '.join(shared)}")


def _seeds_of(groups: Sequence[Group]) -> list[Seed]:
    return [seed for each in groups for seed in each.seeds]


def _columns(groups: Sequence[Group]) -> list[str]:
    first, *rest = [seed.rows for seed in _seeds_of(groups)]
    return [name for name in first if name not in AXES and all(name in rows for rows in rest)]


def _check_metric(groups: Sequence[Group], metric: str) -> None:
    for seed in _seeds_of(groups):
        if metric not in seed.rows:
            raise CompareError(
                f"{seed.folder} has no column {metric!r}; all these runs have: {', '.join(_columns(groups))}"
            )


def _axes(groups: Sequence[Group], axes: Sequence[str]) -> list[str]:
    """Those of `axes` that all groups have moved along: a method that walks the tree takes no environment steps."""
    seeds = _seeds_of(groups)
    return [axis for axis in axes if all(seed.rows.get(axis, _NONE)[-1] > 0 for seed in seeds)]


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
    games = _by_game(groups)
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
    """[seeds, games]: as many seeds as every game has."""
    columns = [each.at(metric, "iteration", budgets[each.game]) / _return_range(each, trust) for each in groups]
    count = min(map(len, columns))
    return np.stack([column[:count] for column in columns], 1)


def _return_range(each: Group, trust: bool) -> float:
    from gems_jax.runner.rebuild import rebuild

    low, high = rebuild(each.seeds[0].record, str(each.seeds[0].folder), trust=trust).game.return_bounds
    return high - low


# --- what comes out


def comparison_table(comparison: Comparison) -> Any:
    """Builds the final table, for the terminal."""
    from rich import box
    from rich.table import Table

    title = f"{comparison.metric.replace('_', ' ')}, lower is better"
    caption = (
        "IQM: interquartile mean; [95 % interval by bootstrap over seeds]; seconds of a batch are of all its seeds"
    )
    result = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    for name in HEADER:
        result.add_column(name, justify="left" if name in HEADER[:2] else "right", overflow="fold")
    for _, section in itertools.groupby(comparison.lines, lambda line: (line.game, line.axis)):
        result.add_section()
        for line in section:
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
    """Writes the final table, for a document."""
    rows = [HEADER, ("---", "---", "---", "---:", "---:", "---:"), *(_cells(line) for line in comparison.lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write_comparison(comparison: Comparison, folder: Path | None = None) -> list[Path]:
    """Writes curves.png (one for each game), table.md and table.json to `folder`, or below runs/compare."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = folder or Path("runs") / "compare" / stamp
    games = _by_game(comparison.groups)
    names = ["curves.png"] if len(games) == 1 else [f"curves-{number}.png" for number in range(1, len(games) + 1)]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, game in zip(names, games, strict=True):
            draw_comparison(comparison, game).savefig(folder / name, dpi=130)
    replace_text(folder / "table.md", comparison_markdown(comparison))
    lines = [
        {**dataclasses.asdict(line), "iqm": line.iqm._asdict(), "mean": line.mean._asdict()}
        for line in comparison.lines
    ]
    write_json(folder / "table.json", resolve({"metric": comparison.metric, "lines": lines}))
    return [folder / name for name in (*names, "table.md", "table.json")]


def draw_comparison(comparison: Comparison, game: str) -> Any:
    """Draws the metric of one game's groups on every axis: interquartile mean and its band."""
    from gems_jax.viz.plotting import draw_grid, panels_of, styles_of

    here = _by_game(comparison.groups)[game]
    names = _axes(here, comparison.axes)
    figure, (panels,) = panels_of(1, len(names), width=4.2 * len(names), height=4.2, sharey=True)
    positive = all((each.at(comparison.metric, "iteration", np.inf) > 0).all() for each in here)
    for panel, axis in zip(panels, names, strict=True):
        for style, each in zip(styles_of(here), here, strict=True):
            _draw_group(panel, each, comparison.metric, axis, style)
        panel.set_xlabel(AXES[axis])
        panel.xaxis.get_major_locator().set_params(integer=axis == "iteration")
        draw_grid(panel)
        panel.set_yscale("log" if positive else "linear")
    panels[0].set_ylabel(f"{comparison.metric.replace('_', ' ')}, interquartile mean")
    figure.suptitle(game, fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), fontsize=8, frameon=False)
    return figure


def _draw_group(panel: Any, each: Group, metric: str, axis: str, style: Style) -> None:
    x, bands = _curve(each, metric, axis)
    panel.plot(x, bands[:, 0], color=style.color, linestyle=style.line, label=each.label)
    if len(each.seeds) > 1:
        panel.fill_between(x, bands[:, 1], bands[:, 2], color=style.color, alpha=0.15, linewidth=0)


def _curve(each: Group, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """x [n] and (estimate, low, high) [n, 3] where every seed has a row."""
    x = np.linspace(each.start(axis), each.reach(axis), _POINTS)
    x = np.unique(np.round(x)) if axis == "iteration" else np.unique(x)
    intervals = [stratified_bootstrap(each.at(metric, axis, point), replicates=400) for point in x]
    return x, np.asarray(intervals)
