"""What a run is measured by: exactly where its game can be walked, otherwise by playing."""

from __future__ import annotations

import re
import textwrap

from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.evaluate.outcomes import outcome_names
from gems_jax.evaluate.sampled import headlines, sampled_monitor
from gems_jax.runner.engine import Monitor
from gems_jax.runner.options import RunOptions
from gems_jax.types import Evaluating, Game, NotEnumerableError, Solver, is_two_player_zero_sum, supports

OTHERWISE = ("objective", "entropy", "kl")  # rows of the final table of a run that was not measured


def make_monitor(game: Game, solver: Solver, options: RunOptions | None = None) -> Monitor:
    """Measures exactly where the options say so and the game is enumerable, else by playing, unless for 0 episodes."""
    options = options or RunOptions()
    note = "no exact evaluation: switched off"
    if options.exact:
        try:
            return _make_exact(game, solver)
        except NotEnumerableError as error:
            reason = re.sub(r"\[\[.*\]\]", "[...]", str(error))  # a whole board of numbers helps nobody here
            note = f"no exact evaluation: {textwrap.shorten(reason, 240, placeholder=' ...')}"
            if supports(game, Evaluating):
                note = "no exact evaluation while it trains; `gems eval RUN` asks the game's own"
    episodes, every = options.evaluation_episodes, options.evaluation_every
    if not episodes:
        return Monitor(*plain_monitor(game, solver), note=note)
    note = f"measured by {episodes} episodes every {every} iterations ({note})"
    return Monitor(*sampled_monitor(game, solver, episodes, every), headlines=headlines(game), highest=True, note=note)


def _make_exact(game: Game, solver: Solver) -> Monitor:
    gap = "exploitability" if is_two_player_zero_sum(game) else "nash_conv"
    return Monitor(*exact_monitor(game, solver), headlines=(gap, f"{gap}_average", *outcome_names(game)))
