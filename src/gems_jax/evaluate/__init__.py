"""How far a profile is from equilibrium, and why: exact measures for games that can be walked."""

from gems_jax.evaluate.tabular import GameTree, build_tree, exploitability, nash_conv, player_gains

__all__ = ["GameTree", "build_tree", "exploitability", "nash_conv", "player_gains"]
