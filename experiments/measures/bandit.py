"""A multi-armed bandit played with one of the oracle's indices."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gems_jax.meta.bandit import Pulls
from gems_jax.types import Array, Struct


class BanditHistory(Struct):
    """Pulls of T rounds."""

    arms: Array  # [T] int32
    rewards: Array  # [T]
    stats: Pulls  # after the last round


def play_bandit(
    key: Array,
    reward_fn: Callable[[Array, Array, Array], Array],
    index_fn: Callable[[Array, Pulls, Array], Array],
    num_arms: int,
    horizon: int,
    forced_pulls: int = 1,
) -> BanditHistory:
    """Plays the arm with the highest index for `horizon` rounds, after `forced_pulls` pulls of every arm.

    `reward_fn(key, arm, t)` returns [] and `index_fn(key, stats, t)` returns [num_arms]; t is the round, from 1,
    including forced ones. Ties go to the lowest arm. The key is consumed.
    """

    def play(carry: tuple[Pulls, Array], t: Array) -> tuple[tuple[Pulls, Array], tuple[Array, Array]]:
        stats, key = carry
        key, key_index, key_reward = jax.random.split(key, 3)
        best = jnp.argmax(index_fn(key_index, stats, t)).astype(jnp.int32)
        arm = jnp.where(t <= forced_pulls * num_arms, (t - 1) % num_arms, best)
        reward = jnp.asarray(reward_fn(key_reward, arm, t), jnp.float32)
        return (stats.add(arm[None], reward[None, None]), key), (arm, reward)

    start = (Pulls.empty(num_arms), key)
    (stats, _), (arms, rewards) = jax.lax.scan(play, start, jnp.arange(1, horizon + 1, dtype=jnp.int32))
    return BanditHistory(arms=arms, rewards=rewards, stats=stats)
