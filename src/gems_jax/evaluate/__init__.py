"""How far a profile is from equilibrium, what it comes to, and why: exact measures for games that can be walked."""

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
