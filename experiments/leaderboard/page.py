"""Writes docs/leaderboard.md and its figures from stored cells alone."""

from __future__ import annotations

import functools
import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.leaderboard.cells import (
    CHOICES,
    GAMES,
    ITERATIONS,
    METHODS,
    ON_THE_TREE,
    RESULTS,
    SEARCHED_WITH,
    Cell,
    choice_path,
)
from experiments.leaderboard.curves import FLOOR, draw_game
from experiments.leaderboard.scores import Records, final_gap, judged_column, rank_methods, steps_to_reach
from gems_jax.evaluate.statistics import Interval
from gems_jax.runner.console import format_number
from gems_jax.runner.files import replace_text

INTRODUCTION = """\
# Leaderboard

Every method that learns from episodes, at equal environment steps, on enumerable games, where the gap is exact. All
steps count: for learning, for measuring payoffs, for the oracle and for the trust region. This page and its figures are
generated from `docs/results/leaderboard/` by `python -m experiments.leaderboard write`; `make leaderboard` runs missing
cells.

- A run has one total budget:
  {rule}.
  Settings follow the budget ([methods.md](methods.md) explains how), so every total is a separate run.
{settings}
- Exploitability is NashConv / 2. `iterate` is the profile after the last iteration, `average` that of the run. A
  method is ranked by the profile in bold.
- A run is evaluated after the last iteration that is within 2 % of its total. GEMS counts its episodes in advance and
  plays more steps if games get longer during training.
- Numbers are interquartile means over seeds with bootstrap 95 % intervals. They are not corrected for the number of
  comparisons.
- `trials` is the number of settings that were tried for a method before these runs;
  [trials.toml](../experiments/leaderboard/trials.toml) lists them with their sources. More trials on these games are an
  advantage, and they are not equal: of many baselines they are unknown, and the 85 of GEMS are about twice the 43 that
  a complete random search would try (`python -m experiments.leaderboard tune`).
- Figures have the same colors for the same methods on all games, and draw gaps below {floor} at {floor}.
- `xdo`, `pdo` and `edo` learn their responses from episodes, but solve the restricted game on the tree, without
  environment steps.
"""
DEFAULT_SETTINGS = """\
- Baselines have their default settings with batches of 64 games, except where `make kuhn-family` sets others."""
CHOSEN_SETTINGS = """\
- Baselines have the settings that a stored random search chose for the game and the budget
  ([trials](results/leaderboard/trials)), where there is one; otherwise their default settings with batches of 64 games,
  except where `make kuhn-family` sets others. Stored trials count under `trials`; `+` marks methods for which others
  were tried without a record."""
EMPTY = "No results are stored yet: `make leaderboard` runs all cells.\n"
TRIALS = Path(__file__).with_name("trials.toml")
NOTHING = "–"


@functools.cache
def load_trials() -> dict[str, dict[str, Any]]:
    """Reads how many settings were tried for every label: {"trials": ..., "note": ..., "source": ...}."""
    return tomllib.loads(TRIALS.read_text())


def describe_trials(game: str, method: str) -> str:
    """Formats how many settings were tried for a label: stored trials on the game, and those of `load_trials`."""
    recorded, path = load_trials()[method]["trials"], choice_path(game, SEARCHED_WITH.get(method, method))
    stored = len(json.loads(path.read_text()).get("trials", ())) if path.exists() else 0
    if not stored:
        return str(recorded)
    return f"{stored}+" if recorded == "unknown" else str(recorded + stored)


def write_page(records: Records, path: Path) -> list[Path]:
    """Writes the page, and one figure per game into the folder `figures/` next to it.

    Args:
      records: stored cells.
      path: path of the page.

    Returns:
      The files that were written.
    """
    games = [game for game in GAMES if any(cell.game == game and "skipped" not in records[cell] for cell in records)]
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = [draw_game(records, game, path.parent / "figures" / f"leaderboard_{game}.png") for game in games]
    replace_text(path, page_text(records, games))
    return [path, *figures]


def page_text(records: Records, games: Sequence[str]) -> str:
    """Formats the page of these games."""
    rule = ", ".join(f"{format_number(budget)} steps in {count} iterations" for budget, count in ITERATIONS.items())
    settings = CHOSEN_SETTINGS if any((RESULTS / CHOICES).glob("*/*.json")) else DEFAULT_SETTINGS
    parts = [INTRODUCTION.format(rule=rule, settings=settings, floor=f"{FLOOR:g}")]
    parts += [_section(records, game) for game in games] or [EMPTY]
    return "\n".join(parts)


def _section(records: Records, game: str) -> str:
    board, own = GAMES[game], {cell: record for cell, record in records.items() if cell.game == game}
    ranked = rank_methods(own, game)
    budgets = sorted({cell.budget for cell in own})
    gap = next(record["gap"] for record in own.values() if "skipped" not in record)
    title = "Exploitability" if gap == "exploitability" else "NashConv"
    parts = [
        f"## {board.title}",
        f"{len(board.seeds)} seeds, {board.unit}.",
        f"![{board.title}](figures/leaderboard_{game}.png)",
        f"{title} at the end of runs of {', '.join(map(format_number, budgets))} environment steps:",
        _gap_table(own, game, ranked, budgets, gap),
    ]
    if any("cce_gap" in record.get("curves", {}) for record in own.values()):
        parts += ["CCE gap of the joint play at the end of the same runs:", _cce_table(own, game, ranked, budgets)]
    parts += [
        f"Environment steps until {title if title == 'NashConv' else title.lower()} is first at or below a level, in "
        "the run that reaches it with the fewest:",
        _reach_table(own, game, ranked),
        "Costs of the runs: environment steps per seed, seconds of all seeds together excluding compilation, and "
        "seconds of compilation. Other jobs ran on the two cores at the same time, so the seconds are upper bounds:",
        _cost_table(own, game, ranked, budgets),
    ]
    skipped = [(cell, record["skipped"]) for cell, record in sorted(own.items()) if "skipped" in record]
    if skipped:
        lines = [f"- not run: `{c.method}` at {format_number(c.budget)} steps: {why}" for c, why in skipped]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _gap_table(own: Records, game: str, ranked: Sequence[str], budgets: Sequence[int], gap: str) -> str:
    columns = [(budget, column) for budget in budgets for column in (gap, f"{gap}_average")]
    names = [f"{format_number(budget)} {'average' if column != gap else 'iterate'}" for budget, column in columns]
    rows = []
    for place, method in enumerate(ranked, 1):
        cells = [_gap_cell(own.get(Cell(game, method, budget)), column) for budget, column in columns]
        rows.append((str(place), _name(method), *cells, describe_trials(game, method)))
    return _table(("", "method", *names, "trials"), rows)


def _gap_cell(record: dict[str, Any] | None, column: str) -> str:
    if record is None or "skipped" in record:
        return NOTHING
    text = format_interval(final_gap(record, column)) + _describe_seeds(record)
    return f"**{text}**" if judged_column(record) == column else text


def _describe_seeds(record: dict[str, Any]) -> str:
    """Formats the number of seeds of a run with fewer seeds than the game's; empty for the others."""
    count = len(record["seeds"])
    return f", {count} seeds" if count < len(GAMES[record["game"]].seeds) else ""


def _cce_table(own: Records, game: str, ranked: Sequence[str], budgets: Sequence[int]) -> str:
    def cell(method: str, budget: int) -> str:
        record = own.get(Cell(game, method, budget))
        return NOTHING if record is None or "skipped" in record else format_interval(final_gap(record, "cce_gap"))

    return _table(
        ("method", *map(format_number, budgets)), [(_name(m), *(cell(m, budget) for budget in budgets)) for m in ranked]
    )


def _reach_table(own: Records, game: str, ranked: Sequence[str]) -> str:
    rows = []
    for method in ranked:
        runs = [record for cell, record in own.items() if cell.method == method and "skipped" not in record]
        rows.append((_name(method), *(_reach_cell(steps_to_reach(runs, level)) for level in GAMES[game].levels)))
    return _table(("method", *(f"{level:g}" for level in GAMES[game].levels)), rows)


def _reach_cell(steps: Interval) -> str:
    if math.isinf(steps.mean):
        return NOTHING
    ends = ["never" if math.isinf(end) else format_number(end) for end in steps[1:] if not math.isnan(end)]
    return format_number(steps.mean) + (f" [{', '.join(ends)}]" if ends else "")


def _cost_table(own: Records, game: str, ranked: Sequence[str], budgets: Sequence[int]) -> str:
    def cell(method: str, budget: int) -> str:
        record = own.get(Cell(game, method, budget))
        if record is None or "skipped" in record:
            return NOTHING
        steps = sum(record["env_steps"]) / len(record["env_steps"])
        return f"{format_number(steps)}, {record['seconds']:.1f} s, {record['compile_seconds']:.1f} s"

    return _table(
        ("method", *map(format_number, budgets)), [(_name(m), *(cell(m, budget) for budget in budgets)) for m in ranked]
    )


def _name(method: str) -> str:
    solver, preset = METHODS[method]
    return f"`{solver}`{f' {preset}' * bool(preset)}{' (tree)' * (method in ON_THE_TREE)}"


def format_interval(interval: Interval) -> str:
    """Formats an estimate and its interval with three significant digits."""
    ends = "" if math.isnan(interval.low) else f" [{interval.low:.3g}, {interval.high:.3g}]"
    return f"{interval.mean:.3g}{ends}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
