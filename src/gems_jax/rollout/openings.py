"""Random openings: games whose first steps are random play, so that learners see varied positions.

An episode opens with L uniformly random legal moves of all seats, where

    L = 0 with probability 1 - fraction,    L uniform on 1, ..., plies otherwise

During the opening no seat is to move: learners therefore make no decision, and get no gradient and no target, there.
Later rewards belong to the decisions after the opening as always.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import draw_uniform
from gems_jax.config import LearnerConfig
from gems_jax.host.stages import on_host
from gems_jax.policies import distributions
from gems_jax.types import Array, Game, GameState, PolicyOutput, Struct


class OpeningState(Struct):
    """State of a game with a random opening."""

    inner: Any  # the game's own state
    to_move: Array  # [S] bool, seats that act by the rules
    left: Array  # [] int32, steps left of the opening


class RandomOpenings(Struct):
    """A game whose episodes may open with random moves; everything else is delegated to `base`."""

    base: Game
    plies: Array  # [] int32, longest opening
    fraction: Array  # [] float32, fraction of the episodes with an opening

    def __getattr__(self, name: str) -> Any:  # name, num_seats, max_steps, ... are those of the base
        if name.startswith("__") or name in ("base", "plies", "fraction"):
            raise AttributeError(name)
        return getattr(self.base, name)

    def init(self, key: Array) -> GameState:
        """Starts an episode, and draws the length of its opening. key: consumed."""
        key_game, key_open, key_length = jax.random.split(key, 3)
        length = jax.random.randint(key_length, (), 1, self.plies + 1)
        opened = draw_uniform(key_open) < self.fraction
        return _open(self.base.init(key_game), jnp.where(opened, length, 0))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Advances the game; during the opening the actions are replaced by random legal ones. key: consumed."""
        key_game, key_act = jax.random.split(key)
        opening = state.inner.left > 0
        drawn = self._draw_actions(key_act, state.legal)
        inside = dataclasses.replace(state, inner=state.inner.inner, to_move=state.inner.to_move)
        following = self.base.step(inside, jnp.where(opening, drawn, actions), key_game)
        return _open(following, jnp.maximum(state.inner.left - 1, 0))

    def _draw_actions(self, key: Array, legal: Array) -> Array:
        """Draws uniform actions [S, ...] of all seats, legal [S, A]. key: consumed."""
        seats, actions = legal.shape
        if self.base.continuous:
            return jax.random.uniform(key, (seats, actions), minval=-1.0, maxval=1.0)
        noise = distributions.draw_noise(key, (seats,), actions, False)
        uniform = PolicyOutput(logits=jnp.where(legal, 0.0, distributions.ILLEGAL))
        return jax.vmap(distributions.sample_action)(uniform, noise)


def _open(state: GameState, left: Array) -> GameState:
    """The state of a game as learners see it, `left` steps before the end of its opening."""
    inner = OpeningState(state.inner, state.to_move, left)
    return dataclasses.replace(state, inner=inner, to_move=state.to_move & (left == 0))


def add_openings(game: Game, settings: LearnerConfig) -> Game:
    """Gives a game the random openings of the settings.

    Args:
      game: the game, implemented in JAX.
      settings: `opening_plies` is the length of the longest opening, `opening_fraction` the fraction of the episodes.

    Returns:
      The game with openings; the game itself if `opening_plies` is 0.

    Raises:
      ValueError: if the game runs in Python.
    """
    if not settings.opening_plies:
        return game
    if on_host(game):
        raise ValueError(
            f"opening_plies={settings.opening_plies} needs a game in JAX: expected one, got {game.name}, which runs in "
            "Python. Set opening_plies=0."
        )
    fraction = jnp.asarray(settings.opening_fraction, jnp.float32)
    return RandomOpenings(game, jnp.int32(settings.opening_plies), fraction)  # type: ignore[return-value]
