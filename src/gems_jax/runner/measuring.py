"""Choice of a run's monitor: exact on enumerable games, otherwise by episodes."""

from __future__ import annotations

import re
import textwrap

from gems_jax.evaluate.memoryless import measuring_interval, memoryless_columns
from gems_jax.evaluate.monitor import exact_monitor, plain_monitor
from gems_jax.evaluate.outcomes import outcome_names, valued_players
from gems_jax.evaluate.sampled import headlines, sampled_columns
from gems_jax.extensive.recall import build_history_tree
from gems_jax.runner.engine import Monitor
from gems_jax.runner.labels import higher_is_better
from gems_jax.runner.options import RunOptions
from gems_jax.types import (
    Evaluating,
    Game,
    ImperfectRecallError,
    NotEnumerableError,
    Solver,
    is_two_player_zero_sum,
    supports,
)

FALLBACK_COLUMNS = ("objective", "entropy", "kl")  # rows of the final table of a run without measurements


def make_monitor(game: Game, solver: Solver, options: RunOptions | None = None) -> Monitor:
    """Makes the monitor of a run.

    Args:
      game: the game.
      solver: the solver.
      options: `exact` measures enumerable games exactly, after every iteration; large boards like sampled games.
        Otherwise `evaluation_episodes` episodes are played after the first iteration, every `evaluation_every`
        iterations and after the last planned one; with 0 episodes nothing is measured.

    Returns:
      The monitor; its note explains how it measures.
    """
    options = options or RunOptions()
    note = "no exact evaluation: disabled"
    if options.exact:
        try:
            return _make_exact(game, solver, options.evaluation_every)
        except NotEnumerableError as error:
            reason = re.sub(r"\[\[.*\]\]", "[...]", str(error))  # omits a board of numbers
            note = f"no exact evaluation: {textwrap.shorten(reason, 240, placeholder=' ...')}"
            if supports(game, Evaluating):
                note = "no exact evaluation during training; `gems eval RUN` uses the game's own evaluation"
    episodes, every = options.evaluation_episodes, options.evaluation_every
    if not episodes:
        return Monitor(*plain_monitor(game, solver), note=note)
    shown = headlines(game)
    return Monitor(
        *plain_monitor(game, solver),
        sample=sampled_columns(game, solver, episodes),
        every=every,
        headlines=shown,
        highest=bool(higher_is_better(shown[0])),
        note=f"measured by {episodes} episodes {_describe_times(every)} ({note})",
    )


def _describe_times(every: int) -> str:
    """Describes after which iterations a monitor measures."""
    return "after " + ("every iteration" if every == 1 else f"iterations 1, {every}, {2 * every}, ... and the last")


def _make_exact(game: Game, solver: Solver, every: int) -> Monitor:
    gap = "exploitability" if is_two_player_zero_sum(game) else "nash_conv"
    try:
        return Monitor(*exact_monitor(game, solver), headlines=(gap, f"{gap}_average", *outcome_names(game)))
    except ImperfectRecallError:
        interval = measuring_interval(build_history_tree(game), every)
    if not interval:
        raise NotEnumerableError("exact evaluation takes seconds per mixture; `gems eval RUN` computes it")
    values = tuple(f"value_{name}" for name in valued_players(game))
    note = "" if interval == 1 else f"exact evaluation {_describe_times(interval)}"
    return Monitor(
        *plain_monitor(game, solver),
        sample=memoryless_columns(game, solver),
        every=interval,
        headlines=(gap, f"{gap}_average", *values),
        note=note,
    )
