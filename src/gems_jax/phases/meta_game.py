"""Phases 1 and 2: estimate the meta-game, update the meta-strategy."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax import simplex
from gems_jax.config import GemsConfig
from gems_jax.estimate import Estimate, population_values
from gems_jax.importance import shared_values
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import step_size
from gems_jax.phases.state import GemsState
from gems_jax.population import StackedPolicies
from gems_jax.types import Array, Game


class MetaSolution(NamedTuple):
    log_sigma: Array  # [P, K], the last iterate
    sigma: Array  # [P, K], the average of the iterates
    measured_sigma: Array  # [P, K]
    values: Array  # [P, K], after the moving average
    estimate: Estimate
    episodes: Array
    env_steps: Array


def estimate_values(
    key: Array, game: Game, opponents: StackedPolicies, log_sigma: Array, active: Array, config: GemsConfig
) -> Estimate:
    """v-hat by the config's estimator. key: consumed."""
    if config.estimator == "per_anchor":
        return population_values(
            key,
            game,
            opponents,
            log_sigma,
            active,
            num_opponents=config.num_opponents,
            episodes=config.episodes,
            mixture_samples=config.mixture_samples,
            sampling=config.opponents,
            common=config.common_random_numbers,
        )
    return shared_values(
        key,
        game,
        opponents,
        log_sigma,
        active,
        samples=config.mixture_samples,
        episodes=config.episodes,
        floor=config.sigma_floor,
        self_normalised=config.estimator == "self_normalised",
        stratified=config.opponents == "stratified",
    )


def solve_meta_game(
    key: Array, state: GemsState, opponents: StackedPolicies, game: Game, config: GemsConfig
) -> MetaSolution:
    """Phases 1 and 2: `meta_steps` rounds of estimating v-hat on fresh episodes and one OMWU update. key: consumed."""

    def update(carry: tuple[Array, Array, Array], inputs: tuple[Array, Array]) -> tuple[tuple, tuple]:
        log_sigma, previous, number = carry
        round_key, first = inputs
        estimate = estimate_values(round_key, game, opponents, log_sigma, state.active, config)
        # Nothing has been measured before the very first round: 0 as printed, or no hint at all.
        unknown = first & (state.step == 0) & (config.new_value == "oracle_mean")
        previous = jnp.where(unknown, estimate.values, previous)
        weight = jnp.where((config.ema == 0.0) | (first & (state.step == 0)), 1.0, config.ema)
        values = weight * estimate.values + (1.0 - weight) * previous
        eta = step_size(config.schedule, config.eta, config.alpha, number, config.slowdown)
        rule = functools.partial(
            omwu_update,
            step_size=eta,
            optimistic=config.meta_rule == "omwu",
            gradient_cap=config.gradient_cap,
            logit_cap=config.logit_cap,
        )
        following = jax.vmap(lambda ls, v, pv, r, a: rule(ls, v, pv, r, active=a))(
            log_sigma, values, previous, estimate.mixture_value, state.active
        )
        return (following, values, number + 1), (log_sigma, following, estimate)

    start = jnp.log(jax.vmap(simplex.masked_uniform)(state.active)) if config.meta_restart else state.log_sigma
    carry = (start, state.values, state.step * config.meta_steps + 1)
    rounds = (jax.random.split(key, config.meta_steps), jnp.arange(config.meta_steps) == 0)
    (log_sigma, values, _), (measured, iterates, estimates) = jax.lax.scan(update, carry, rounds)
    return MetaSolution(
        log_sigma=log_sigma,
        sigma=jnp.mean(jnp.exp(iterates), axis=0),
        measured_sigma=jnp.exp(measured[-1]),
        values=values,
        estimate=jax.tree.map(lambda leaf: leaf[-1], estimates),
        episodes=jnp.sum(estimates.episodes),
        env_steps=jnp.sum(estimates.env_steps),
    )
