"""Games by name. Importing this package loads no environment library; making a game loads the one it needs."""

from gems_jax.games.adapters.jaxmarl import JaxmarlGame, jaxmarl_game
from gems_jax.games.adapters.openspiel import OpenSpielGame
from gems_jax.games.adapters.pettingzoo import PettingZooGame
from gems_jax.games.adapters.pgx import PgxGame
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.matrix import MatrixGame, matrix_game
from gems_jax.games.particles import SimpleSpread, SimpleTag
from gems_jax.games.registry import GAMES, KINDS, GameEntry, game_options, is_own, make_game
from gems_jax.host.own import NotAGameError

__all__ = [
    "GAMES",
    "KINDS",
    "GameEntry",
    "Hanabi",
    "JaxmarlGame",
    "MatrixGame",
    "NotAGameError",
    "OpenSpielGame",
    "PettingZooGame",
    "PgxGame",
    "SimpleSpread",
    "SimpleTag",
    "game_options",
    "is_own",
    "jaxmarl_game",
    "make_game",
    "matrix_game",
]
