"""Measures of a profile on enumerable games: distance from equilibrium, its causes, values and choice rates."""

from gems_jax.evaluate.outcomes import choice_rates, welfare
from gems_jax.extensive.values import GameTree, build_tree, exploitability, nash_conv, player_gains, player_values

__all__ = [
    "GameTree",
    "build_tree",
    "choice_rates",
    "exploitability",
    "nash_conv",
    "player_gains",
    "player_values",
    "welfare",
]
