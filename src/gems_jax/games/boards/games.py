"""Connect Four, Go and chess by this package's rules, on states of pgx. Making a game loads pgx."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from gems_jax.games.adapters.pgx import RULES
from gems_jax.games.turns import TurnGame, TurnPosition, TurnRules, allow_rank_promotion, make_env
from gems_jax.types import Array, expect


@cache
def board_env(env_id: str, size: tuple[int, ...] = ()) -> Any:
    """Makes the pgx environment called `env_id` with this package's rules; `size` are arguments of the rules."""
    original = make_env(env_id)
    with jax.ensure_compile_time_eval(), allow_rank_promotion():  # importing the rules makes arrays
        from gems_jax.games.boards.env import BoardEnv

        return BoardEnv(_RULES[env_id](*size), original)


# Each imports the rules of one game only: those of chess take seconds.
def _connect_four_rules(*size: int) -> Any:
    from gems_jax.games.boards.connect_four import ConnectFourRules

    return ConnectFourRules(*size)


def _go_rules() -> Any:
    from gems_jax.games.boards.go import GoRules

    return GoRules(size=9, komi=7.5)


def _chess_rules() -> Any:
    from gems_jax.games.boards.chess import ChessRules

    return ChessRules()


_RULES: dict[str, Callable[..., Any]] = {
    "connect_four": _connect_four_rules,
    "go_9x9": _go_rules,
    "chess": _chess_rules,
}


@dataclass(frozen=True, kw_only=True)
class BoardGame(TurnGame):
    """A board game of pgx by this package's rules. Options: see `TurnGame`."""

    @property
    def rules(self) -> TurnRules:
        return RULES[self.id]

    @property
    def env(self) -> Any:
        return board_env(self.id)


@jax.tree_util.register_static
@dataclass(frozen=True)
class ConnectFour(BoardGame):
    """Connect Four on seven columns of six, or on another board.

    Args:
      rows: height of the board, 2 to 10.
      columns: width of the board, 2 to 10.
      connect: length of a line that wins, at least 2. Further options: see `TurnGame`.
    """

    id: str = field(default="connect_four", init=False)
    rows: int = 6
    columns: int = 7
    connect: int = 4

    def __post_init__(self) -> None:
        rows, columns, connect = self.size
        whole = all(type(one) is int for one in self.size)
        sound = whole and 2 <= rows <= 10 and 2 <= columns <= 10 and 2 <= connect <= max(rows, columns)
        expect(sound, f"rows and columns must be from 2 to 10 and connect at most the larger one, got {self.size}.")
        super().__post_init__()

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows, columns and length of a line."""
        return self.rows, self.columns, self.connect

    @property
    def name(self) -> str:
        return self.id if self.size == (6, 7, 4) else f"{self.id}_{self.rows}x{self.columns}"

    @property
    def rules(self) -> TurnRules:
        return super().rules if self.size == (6, 7, 4) else TurnRules(self.rows * self.columns)

    @property
    def env(self) -> Any:
        return board_env(self.id, self.size)

    def start(self, key: Array) -> TurnPosition:
        position = super().start(key)
        if self.size == (6, 7, 4):
            return position
        state = position.state
        board = jnp.full(self.rows * self.columns, -1, state._x.board.dtype)
        empty = state.replace(
            _x=state._x._replace(board=board), legal_action_mask=jnp.ones(self.columns, state.legal_action_mask.dtype)
        )
        return position.replace(state=empty)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Go(BoardGame):
    """Go on 9x9 points, komi 7.5, at most 162 moves. A player who repeats a position loses."""

    id: str = field(default="go_9x9", init=False)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Chess(BoardGame):
    """Chess, a draw after 512 plies."""

    id: str = field(default="chess", init=False)
