"""What a run is measured by: exactly where its game can be walked, otherwise by playing."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.evaluate.outcomes import outcome_names
from gems_jax.evaluate.sampled import headlines, sampled_monitor
from gems_jax.runner.engine import Measure
from gems_jax.runner.rebuild import Problem
from gems_jax.types import Game, NotEnumerableError, PyTree, Solver

OTHERWISE = ("objective", "entropy", "kl")  # rows of the final table of a run that was not measured


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run is driven. Kept in config.json beside the method's own settings, so that a resume does the same."""

    chunk: int = 10
    exact: bool = True
    evaluation_episodes: int = 256
    evaluation_every: int = 10
    debug: bool = False
    checkpoint_seconds: float = 10.0
    keep: int = 3
    seed_batch: int = 0
    mesh: bool = False
    writers: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """From the `options` of config.json."""
        known = {field.name for field in dataclasses.fields(cls)}
        found = {name: value for name, value in options.items() if name in known}
        return cls(**{**found, "writers": tuple(found.get("writers", ()))})


class Monitor(NamedTuple):
    """The driver's measure, and what it has to show."""

    init: Callable[[PyTree], PyTree]
    measure: Measure
    headlines: tuple[str, ...] = ()  # columns of the final table; the first is what "best" means
    highest: bool = False  # and whether that is its highest
    note: str = ""  # what a reader should know of how it measures


def make_monitor(game: Game, solver: Solver, *, exact: bool = True, episodes: int = 256, every: int = 10) -> Monitor:
    """Exact where that was asked for and the game can be walked; otherwise by playing, unless for 0 episodes."""
    note = "no exact evaluation: switched off"
    if exact:
        try:
            zero_sum = len(game.population_of_player) == 2 and game.zero_sum
            gap = "exploitability" if zero_sum else "nash_conv"
            return Monitor(*exact_monitor(game, solver), headlines=(gap, f"{gap}_average", *outcome_names(game)))
        except NotEnumerableError as error:
            reason = re.sub(r"\[\[.*\]\]", "[...]", str(error))  # a whole board of numbers helps nobody here
            note = f"no exact evaluation: {textwrap.shorten(reason, 240, placeholder=' ...')}"
    if episodes:
        note = f"measured by {episodes} episodes every {every} iterations ({note})"
        found = sampled_monitor(game, solver, episodes, every)
        return Monitor(*found, headlines=headlines(game), highest=True, note=note)
    return Monitor(*plain_monitor(game, solver), note=note)


def monitor_of(problem: Problem, settings: Settings) -> Monitor:
    """The monitor that the settings ask for."""
    episodes, every = settings.evaluation_episodes, settings.evaluation_every
    return make_monitor(problem.game, problem.solver, exact=settings.exact, episodes=episodes, every=every)
