"""Cells of the leaderboard: games, methods, total budgets, seeds, and the settings that follow."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gems_jax.games import make_game
from gems_jax.presets import PRESETS, preset
from gems_jax.psro.settings import Learning
from gems_jax.runner.rebuild import starting_settings
from gems_jax.solvers import apply_budget
from gems_jax.types import Game, did_you_mean


class Board(NamedTuple):
    """One game of the leaderboard."""

    title: str
    seeds: tuple[int, ...]
    levels: tuple[float, ...]  # gaps whose environment steps to reach are reported, from large to small
    unit: str


GAMES: dict[str, Board] = {
    "kuhn_poker": Board("Kuhn poker", tuple(range(10)), (0.1, 0.03, 0.01), "chips per game"),
    "leduc_holdem": Board("Leduc hold'em", tuple(range(5)), (1.0, 0.5, 0.25, 0.1), "chips per game"),
    "kuhn_poker_3p": Board("Kuhn poker of three players", tuple(range(5)), (0.3, 0.1, 0.03), "chips per game"),
    "liars_dice": Board("Liar's Dice, one die each", tuple(range(5)), (0.5, 0.3, 0.1), "points per game"),
}
# Iterations of a run by its total budget in environment steps: an iteration plays budget / iterations of them.
ITERATIONS = {100_000: 20, 1_000_000: 40, 10_000_000: 40}
# Labels, each with its method and preset. Methods without presets have their default settings.
METHODS: dict[str, tuple[str, str]] = {
    "gems": ("gems", ""),
    "gems_mlp": ("gems", "replay-mlp"),
    "gems_paper": ("gems", "paper"),
    **{
        name: (name, "")
        for name in (
            "psro", "double_oracle", "alpha_psro", "a_psro", "apsro", "epsro", "p2sro", "neupl", "sp_psro",
            "fusion_psro", "simplex_neupl", "jpsro", "neupl_jpsro", "fxp", "self_play", "mmd", "nash_pg", "os_mccfr",
            "es_mccfr", "xdo", "pdo", "edo",
        )
    },
}  # fmt: skip
# Settings other than the defaults, those of `make kuhn-compare` and `make kuhn-family`.
LEARNING = {"opponents": 64}
OVERRIDES: dict[str, dict[str, Any]] = {
    "neupl": {"entropy_weight": 0.01},
    "simplex_neupl": {"entropy_weight": 0.01},
    "p2sro": {"ticks": 1},
}
# Tables of Liar's Dice are large: every update costs a pass over 24,576 rows, so updates see more games, and the mean
# of past policies is over fewer of them.
LARGE: dict[str, dict[str, int]] = {"liars_dice": {"opponents": 1024, "snapshots": 8}}
ON_THE_TREE = ("xdo", "pdo", "edo")  # learn responses from episodes, and solve the restricted game on the tree
RESULTS = Path("docs/results/leaderboard")
CHOICES = "trials"  # folder below RESULTS with the settings that `tune` chose
# Methods with the learner and the payoffs of another one, whose trials they take.
SEARCHED_WITH = dict.fromkeys(("double_oracle", "alpha_psro", "a_psro", "fusion_psro", "jpsro"), "psro")


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One game, one method, one total budget."""

    game: str
    method: str  # a label of METHODS
    budget: int  # environment steps of the whole run

    @property
    def iterations(self) -> int:
        return iterations_of(self.budget)

    @property
    def steps(self) -> int:
        """Environment steps per iteration."""
        return self.budget // self.iterations

    def path(self, root: Path) -> Path:
        """Returns the file of the cell below `root`."""
        return root / self.game / f"{self.method}-{self.budget}.json"

    @property
    def command(self) -> str:
        """Command that runs this cell."""
        return f"python -m experiments.leaderboard run --game {self.game} --method {self.method} --budget {self.budget}"


def iterations_of(budget: int) -> int:
    """Returns the iterations of a run: those of the largest listed budget that is not larger, at least the first's."""
    return ITERATIONS[max((known for known in ITERATIONS if known <= budget), default=min(ITERATIONS))]


def list_cells(game: str = "", method: str = "", budget: int = 0) -> Iterator[Cell]:
    """Lists cells in the order in which they are run, small budgets first.

    Args:
      game: this game alone.
      method: this label alone.
      budget: this total budget alone; any one is possible.

    Yields:
      Cells.

    Raises:
      ValueError: for unknown games and methods.
    """
    _check("game", game, GAMES)
    _check("method", method, METHODS)
    if budget < 0:
        raise ValueError(f"budget must be a positive number of environment steps: got {budget}")
    for steps in (budget,) if budget else sorted(ITERATIONS):
        for name in (game,) if game else GAMES:
            for label in (method,) if method else METHODS:
                yield Cell(name, label, steps)


def _check(kind: str, name: str, known: dict[str, Any]) -> None:
    if name and name not in known:
        raise ValueError(f"unknown {kind} {name!r}; {did_you_mean(name, known)}known: {', '.join(known)}")


def choice_path(game: str, method: str, root: Path = RESULTS) -> Path:
    """Returns the file with the trials and the choices of a label on a game."""
    return root / CHOICES / game / f"{method}.json"


def chosen_settings(cell: Cell) -> dict[str, Any]:
    """Reads the settings that `python -m experiments.leaderboard tune` chose for a budget; none without a choice."""
    path = choice_path(cell.game, cell.method)
    return json.loads(path.read_text()).get("chosen", {}).get(str(cell.budget), {}) if path.exists() else {}


def settings_of(cell: Cell, chosen: dict[str, Any] | None = None) -> tuple[Game, str, Any]:
    """Makes the game, the name of the method and its settings, fitted to the cell's budget.

    Args:
      cell: game, method and budget.
      chosen: settings to change; by default the stored choice.

    Returns:
      The game, the method and the settings.

    Raises:
      ValueError: if the method has no such preset, or the budget is too small for it.
    """
    game, (method, which) = make_game(cell.game), METHODS[cell.method]
    if which and which not in PRESETS.get(cell.game, {}):
        raise ValueError(f"{cell.game} has no preset {which!r}")
    config = preset(cell.game, which) if which else starting_settings(method, cell.game, game, "")[0]
    chosen = chosen_settings(cell) if chosen is None else chosen
    own = {**(LEARNING if isinstance(config, Learning) else {}), **OVERRIDES.get(cell.method, {}), **chosen}
    if isinstance(config, Learning):
        own |= {name: value for name, value in LARGE.get(cell.game, {}).items() if hasattr(config, name)}
    return game, method, apply_budget(method, game, config.replace(iterations=cell.iterations, **own), cell.steps)
