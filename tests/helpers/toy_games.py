"""Games small enough to know everything about, for what poker and matrix games do not have.

`TeamGame` has a player of two seats; `Purse` is long, pays on the way, may end early and is otherwise cut off; `Dice`
has three players and chance inside of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.games import MatrixGame
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.distributions import mask_logits
from gems_jax.types import GameState, PolicyOutput


def constant(logits, observation, legal):
    """A policy that plays the same logits [A] wherever it is."""
    del observation
    return PolicyOutput(logits=mask_logits(logits, legal))


def pure(num_actions, *actions):
    """Logits [len(actions), A] of policies that always play one action."""
    return 100.0 * jax.nn.one_hot(jnp.asarray(actions), num_actions)


@jax.tree_util.register_static
@dataclass(frozen=True)
class TeamGame:
    """A matrix game of three seats in which seats 0 and 1 are one player, and seat 2 is the other."""

    base: MatrixGame
    player_of_seat: tuple[int, ...] = (0, 0, 1)
    population_of_player: tuple[int, ...] = (0, 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.base, name)

    def init(self, key):
        return self.base.init(key)

    def step(self, state, actions, key):
        return self.base.step(state, actions, key)


def team_game() -> TeamGame:
    """payoffs[seat, a0, a1, a2] = 4 a0 + 2 a1 + a2 for seat 0, nothing for seat 1, minus a third of it for seat 2."""
    earned = np.arange(8.0).reshape(2, 2, 2)
    return TeamGame(matrix_game(np.stack([earned, np.zeros((2, 2, 2)), -earned / 2]), name="team"))


WAIT, TAKE, STOP = 0, 1, 2


@jax.tree_util.register_static
@dataclass(frozen=True)
class Purse:
    """Two seats move in turn. TAKE moves one coin from the other seat to one's own, STOP ends the game.

    Nobody else ends it: after `max_steps` moves it is truncated. Observation: seat one-hot and the time, as a share.
    """

    max_steps: int = 12

    name = "purse"
    num_seats = 2
    num_actions = 3
    observation_shape = (3,)
    simultaneous = False
    continuous = False
    player_of_seat = (0, 1)
    population_of_player = (0, 1)
    zero_sum = True

    @property
    def return_bounds(self) -> tuple[float, float]:
        return (-float(self.max_steps), float(self.max_steps))

    def init(self, key):
        del key
        return self._state(jnp.int32(0), jnp.bool_(False), jnp.zeros(2))

    def step(self, state, actions, key):
        del key
        mover = state.inner % 2
        action = jnp.where(mover == 0, actions[0], actions[1])
        taken = jnp.where(jnp.arange(2) == mover, 1.0, -1.0) * (action == TAKE)
        following = self._state(state.inner + 1, action == STOP, taken)
        ended = state.replace(reward=jnp.zeros(2))
        return jax.tree.map(lambda new, old: jnp.where(state.done, old, new), following, ended)

    def _state(self, time, stopped, reward):
        truncated = (time >= self.max_steps) & ~stopped
        to_move = (jnp.arange(2) == time % 2) & ~stopped & ~truncated
        share = jnp.full((2, 1), time / self.max_steps, jnp.float32)
        return GameState(
            inner=time,
            observation=jnp.concatenate([jnp.eye(2), share], axis=1),
            legal=jnp.broadcast_to(to_move[:, None], (2, 3)),
            to_move=to_move,
            reward=reward,
            terminated=stopped,
            truncated=truncated,
        )


HOLD, ROLL = 0, 1


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dice:
    """Three seats move in turn. HOLD earns 1; ROLL earns what a die in `step` shows, but a one costs 4 and ends it all.

    What a seat earns the next one loses half of. After `max_steps` moves it is truncated. Observation: seat one-hot,
    the time as a share, the last roll.
    """

    max_steps: int = 9

    name = "dice"
    num_seats = 3
    num_actions = 2
    observation_shape = (5,)
    simultaneous = False
    continuous = False
    player_of_seat = (0, 1, 2)
    population_of_player = (0, 1, 2)
    zero_sum = False
    return_bounds = (-18.0, 18.0)

    def init(self, key):
        del key
        return self._state(jnp.int32(0), jnp.int32(0), jnp.zeros(3))

    def step(self, state, actions, key):
        time, _ = state.inner
        mover = time % 3
        roll = jax.random.randint(key, (), 1, 7) * (actions[mover] == ROLL)
        earned = jnp.where(actions[mover] == HOLD, 1.0, jnp.where(roll == 1, -4.0, roll))
        reward = earned * (jax.nn.one_hot(mover, 3) - 0.5 * jax.nn.one_hot((mover + 1) % 3, 3))
        following = self._state(time + 1, roll.astype(jnp.int32), reward)
        ended = state.replace(reward=jnp.zeros(3))
        return jax.tree.map(lambda new, old: jnp.where(state.done, old, new), following, ended)

    def _state(self, time, roll, reward):
        lost = roll == 1
        truncated = (time >= self.max_steps) & ~lost
        to_move = (jnp.arange(3) == time % 3) & ~lost & ~truncated
        seen = jnp.stack([time / self.max_steps, roll / 6.0]).astype(jnp.float32)
        return GameState(
            inner=(time, roll),
            observation=jnp.concatenate([jnp.eye(3), jnp.broadcast_to(seen[None], (3, 2))], axis=1),
            legal=jnp.broadcast_to(to_move[:, None], (3, 2)),
            to_move=to_move,
            reward=reward,
            terminated=lost,
            truncated=truncated,
        )
