"""Settings whose iterations play a given number of environment steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import joint_returns
from gems_jax.gems.budget import episodes_with
from gems_jax.gems.state import init_gems, population_of
from gems_jax.host.stages import on_host, staged
from gems_jax.policies.population import materialise
from gems_jax.types import Game

_SAMPLE = 1024  # episodes that the mean length is taken from


def mean_length(game: Game, config: GemsConfig) -> float:
    """Measures the env steps per episode between the first policies."""

    def lengths(key: jax.Array) -> jax.Array:
        key_init, key_play = jax.random.split(key)
        state = init_gems(key_init, game, config)
        policies = materialise(population_of(state, game, config), config.capacity)
        return jnp.mean(joint_returns(key_play, game, policies, state.log_sigma, samples=_SAMPLE, episodes=1)[1])

    return float((staged if on_host(game) else jax.jit)(lengths)(jax.random.key(0)))


def fit_abr_steps(game: Game, config: GemsConfig, env_steps: int) -> GemsConfig:
    """Sets `abr_steps` so that an iteration plays about `env_steps`, the mean over the run.

    Episodes are counted exactly; their length is measured between the first policies, and changes as these learn.

    Args:
      game: the game that is played.
      config: settings.
      env_steps: environment steps per iteration.

    Returns:
      The settings with another number of ABR steps.

    Raises:
      ValueError: if the rest of an iteration leaves no steps to train with.
    """
    length = mean_length(game, config)
    episodes = []
    for done in range(config.iterations):
        calls = -(-done // config.oracle_period) if config.mutations + config.randoms else 0
        anchors = min(config.initial_anchors + calls * config.anchors_per_call, config.capacity)
        called = done % config.oracle_period == 0
        episodes.append(episodes_with(game, config, anchors).besides_training(config, called))
    besides = length * sum(episodes) / len(episodes)
    per_step = episodes_with(game, config, 1).abr_step * (config.abr_segment or length)
    steps = round((env_steps - besides) / per_step)
    if steps < 1:
        raise ValueError(
            f"a budget of {env_steps} env steps leaves no training: estimating and the oracle take about {besides:.0f} "
            "an iteration; give more, or lower num_opponents, meta_steps, oracle_opponents or capacity"
        )
    return config.replace(abr_steps=steps)
