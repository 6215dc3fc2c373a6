"""Phases 1 and 2: estimate the meta-game, update the meta-strategy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.exact import exact_values
from gems_jax.estimation.importance import shared_values
from gems_jax.estimation.monte_carlo import Estimate, population_values
from gems_jax.gems.state import GemsState
from gems_jax.meta import simplex
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import step_size
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game


class MetaSolution(NamedTuple):
    log_sigma: Array  # [P, K], the last iterate
    sigma: Array  # [P, K], the average of the iterates
    measured_sigma: Array  # [P, K]
    values: Array  # [P, K], after the moving average
    mixture_value: Array  # [P], likewise
    estimate: Estimate
    best: Array  # [P], what the best anchor was measured to earn, the average over the rounds
    regret: Array  # [P], how much more that is than what the iterates earned
    episodes: Array
    env_steps: Array


class _Totals(NamedTuple):
    """Over the rounds so far, and what the last one measured."""

    iterates: Array  # [P, K], sum of the mixtures after the updates
    offered: Array  # [P, K], sum of v-hat
    earned: Array  # [P], sum of sigma . v-hat
    episodes: Array
    env_steps: Array
    measured: Array  # [P, K], log of the last mixture that was measured
    estimate: Estimate  # of the last round


def estimate_values(
    key: Array, game: Game, opponents: StackedPolicies, log_sigma: Array, active: Array, config: GemsConfig
) -> Estimate:
    """v-hat by the config's estimator. key: consumed."""
    if config.estimator == "exact":
        return exact_values(game, opponents, log_sigma, active)
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
            mixture=config.mixture,
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
    key: Array,
    state: GemsState,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
    steps: int | Array | None = None,
) -> MetaSolution:
    """Phases 1 and 2: `steps` rounds of estimating v-hat on fresh episodes and one OMWU update. key: consumed.

    `steps` is a static number, by default the config's, or a traced one, at least 1.
    """
    steps = config.meta_steps if steps is None else steps

    def update(carry: tuple[Array, ...], inputs: tuple[Array, Array]) -> tuple[tuple, tuple]:
        log_sigma, previous, previous_mixture, number = carry
        round_key, first = inputs
        estimate = estimate_values(round_key, game, opponents, log_sigma, state.active, config)
        # Nothing has been measured before the very first round: 0 as printed, or no hint at all.
        unknown = first & (state.step == 0) & (config.new_value == "oracle_mean")
        previous = jnp.where(unknown, estimate.values, previous)
        weight = jnp.where((config.ema == 0.0) | unknown, 1.0, config.ema)
        values = weight * estimate.values + (1.0 - weight) * previous
        mixture_value = estimate.mixture_value
        if config.ema_scope == "both":
            mixture_value = weight * mixture_value + (1.0 - weight) * previous_mixture
        eta = step_size(config.schedule, config.eta, config.alpha, number, config.slowdown)
        rule = functools.partial(
            omwu_update,
            optimistic=config.meta_rule == "omwu",
            gradient_cap=config.gradient_cap,
            logit_cap=config.logit_cap,
        )
        following = jax.vmap(
            lambda ls, v, pv, r, a, e: rule(ls, v, pv, r, step_size=e, active=a),
            in_axes=(0, 0, 0, 0, 0, 0 if eta.ndim else None),
        )(log_sigma, values, previous, mixture_value, state.active, eta)
        return (following, values, mixture_value, number + 1), (log_sigma, following, estimate)

    start = jnp.log(jax.vmap(simplex.masked_uniform)(state.active)) if config.meta_restart else state.log_sigma
    carry = (start, state.values, state.mixture_value, state.step * config.meta_steps + 1)
    if isinstance(steps, int):
        (log_sigma, values, mixture_value, _), totals = _this_many(update, carry, key, steps)
    else:
        (log_sigma, values, mixture_value, _), totals = _any_number(update, carry, key, steps)
    best = jnp.max(jnp.where(state.active, totals.offered, -jnp.inf), axis=1) / steps
    return MetaSolution(
        log_sigma=log_sigma,
        sigma=totals.iterates / steps,
        measured_sigma=jnp.exp(totals.measured),
        values=values,
        mixture_value=mixture_value,
        estimate=totals.estimate,
        best=best,
        regret=best - totals.earned / steps,
        episodes=totals.episodes,
        env_steps=totals.env_steps,
    )


Update = Callable[[tuple, tuple[Array, Array]], tuple[tuple, tuple[Array, Array, Estimate]]]


def _earned(log_sigma: Array, estimate: Estimate) -> Array:
    return jnp.sum(jnp.exp(log_sigma) * estimate.values, axis=-1)


def _this_many(update: Update, carry: tuple, key: Array, count: int) -> tuple[tuple, _Totals]:
    """`count` rounds. key: consumed."""
    rounds = (jax.random.split(key, count), jnp.arange(count) == 0)
    carry, (measured, iterates, estimates) = jax.lax.scan(update, carry, rounds)
    return carry, _Totals(
        iterates=jnp.sum(jnp.exp(iterates), axis=0),
        offered=jnp.sum(estimates.values, axis=0),
        earned=jnp.sum(_earned(measured, estimates), axis=0),
        episodes=jnp.sum(estimates.episodes),
        env_steps=jnp.sum(estimates.env_steps),
        measured=measured[-1],
        estimate=jax.tree.map(lambda leaf: leaf[-1], estimates),
    )


def _any_number(update: Update, carry: tuple, key: Array, count: Array) -> tuple[tuple, _Totals]:
    """The same with a traced number of rounds. key: consumed."""

    def one_round(n: Array, loop: tuple[tuple, _Totals]) -> tuple[tuple, _Totals]:
        carry, totals = loop
        carry, (measured, following, estimate) = update(carry, (jax.random.fold_in(key, n), n == 0))
        return carry, _Totals(
            iterates=totals.iterates + jnp.exp(following),
            offered=totals.offered + estimate.values,
            earned=totals.earned + _earned(measured, estimate),
            episodes=totals.episodes + estimate.episodes,
            env_steps=totals.env_steps + estimate.env_steps,
            measured=measured,
            estimate=estimate,
        )

    shapes = jax.eval_shape(lambda: _this_many(update, carry, jax.random.key(0), 1)[1])
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.fori_loop(0, count, one_round, (carry, nothing))
