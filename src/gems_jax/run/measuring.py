"""What a run is measured by: exactly where its game can be walked, otherwise by playing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.evaluate.outcomes import outcome_names
from gems_jax.evaluate.sampled import headlines, sampled_monitor
from gems_jax.run.engine import Measure
from gems_jax.types import Game, NotEnumerableError, PyTree, Solver


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
