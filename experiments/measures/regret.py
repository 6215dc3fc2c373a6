"""External regret of (optimistic) multiplicative weights beside the right side of eq:omwu-var-bound.

    1/T (max_i sum_t v_t,i - sum_t sigma_t . v_t)    external regret, what the bound is true for
    1/T sum_t (max_i v_t,i - sigma_t . v_t)          the same with the maximum inside the sum, as the paper prints it

    ln k / (T eta_T) + 1/T sum_t eta_t / 2 ||v_t - v_{t-1}||^2 + 1/T sum_t ||v-hat_t - v_t||

Payoffs are in [0, 1], norms are maxima over slots, and v_0 = v-hat_0 = 0 as printed: with any other start the bound
fails by a few per cent, because a uniform first mixture is the answer to a hint of 0.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gems_jax.meta.matrix import Estimate, Iterate, iterate_weights
from gems_jax.types import Array, Struct


class RegretSums(Struct):
    """Sums over the steps so far, for every player."""

    values: Array  # [players, K], sum_t v_t
    earned: Array  # [players], sum_t sigma_t . v_t
    best: Array  # [players], sum_t max_i v_t,i
    variation: Array  # [players], sum_t eta_t / 2 ||v_t - v_{t-1}||^2
    noise: Array  # [players], sum_t ||v-hat_t - v_t||
    last_values: Array  # [players, K]
    last_step: Array  # [], eta_T
    steps: Array  # [] int32


class Regret(Struct):
    """Averages over time, [players] each."""

    external: Array
    printed: Array  # maximum inside the sum
    stability: Array  # ln k / (T eta_T)
    variation: Array
    noise: Array

    @property
    def bound(self) -> Array:
        """Right side of eq:omwu-var-bound."""
        return self.stability + self.variation + self.noise


def measure_regret(
    payoffs: Array, active: Array, step_sizes: Array, *, optimistic: bool = True, estimate: Estimate | None = None
) -> Regret:
    """Measures the regret of every player after T = len(step_sizes) steps of `iterate_weights`.

    `payoffs` [players, K, ..., K] are in [0, 1]. `estimate` gives the values that the updates use; by default they are
    exact.
    """
    players, slots = active.shape
    none = jnp.zeros(players)
    start = RegretSums(
        jnp.zeros((players, slots)), none, none, none, none, jnp.zeros((players, slots)), jnp.float32(1), jnp.int32(0)
    )
    options: dict[str, Any] = {} if estimate is None else {"estimate": estimate}

    def largest(of: Array) -> Array:
        return jnp.max(jnp.where(active, of, -jnp.inf), axis=1)

    def collect(sums: RegretSums, now: Iterate) -> RegretSums:
        return RegretSums(
            values=sums.values + now.values,
            earned=sums.earned + jnp.sum(now.sigma * now.values, axis=1),
            best=sums.best + largest(now.values),
            variation=sums.variation + now.step_size / 2 * largest(jnp.abs(now.values - sums.last_values)) ** 2,
            noise=sums.noise + largest(jnp.abs(now.estimates - now.values)),
            last_values=now.values,
            last_step=now.step_size,
            steps=sums.steps + 1,
        )

    sums = iterate_weights(
        payoffs, active, step_sizes, collect, start, optimistic=optimistic, zero_start=True, **options
    )
    count = sums.steps.astype(jnp.float32)
    return Regret(
        external=(largest(sums.values) - sums.earned) / count,
        printed=(sums.best - sums.earned) / count,
        stability=jnp.log(active.sum(axis=1)) / (count * sums.last_step),
        variation=sums.variation / count,
        noise=sums.noise / count,
    )
