"""Magnets: reference policies that a loss pulls towards, and the annealing of its coefficients.

    loss + alpha_t KL(pi || magnet),    alpha_t = alpha / sqrt(1 + decay t)

    uniform   every legal action is equally likely
    moving    magnet <- magnet + rate (policy - magnet) after every update (magnetic mirror descent, Sokota et al.
              2023). For tables of logits this is the geometric mean magnet^(1 - rate) policy^rate; for networks and
              generators it is the same average of weights.
    copied    a copy of the policy, renewed every `magnet_period` updates (Nash policy gradient, Yu et al. 2025)

An update is one round of episodes and its gradient steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import RegularizationConfig
from gems_jax.learning.batches import Batch, Learner
from gems_jax.learning.ppo import Penalty, zero_penalty
from gems_jax.types import Array, PyTree


def anneal(value: Array | float, decay: ArrayLike, time: ArrayLike) -> Array | float:
    """Computes value / sqrt(1 + decay * time), []; the value itself if the decay is a Python 0."""
    if isinstance(decay, (int, float)) and not decay:
        return value
    return jnp.asarray(value) / jnp.sqrt(1.0 + jnp.asarray(decay) * time)


def has_parameters(config: RegularizationConfig) -> bool:
    """Returns whether the magnet has parameters of its own, which follow those of the policy."""
    return config.magnet in ("moving", "copied")


def init_magnet(config: RegularizationConfig, policy: PyTree) -> PyTree:
    """Initializes the magnet [P, ...] to the first policy, or to () for magnets without parameters."""
    return policy if has_parameters(config) else ()


def move_magnet(config: RegularizationConfig, magnet: PyTree, policy: PyTree, updates: Array) -> PyTree:
    """Moves the magnet after an update.

        moving: magnet + rate (policy - magnet)        copied: policy, every `magnet_period` updates

    Args:
      config: kind, rate and period of the magnet.
      magnet: parameters of the magnet [P, ...], or ().
      policy: parameters of the policy after the update, [P, ...].
      updates: [] int32, number of the update, counted from 1.

    Returns:
      The magnet's parameters [P, ...], or ().
    """
    if config.magnet == "moving":
        return jax.tree.map(lambda held, new: held + config.magnet_rate * (new - held), magnet, policy)
    if config.magnet == "copied":
        due = updates % config.magnet_period == 0
        return jax.tree.map(lambda held, new: jnp.where(due, new, held), magnet, policy)
    return magnet


def magnet_penalty(config: RegularizationConfig, learner: Learner, magnet: PyTree, time: ArrayLike) -> Penalty:
    """Makes the penalty alpha_t KL(policy || magnet), the mean over batches of the mean over decisions.

    Args:
      config: kind of the magnet, alpha and its decay.
      learner: evaluates the policies.
      magnet: parameters for the learner's policy; not read if the magnet has none.
      time: t, [].

    Returns:
      A function of (params, batches, key) that returns the penalty [].
    """
    if config.magnet == "none":
        return zero_penalty
    weight = jnp.asarray(anneal(config.magnet_weight, config.magnet_decay, time))

    def distance(params: PyTree, batch: Batch) -> Array:
        mine = batch.behavior(learner, params)
        if config.magnet == "uniform":
            return batch.kl_per_code(mine, batch.uniform_behavior(learner, mine)).mean()
        return batch.kl_per_code(mine, batch.behavior(learner, magnet)).mean()

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        del key
        return jnp.asarray(weight) * jnp.mean(jnp.stack([distance(params, batch) for batch in batches]))

    return penalty
