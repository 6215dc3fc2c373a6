"""Phases 1 and 2: estimate the meta-game, update the meta-strategy."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.exact import exact_values
from gems_jax.estimation.importance import shared_values
from gems_jax.estimation.monte_carlo import Estimate, Sampling, empty_estimate, population_values
from gems_jax.gems.reused import estimate_meta_game, solve_estimated_game
from gems_jax.gems.state import GemsState
from gems_jax.learning.rounds import sum_rounds
from gems_jax.meta.bandit import empirical_bernstein_width
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import step_size
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, Game, PyTree, Struct


class MetaGameMetrics(Struct):
    """Measurements of the last meta update, in scaled returns."""

    values: Array  # [P, K]
    variances: Array  # [P, K]
    widths: Array  # [P, K], empirical-Bernstein half-widths of the values at confidence 1 - delta
    mixture_value: Array  # [P]
    measured_sigma: Array  # [P, K], the mixture against which `values` were measured
    sigma: Array  # [P, K], the mixture after the update, before the new anchor
    value_errors: Array  # [P, K], standard errors of `values`


class MetaSolution(NamedTuple):
    """Result of phases 1 and 2."""

    log_sigma: Array  # [P, K], the last iterate
    sigma: Array  # [P, K], sigma', the average of the iterates
    values: Array  # [P, K], v-hat after the moving average
    mixture_value: Array  # [P], r-hat after the moving average
    estimate: Estimate  # of the last update
    best: Array  # [P], measured value of the best anchor, averaged over the updates
    regret: Array  # [P], `best` minus the measured value of the iterates
    replay: PyTree  # stored returns, None if the estimator stores none
    joint: PyTree  # stored episodes with their weights, with estimator='trajectories' only
    metrics: MetaGameMetrics
    episodes: Array
    env_steps: Array


class _Progress(NamedTuple):
    """The meta-strategy between two updates."""

    log_sigma: Array  # [P, K]
    values: Array  # [P, K], v-hat of the update before
    mixture_value: Array  # [P]
    number: Array  # [] int32, number of the next update, counted from 1 over the run
    measured: Array  # [P, K], log of the last measured mixture
    estimate: Estimate  # of the last update


class _Counted(NamedTuple):
    """Sums over the updates."""

    iterates: Array  # [P, K], the mixture after the update
    offered: Array  # [P, K], v-hat
    earned: Array  # [P], sigma . v-hat
    episodes: Array
    env_steps: Array


def estimate_values(
    key: Array, game: Game, opponents: StackedPolicies, log_sigma: Array, active: Array, config: GemsConfig
) -> Estimate:
    """Estimates v-hat and r-hat by the config's estimator (eq:mc-estimators_revised or eq:iw_estimator_main).

    Args:
      key: typed PRNG key; consumed.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K] bool.
      config: settings.

    Returns:
      An `Estimate` that is 0 on inactive slots.
    """
    if config.estimator == "exact":
        return exact_values(game, opponents, log_sigma, active)
    if config.estimator == "per_anchor":
        sampling = Sampling(config.num_opponents, config.episodes, config.opponents, config.common_random_numbers)
        return population_values(
            key, game, opponents, log_sigma, active, sampling, config.mixture_samples, config.mixture
        )
    return shared_values(
        key, game, opponents, log_sigma, active, samples=config.mixture_samples, episodes=config.episodes,
        floor=config.sigma_floor, self_normalized=config.estimator == "self_normalised",
        stratified=config.opponents == "stratified",
    )  # fmt: skip


def update_meta_strategy(
    key: Array,
    state: GemsState,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
    steps: int | Array | None = None,
) -> MetaSolution:
    """Runs phases 1 and 2: estimates v-hat on new episodes and makes one OMWU update (eq:omwu-eta), `steps` times.

    If the estimator reuses returns, it plays `steps` rounds and then makes all updates on one estimate.

    Args:
      key: typed PRNG key; consumed.
      state: the state before the iteration.
      opponents: the policies of all anchors, [P, K, ...].
      game: the game that is played.
      config: settings.
      steps: number of estimates, at least 1, static or traced; by default the config's.

    Returns:
      The mixtures and values after the updates, with their measurements.
    """
    steps = config.num_estimates if steps is None else steps
    if config.reuses_returns:
        return _solve_reused(key, state, opponents, game, config, steps)

    def update(progress: _Progress, round_key: Array, number: Array) -> tuple[_Progress, _Counted]:
        estimate = estimate_values(round_key, game, opponents, progress.log_sigma, state.active, config)
        # There is no estimate before the first update of a run: v-hat_0 is 0 as printed, or there is no hint.
        unknown = (number == 0) & (state.step == 0) & (config.new_value == "oracle_mean")
        previous = jnp.where(unknown, estimate.values, progress.values)
        weight = jnp.where((config.ema == 0.0) | unknown, 1.0, config.ema)
        values = weight * estimate.values + (1.0 - weight) * previous
        mixture_value = estimate.mixture_value
        if config.ema_scope == "both":
            mixture_value = weight * mixture_value + (1.0 - weight) * progress.mixture_value
        eta = step_size(config.schedule, config.eta, config.alpha, progress.number, config.slowdown)
        rule = partial(
            omwu_update,
            optimistic=config.meta_rule == "omwu",
            gradient_cap=config.gradient_cap,
            logit_cap=config.logit_cap,
        )
        over_populations = jax.vmap(rule, in_axes=(0, 0, 0, 0, 0 if eta.ndim else None, 0))
        following = over_populations(progress.log_sigma, values, previous, mixture_value, eta, state.active)
        earned = jnp.sum(jnp.exp(progress.log_sigma) * estimate.values, axis=-1)
        counted = _Counted(jnp.exp(following), estimate.values, earned, estimate.episodes, estimate.env_steps)
        following_number = progress.number + 1
        return _Progress(following, values, mixture_value, following_number, progress.log_sigma, estimate), counted

    last, totals = sum_rounds(update, _first_progress(state, config), key, steps)
    best = jnp.max(jnp.where(state.active, totals.offered, -jnp.inf), axis=1) / steps
    sigma = totals.iterates / steps
    return MetaSolution(
        log_sigma=last.log_sigma,
        sigma=sigma,
        values=last.values,
        mixture_value=last.mixture_value,
        estimate=last.estimate,
        best=best,
        regret=best - totals.earned / steps,
        replay=state.replay,
        joint=None,
        metrics=_metrics(last.estimate, jnp.exp(last.measured), sigma, config),
        episodes=totals.episodes,
        env_steps=totals.env_steps,
    )


def _solve_reused(
    key: Array, state: GemsState, opponents: StackedPolicies, game: Game, config: GemsConfig, rounds: int | Array
) -> MetaSolution:
    """Phases 1 and 2 on reused returns: one estimate of the whole meta-game, and a mixture that solves it."""
    found = estimate_meta_game(
        key, state.replay, game, opponents, state.anchors, state.log_sigma, state.active, state.step, config, rounds
    )
    first = state.step * config.meta_steps + 1
    solved = solve_estimated_game(found.game, state.log_sigma, state.active, first, config)
    sigma = solved.sigma
    values = jnp.where(state.active, found.game.values(sigma), 0.0)
    squares = jnp.where(state.active, found.game.squared_errors(sigma), 0.0)
    mixture_value = jnp.sum(sigma * values, axis=1)
    best = jnp.max(jnp.where(state.active, values, -jnp.inf), axis=1)
    lead = jnp.argmax(jnp.where(state.active, values, -jnp.inf), axis=1)
    estimate = Estimate(
        values, squares, mixture_value, jnp.sum(sigma**2 * squares, axis=1), jnp.int32(1), found.episodes,
        found.env_steps,
    )  # fmt: skip
    noise = jnp.sqrt(jnp.take_along_axis(squares, lead[:, None], axis=1)[:, 0])
    return MetaSolution(
        log_sigma=solved.log_sigma,
        sigma=sigma,
        values=values,
        mixture_value=mixture_value,
        estimate=estimate,
        best=best,
        regret=best - mixture_value + noise,
        replay=found.replay,
        joint=found.joint,
        metrics=_metrics(estimate, sigma, sigma, config),
        episodes=found.episodes,
        env_steps=found.env_steps,
    )


def _first_progress(state: GemsState, config: GemsConfig) -> _Progress:
    return _Progress(
        log_sigma=state.log_sigma,
        values=state.values,
        mixture_value=state.mixture_value,
        number=state.step * config.meta_steps + 1,
        measured=state.log_sigma,
        estimate=empty_estimate(*state.log_sigma.shape),
    )


def _metrics(estimate: Estimate, measured_sigma: Array, sigma: Array, config: GemsConfig) -> MetaGameMetrics:
    return MetaGameMetrics(
        values=estimate.values,
        variances=estimate.variances,
        widths=empirical_bernstein_width(estimate.variances, estimate.count, config.delta),
        mixture_value=estimate.mixture_value,
        measured_sigma=measured_sigma,
        sigma=sigma,
        value_errors=jnp.sqrt(estimate.variances / jnp.maximum(estimate.count, 1)),
    )
