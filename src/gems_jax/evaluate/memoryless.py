"""Exact monitoring of games whose observations forget the history, such as Nim and tic-tac-toe.

    column                    meaning, after the iteration
    nash_conv                 sum_p BR_p - u_p of the played mixture (profile "iterate")
    exploitability            NashConv / 2, for two-player zero-sum games only, like the next column
    exploitability_average    of the run's average mixture (profile "average"); nash_conv_average in other games
    value_<player>, welfare   u_p of the played mixture and their sum, in games that are not zero-sum or name players

Best responses have perfect recall (`extensive/recall.py`). The columns of `exact_monitor` that need a table of every
policy at every information set, such as the error budget, are not computed.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from gems_jax.evaluate.monitor import Row
from gems_jax.evaluate.outcomes import valued_players
from gems_jax.extensive.recall import HistoryTree, build_history_tree, evaluate_memoryless
from gems_jax.types import Array, Game, PyTree, Solver, is_two_player_zero_sum

MAX_SEQUENCES = 2**23  # largest tree that a run measures: tic-tac-toe has 2.7 million, 0.2 s for 16 policies
_FEW_INFOSETS = 2**13  # trees that are measured in every iteration


def memoryless_columns(game: Game, solver: Solver) -> Callable[[PyTree, Array], Row]:
    """Makes a function that measures a solver's mixtures exactly; the module docstring lists its columns.

    Args:
      game: a game that can be enumerated with the history added.
      solver: the solver whose profiles are measured.

    Returns:
      `sample(state, iteration) -> {column: []}`, pure.

    Raises:
      NotEnumerableError: if the game cannot be enumerated.
    """
    tree, names, zero_sum = build_history_tree(game), valued_players(game), is_two_player_zero_sum(game)

    def sample(state: PyTree, iteration: Array) -> Row:
        del iteration
        profile, average = solver.profile(state), solver.profile(state, which="average")
        outcome = evaluate_memoryless(tree, profile.population, jnp.stack([profile.sigma, average.sigma]))
        played, averaged = outcome.gains.sum(axis=1)
        row = {"nash_conv": played, "nash_conv_average": averaged}
        if zero_sum:
            row = {"exploitability": played / 2, "nash_conv": played, "exploitability_average": averaged / 2}
        if names:
            row |= {f"value_{name}": outcome.values[0, player] for player, name in enumerate(names)}
            row["welfare"] = outcome.values[0].sum()
        return row

    return sample


def measuring_interval(tree: HistoryTree, every: int) -> int:
    """Returns the iterations between two measurements: 1 on small trees, else `every`; 0 if one takes seconds."""
    if tree.sequences.legal.size > MAX_SEQUENCES:
        return 0
    return 1 if tree.sequences.num_infosets <= _FEW_INFOSETS else every
