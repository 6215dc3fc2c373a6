"""Games by name. Importing this package loads no environment library; making a game loads the one it needs."""

from gems_jax.games.adapters.jaxmarl import JaxmarlGame, jaxmarl_game
from gems_jax.games.adapters.openspiel import OpenSpielGame
from gems_jax.games.adapters.pettingzoo import PettingZooGame
from gems_jax.games.adapters.pgx import PgxGame
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.history import WithHistory, with_history
from gems_jax.games.matrix import MatrixGame, matrix_game
from gems_jax.games.nim import Nim
from gems_jax.games.particles import SimpleSpread, SimpleTag
from gems_jax.games.registry import GAMES, KINDS, GameEntry, describe_game, game_options, is_own, make_game
from gems_jax.host.own import NotAGameError

__all__ = [
    "GAMES",
    "KINDS",
    "GameEntry",
    "Hanabi",
    "JaxmarlGame",
    "MatrixGame",
    "Nim",
    "NotAGameError",
    "OpenSpielGame",
    "PettingZooGame",
    "PgxGame",
    "SimpleSpread",
    "SimpleTag",
    "WithHistory",
    "describe_game",
    "game_options",
    "is_own",
    "jaxmarl_game",
    "make_game",
    "matrix_game",
    "with_history",
]
