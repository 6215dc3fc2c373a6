"""An environment of pgx with this package's rules, which XLA fuses; the states are those of pgx."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from pgx import core

from gems_jax.types import Array


class BoardEnv(core.Env):
    """A board game of two colors that take turns.

    Args:
      rules: an object with `step(x, action)`, `observe(x, color)`, `legal_action_mask(x)`, `is_terminal(x)` and
        `rewards(x)` by color, where `x` is the part of pgx's state that describes the board.
      original: the environment of pgx, which makes the initial states.
    """

    def __init__(self, rules: Any, original: core.Env):
        super().__init__()
        self.rules, self.original = rules, original

    @property
    def id(self) -> Any:
        return self.original.id

    @property
    def version(self) -> str:
        return self.original.version

    @property
    def num_players(self) -> int:
        return 2

    def _init(self, key: Array) -> Any:
        return self.original.init(key)

    def _step(self, state: Any, action: Array, key: Array | None) -> Any:
        del key
        x = self.rules.step(state._x, action)
        by_color = self.rules.rewards(x)
        plays_first = state.current_player == state._x.color  # whether player 0 has color 0
        return state.replace(
            current_player=1 - state.current_player,
            legal_action_mask=self.rules.legal_action_mask(x),
            rewards=jnp.where(plays_first, by_color, by_color[::-1]),
            terminated=self.rules.is_terminal(x),
            _x=x,
        )

    def _observe(self, state: Any, player_id: Array) -> Array:
        color = lax.select(player_id == state.current_player, state._x.color, 1 - state._x.color)
        return self.rules.observe(state._x, color)
