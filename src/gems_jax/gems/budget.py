"""What an iteration of GEMS plays, counted beforehand, and settings that play a given number of environment steps."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import mixture_returns
from gems_jax.gems.state import init_gems, population_of
from gems_jax.host.stages import on_host, staged
from gems_jax.policies.population import materialise
from gems_jax.types import Game, num_players

_SAMPLE = 1024  # episodes that the mean length is taken from


class Played(NamedTuple):
    """Episodes of one iteration."""

    aside: int  # estimating, judging candidates, and the trust region's states
    per_step: int  # of one ABR step; with `abr_segment` games under way instead, which all take a segment's steps


def episodes_of(game: Game, config: GemsConfig, anchors: int, oracle: bool = True) -> Played:
    """Of an iteration that begins with `anchors` per population, in which the oracle is called or not."""
    players = num_players(game)
    joint = config.joint_episodes
    apart = players * anchors * config.num_opponents * config.episodes * (config.estimator == "per_anchor")
    estimating = config.meta_steps * (apart + joint)
    judging = players * config.pool_size(anchors) * config.oracle_opponents * config.oracle_episodes
    protecting = players * config.capacity * config.kl_opponents
    each = players * config.abr_anchors * config.abr_opponents * config.abr_episodes
    return Played(estimating + judging * oracle + protecting, each)


def mean_length(game: Game, config: GemsConfig) -> float:
    """Env steps per episode between the first policies."""

    def lengths(key: jax.Array) -> jax.Array:
        key_init, key_play = jax.random.split(key)
        state = init_gems(key_init, game, config)
        policies = materialise(population_of(state, game, config), config.capacity)
        play = partial(mixture_returns, samples=_SAMPLE, episodes=1)
        return jnp.mean(play(key_play, game, policies, state.log_sigma)[1])

    return float((staged if on_host(game) else jax.jit)(lengths)(jax.random.key(0)))


def with_budget(game: Game, config: GemsConfig, env_steps: int) -> GemsConfig:
    """The settings with as many ABR steps as make an iteration play about `env_steps`, the mean over the run.

    Episodes are counted exactly; how long they are is measured between the first policies, and changes as these learn.
    Raises ValueError where the rest of an iteration leaves nothing to train with.
    """
    length = mean_length(game, config)
    asides = []
    for done in range(config.iterations):
        calls = -(-done // config.oracle_period) if config.mutations + config.randoms else 0
        anchors = min(config.initial_anchors + calls * config.anchors_per_call, config.capacity)
        asides.append(episodes_of(game, config, anchors, done % config.oracle_period == 0).aside)
    aside = length * sum(asides) / len(asides)
    per_step = episodes_of(game, config, 1).per_step * (config.abr_segment or length)
    steps = round((env_steps - aside) / per_step)
    if steps < 1:
        raise ValueError(
            f"a budget of {env_steps} env steps leaves no training: estimating and the oracle take about {aside:.0f} "
            "an iteration; give more, or lower num_opponents, meta_steps, oracle_opponents or capacity"
        )
    return config.replace(abr_steps=steps)
