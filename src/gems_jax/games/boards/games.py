"""Connect Four, Go and chess by this package's rules, on states of pgx. pgx is loaded when a game is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax

from gems_jax.games.adapters.pgx import RULES
from gems_jax.games.turns import TurnGame, TurnRules, allow_rank_promotion, make_env


@cache
def board_env(env_id: str) -> Any:
    """The environment of pgx that is called `env_id`, with this package's rules."""
    original = make_env(env_id)
    with jax.ensure_compile_time_eval(), allow_rank_promotion():  # importing the rules makes arrays
        from gems_jax.games.boards import chess, connect_four, env, go

        rules: dict[str, Callable[[], Any]] = {
            "chess": chess.ChessRules,
            "connect_four": connect_four.ConnectFourRules,
            "go_9x9": lambda: go.GoRules(size=9, komi=7.5),
        }
        return env.BoardEnv(rules[env_id](), original)


@dataclass(frozen=True, kw_only=True)
class BoardGame(TurnGame):
    """A board game of pgx by rules of this package. Options: see `TurnGame`."""

    @property
    def rules(self) -> TurnRules:
        return RULES[self.id]

    @property
    def env(self) -> Any:
        return board_env(self.id)


@jax.tree_util.register_static
@dataclass(frozen=True)
class ConnectFour(BoardGame):
    """Connect Four on seven columns of six."""

    id: str = field(default="connect_four", init=False)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Go(BoardGame):
    """Go on 9x9 points, komi 7.5, at most 162 moves. Who repeats a position loses."""

    id: str = field(default="go_9x9", init=False)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Chess(BoardGame):
    """Chess, a draw after 512 plies."""

    id: str = field(default="chess", init=False)
