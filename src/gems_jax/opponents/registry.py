"""The fixed opponents of every game, by label."""

from __future__ import annotations

from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.particles import SimpleTag
from gems_jax.opponents.chess import material_exchange, material_greedy
from gems_jax.opponents.connect_four import minimax, tactician
from gems_jax.opponents.go import go_tactician
from gems_jax.opponents.hanabi import hanabi_rules
from gems_jax.opponents.simple_tag import tag_script
from gems_jax.opponents.uniform import random_policy
from gems_jax.types import Game, Policy

DEPTHS = range(1, 6)  # of the minimax players of Connect Four


def opponents_of(game: Game) -> dict[str, Policy]:
    """Returns all fixed opponents of a game, by label; weaker ones first.

    Args:
      game: any game.

    Returns:
      The policies. Every game has `random`.
    """
    known = cheap_opponents(game)
    if game.name == "connect_four":
        known |= {f"minimax_{depth}": minimax(depth) for depth in DEPTHS}
    elif game.name == "go_9x9":
        known |= {"tactician": go_tactician()}
    elif game.name == "chess":
        known |= {"greedy": material_greedy(), "exchange": material_exchange()}
    elif isinstance(game, SimpleTag):
        known |= {"script": tag_script(game.continuous)}
    elif isinstance(game, Hanabi):
        known |= {"rules": hanabi_rules(game.sizes)}
    return known


def cheap_opponents(game: Game) -> dict[str, Policy]:
    """Returns the opponents that a run measures its mixtures against during training, by label.

    Args:
      game: any game.

    Returns:
      Uniformly random play, and opponents that cost about as much.
    """
    known = {"random": random_policy(game)}
    return known | {"tactician": tactician()} if game.name == "connect_four" else known
