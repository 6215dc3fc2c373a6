"""Phases 1 and 2 on reused returns: play a little, estimate the meta-game from all that is stored, solve it.

An estimator that reuses returns gives the values of all anchors against any mixtures. The meta-strategy is then updated
as often as it takes on one estimate, which costs no episode.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.estimated_game import EstimatedGame
from gems_jax.estimation.replay import (
    PairTable,
    discount_table,
    empty_table,
    estimate_pairs,
    play_pairs,
    staleness_factors,
)
from gems_jax.estimation.trajectories import (
    TrajectoryBuffer,
    empty_buffer,
    estimate_game,
    insert_episodes,
    play_and_record,
)
from gems_jax.learning.rounds import sum_rounds
from gems_jax.meta import simplex
from gems_jax.meta.nash import match_values
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import step_size
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode
from gems_jax.types import Array, Game, num_players

Replay = PairTable | TrajectoryBuffer


class ReusedEstimate(NamedTuple):
    """The meta-game as all stored returns estimate it, and what this iteration played for it."""

    replay: Replay
    game: EstimatedGame
    episodes: Array
    env_steps: Array


class Played(NamedTuple):
    """Environment steps and episodes of one round of play."""

    episodes: Array
    env_steps: Array


def start_replay(game: Game, policies: StackedPolicies, config: GemsConfig) -> Replay | None:
    """Makes the empty store of returns that the estimator keeps; None for estimators that keep nothing."""
    if config.estimator == "pairs":
        return empty_table(game, config.capacity)
    if config.estimator == "trajectories":
        return empty_buffer(game, policies, config.buffer_episodes)
    return None


def estimate_meta_game(
    key: Array,
    replay: Replay,
    game: Game,
    opponents: StackedPolicies,
    log_sigma: Array,
    active: Array,
    iteration: Array,
    config: GemsConfig,
    rounds: int | Array = 1,
) -> ReusedEstimate:
    """Runs phase 1: plays `rounds` times `mixture_samples` profiles, and estimates the meta-game from all returns.

    Args:
      key: typed PRNG key; consumed.
      replay: returns of earlier iterations.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].
      iteration: [] int32.
      config: settings; profiles are drawn from sigma, or uniformly with probability `sigma_floor`.
      rounds: a static number or a traced one, at least 1.

    Returns:
      The grown store, and the meta-game.
    """
    uniform = jax.vmap(simplex.masked_uniform)(active)
    proposal = jnp.log((1.0 - config.sigma_floor) * jnp.exp(log_sigma) + config.sigma_floor * uniform)

    def play(replay: Any, round_key: Array, number: Array) -> tuple[Any, Played]:
        del number
        if isinstance(replay, PairTable):
            replay, env_steps = play_pairs(
                play_episode, round_key, game, opponents, replay, proposal,
                samples=config.mixture_samples, episodes=config.episodes,
            )  # fmt: skip
            return replay, Played(jnp.int32(config.joint_episodes), env_steps)
        found = play_and_record(
            round_key, game, opponents, proposal,
            samples=config.mixture_samples, episodes=config.episodes, stratified=config.opponents == "stratified",
        )  # fmt: skip
        return insert_episodes(replay, found, iteration), Played(found.episodes, found.env_steps)

    replay, played = sum_rounds(play, replay, key, rounds)
    estimated: EstimatedGame
    if isinstance(replay, PairTable):
        estimated = estimate_pairs(replay, game.population_of_player, config.prior_count)
    else:
        joint = estimate_game(replay, game, opponents, iteration, config.replay_discount)
        estimated = joint.to_pairs(config.prior_count) if num_players(game) == 2 else joint
    return ReusedEstimate(replay, estimated, *played)


class SolvedMixture(NamedTuple):
    """Mixtures that a rule finds on an estimated game."""

    log_sigma: Array  # [P, K], where the next iteration starts
    sigma: Array  # [P, K], the average of the iterates, which is played


def solve_estimated_game(
    estimated: EstimatedGame, log_sigma: Array, active: Array, first: Array, config: GemsConfig
) -> SolvedMixture:
    """Runs phase 2 on one estimate: `meta_steps` updates of RM+, OMWU or MWU, which play nothing.

    Args:
      estimated: values of anchors as functions of the mixtures.
      log_sigma: logarithms of the mixtures to start from, [P, K].
      active: which slots hold an anchor, [P, K].
      first: [] int32, number of the first update over the run, counted from 1.
      config: settings.

    Returns:
      The mixtures, [P, K].
    """

    def values(sigma: Array) -> Array:
        return jnp.where(active, estimated.values(sigma), 0.0)

    if config.meta_rule == "rm_plus":
        sigma = match_values(values, active, jnp.exp(log_sigma), config.meta_steps)
        return SolvedMixture(jnp.log(sigma), sigma)
    rule = partial(
        omwu_update,
        optimistic=config.meta_rule == "omwu",
        gradient_cap=config.gradient_cap,
        logit_cap=config.logit_cap,
    )

    def update(carry: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], Array]:
        log_sigma, previous = carry
        offered = values(jnp.exp(log_sigma))
        eta = step_size(config.schedule, config.eta, config.alpha, first + number, config.slowdown)
        earned = jnp.sum(jnp.exp(log_sigma) * offered, axis=1)
        each = jax.vmap(rule, in_axes=(0, 0, 0, 0, 0 if eta.ndim else None, 0))
        following = each(log_sigma, offered, previous, earned, eta, active)
        return (following, offered), jnp.exp(following)

    start = (log_sigma, values(jnp.exp(log_sigma)))
    (last, _), iterates = jax.lax.scan(update, start, jnp.arange(config.meta_steps))
    return SolvedMixture(last, iterates.mean(axis=0))


def age_replay(replay: Replay | None, game: Game, divergence: Array, replaced: Array, config: GemsConfig) -> Any:
    """Discounts stored returns after an iteration: by the drift of the anchors, and to nothing for replaced ones.

    Args:
      replay: the store, or None.
      game: the game.
      divergence: KL of every anchor to what it was before training, [P, K].
      replaced: slots that a newcomer took, [P, K] bool.
      config: settings.

    Returns:
      The store. That of trajectories stays: its weights follow the policies.
    """
    if not isinstance(replay, PairTable):
        return replay
    factors = staleness_factors(divergence, replaced, config.drift_discount, config.replay_discount)
    return discount_table(replay, game.population_of_player, factors)
