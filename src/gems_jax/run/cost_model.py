"""What an iteration of GEMS costs, from its settings alone: memory."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax

from gems_jax.config import GemsConfig
from gems_jax.types import Game, num_players, num_populations


class Sizes(NamedTuple):
    """Bytes of one position, one policy and one state."""

    position: float
    policy: float
    state: float


@functools.lru_cache(maxsize=256)
def _sizes(game: Any, config: Any) -> Sizes:
    """By tracing: nothing is computed."""
    from gems_jax.gems import init_gems, population_of
    from gems_jax.population import materialise

    key = jax.random.key(0)
    state = jax.eval_shape(lambda k: init_gems(k, game, config), key)
    policies = jax.eval_shape(lambda s: materialise(population_of(s, game, config), config.capacity), state)
    slots = num_populations(game) * config.capacity
    return Sizes(_bytes(jax.eval_shape(game.init, key)), _bytes(policies) / slots, _bytes(state))


def _bytes(shapes: Any) -> float:
    """Of a tree of shapes; keys count as the two words that they are."""
    leaves = jax.tree.leaves(shapes)
    return float(sum(math.prod(leaf.shape) * (getattr(leaf.dtype, "itemsize", 0) or 8) for leaf in leaves))


def peak_bytes(game: Game, config: GemsConfig) -> float:
    """About the most that one run of GEMS holds at once: its state, and the larger of playing and learning."""
    measured: Any = game  # a protocol does not say that games are hashable
    one, players = _sizes(measured, config), num_players(game)
    seats = game.num_seats / players
    noise = 4.0 * game.max_steps * game.num_seats
    lane = 2.0 * one.position + noise
    meta = players * config.capacity * config.num_opponents * config.episodes * (config.estimator == "per_anchor")
    meta += config.mixture_samples * config.episodes
    pool = config.mutations + config.randoms
    judged = players * pool * config.oracle_opponents * config.oracle_episodes
    playing = max(meta * lane, judged * lane + players * pool * one.policy)
    batch = players * config.abr_anchors * config.abr_opponents * config.abr_episodes
    rows = batch * (config.abr_segment or game.max_steps) * seats
    protected = players * config.capacity * config.kl_opponents * game.max_steps * seats
    kept = players * config.capacity * config.kl_states * seats if config.kl_states else protected
    learning = protected * _stored(game) + (rows + kept) * (_stored(game) + _activations(game, config))
    held = 3.0 * one.state + num_populations(game) * config.capacity * one.policy
    return held + max(playing, learning)


def _stored(game: Game) -> float:
    """Bytes of a row of experience: what a seat saw, what it was allowed to do, and a few numbers."""
    return 4.0 * math.prod(game.observation_shape) + _actions(game) + 24.0


def _activations(game: Game, config: GemsConfig) -> float:
    """Bytes that the gradient of a row keeps: outputs and hidden layers of the policy and of the critic."""
    board = config.policy in ("board", "conv")
    squares = math.prod(game.observation_shape[:2]) if board and len(game.observation_shape) == 3 else 1
    hidden = sum(config.policy_hidden) + squares * config.policy_channels * board + sum(config.critic_hidden)
    return 4.0 * (4.0 * _actions(game) + 2.0 * hidden)


def _actions(game: Game) -> int:
    count: Any = getattr(game, "num_actions", 0) or getattr(game, "action_size", 1)
    return int(count)
