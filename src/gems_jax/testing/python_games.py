"""Checks of games that run in Python."""

from __future__ import annotations

import copy
import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.host.base import EnvironmentFailure
from gems_jax.host.stages import session
from gems_jax.testing.promises import (
    GameError,
    check_declared,
    check_returns,
    check_state,
    check_turn,
    check_winners,
    random_actions,
    require,
    require_equal,
)
from gems_jax.types import Array, Game, GameState


class _PlayedEpisodes(NamedTuple):
    """Results of a batch of episodes, [E] each."""

    returns: np.ndarray  # [E, S]
    last: np.ndarray  # [E], seat of the last move
    positions: list[GameState]  # of every step


def check_python_game(game: Game, key: Array, episodes: int) -> None:
    """Checks a game that runs in Python, see `check_game`.

    Args:
      game: the game.
      key: consumed.
      episodes: number of random episodes.

    Raises:
      GameError: at the first violation.
    """
    check_declared(game)
    twin = copy.deepcopy(game)
    require(game == twin and hash(game) == hash(twin), game, "an exact copy of the game is not equal to it.")
    key_deal, key_act = jax.random.split(key)
    deals, acts = jax.random.split(key_deal, episodes), jax.random.split(key_act, episodes)
    try:
        played = _play(game, deals, acts)
        check_returns(game, played.returns)
        check_winners(game, played.returns, played.last)
        # The same episodes in other instances, in reverse order.
        again = _play(game, jax.random.clone(deals)[::-1], jax.random.clone(acts)[::-1])
    except EnvironmentFailure as failure:
        raise GameError(str(failure)) from failure
    for index, (one, other) in enumerate(zip(played.positions, again.positions, strict=True)):
        reversed_again = jax.tree.map(lambda leaf: np.asarray(leaf)[::-1], other)
        where = f"step {index}" if index else "init"
        require_equal(
            game,
            one,
            reversed_again,
            f"{where} does not depend on seed and actions alone: an episode, played again, gave other",
        )


def _play(game: Game, deals: Array, acts: Array) -> _PlayedEpisodes:
    """Plays every episode to its end with random legal actions and checks every step."""
    act = jax.jit(jax.vmap(lambda legal, key: random_actions(game, legal, key)))
    init, step = jax.vmap(game.init), jax.vmap(game.step)
    with session(), jax.debug_key_reuse(False):
        state = init(deals)
        require(not np.any(state.done), game, "init gives a finished game.")
        positions, returns, last = [], np.zeros(state.reward.shape), np.full(len(deals), -1)
        for index in range(game.max_steps + 1):
            where = f"step {index}" if index else "init"
            check_state(game, state, where, deals.shape)
            check_turn(game, state, where)
            returns = returns + np.asarray(state.reward)
            positions.append(_drop_handles(state))
            over = np.asarray(state.done)
            if over.all():
                return _PlayedEpisodes(returns, last, positions)
            last = np.where(over, last, np.asarray(state.to_move).argmax(axis=1))
            keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(acts, index)
            state = step(state, act(state.legal, keys), keys)
    running = int((~np.asarray(state.done)).sum())
    raise GameError(
        f"{game.name}: {running} of {len(deals)} episodes still run after max_steps = {game.max_steps} steps."
    )


def _drop_handles(state: GameState) -> GameState:
    """Removes the instance indices, which differ when an episode is played again."""
    return dataclasses.replace(state, inner=jnp.zeros(len(state.terminated)))
