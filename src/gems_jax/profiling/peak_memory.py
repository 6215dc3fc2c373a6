"""Estimate of the peak memory of a GEMS run from its settings."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax

from gems_jax.config import GemsConfig
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.gems.state import init_gems, population_of
from gems_jax.policies.population import materialize
from gems_jax.types import Game, num_players, num_populations


class ArrayBytes(NamedTuple):
    """Bytes of a game state, a policy and a solver state."""

    position: float
    policy: float
    state: float


def array_bytes(game: Game, config: GemsConfig) -> ArrayBytes:
    """Measures array sizes by abstract tracing, without computing anything."""
    hashed: Any = (game, config)  # the protocol does not declare games hashable
    return _array_bytes(*hashed)


@functools.lru_cache(maxsize=256)
def _array_bytes(game: Any, config: Any) -> ArrayBytes:
    key = jax.random.key(0)
    state = jax.eval_shape(lambda k: init_gems(k, game, config), key)
    policies = jax.eval_shape(lambda s: materialize(population_of(s, game, config), config.capacity), state)
    slots = num_populations(game) * config.capacity
    return ArrayBytes(_bytes(jax.eval_shape(game.init, key)), _bytes(policies) / slots, _bytes(state))


def peak_bytes(game: Game, config: GemsConfig) -> float:
    """Estimates the peak bytes of one GEMS run: its state, plus the larger of playing and learning."""
    one, players = array_bytes(game, config), num_players(game)
    seats = game.num_seats / players
    environment = 2.0 * one.position + 4.0 * game.max_steps * game.num_seats  # includes the noise of actions
    episodes = episodes_per_phase(game, config, config.capacity)
    candidates = players * config.pool_size() * one.policy
    playing = max(episodes.meta_update * environment, episodes.oracle_call * environment + candidates)
    rows = episodes.abr_step * (config.abr_segment or game.max_steps) * seats
    protected = episodes.protection * game.max_steps * seats
    states = players * config.capacity * config.kl_states * seats if config.kl_states else protected
    learning = protected * row_bytes(game) + (rows + states) * (row_bytes(game) + activation_bytes(game, config))
    held = 3.0 * one.state + num_populations(game) * config.capacity * one.policy
    return held + max(playing, learning)


def _bytes(shapes: Any) -> float:
    """Sums the bytes of a tree of shapes; a typed key counts as two uint32."""
    leaves = jax.tree.leaves(shapes)
    return float(sum(math.prod(leaf.shape) * (getattr(leaf.dtype, "itemsize", 0) or 8) for leaf in leaves))


def row_bytes(game: Game) -> float:
    """Counts the bytes of a row of experience: observation, legal actions and a few scalars."""
    return 4.0 * math.prod(game.observation_shape) + _actions(game) + 24.0


def activation_bytes(game: Game, config: GemsConfig) -> float:
    """Counts the bytes of activations that the gradient of a row needs: outputs and hidden layers."""
    board = config.policy in ("board", "conv")
    squares = math.prod(game.observation_shape[:2]) if board and len(game.observation_shape) == 3 else 1
    hidden = sum(config.policy_hidden) + squares * config.policy_channels * board + sum(config.critic_hidden)
    return 4.0 * (4.0 * _actions(game) + 2.0 * hidden)


def _actions(game: Game) -> int:
    count: Any = getattr(game, "num_actions", 0) or getattr(game, "action_size", 1)
    return int(count)
