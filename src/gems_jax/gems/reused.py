"""Phases 1 and 2 on reused returns: play new episodes, estimate the meta-game from all stored returns, solve it.

An estimator that reuses returns gives the values of all anchors against any mixtures. The meta-strategy is then updated
many times on one estimate, without further episodes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.controlled_pairs import ControlledTable, empty_controlled_table, play_controlled_pairs
from gems_jax.estimation.estimated_game import EstimatedGame, JointGame
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
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.rollout.episode import play_episode
from gems_jax.types import Array, Game, num_players

Replay = PairTable | ControlledTable | TrajectoryBuffer


class ReusedEstimate(NamedTuple):
    """The estimate of the meta-game from all stored returns, and the cost of this iteration."""

    replay: Replay
    game: EstimatedGame
    joint: JointGame | None  # the weighted episodes of the estimate, with estimator='trajectories' only
    episodes: Array
    env_steps: Array


class Played(NamedTuple):
    """Episodes and environment steps of one round of play."""

    episodes: Array
    env_steps: Array


def start_replay(key: Array, game: Game, policies: StackedPolicies, config: GemsConfig) -> Replay | None:
    """Makes the empty store of returns of the config's estimator.

    Args:
      key: typed PRNG key; consumed.
      game: the game that is played.
      policies: the policies of all anchors, [P, K, ...].
      config: settings.

    Returns:
      The store, or None if the estimator stores nothing.
    """
    if config.estimator == "pairs" and config.control_variate == "critic":
        return empty_controlled_table(key, game, config.capacity, config.latent_dim)
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
    codes: Array,
    log_sigma: Array,
    active: Array,
    iteration: Array,
    config: GemsConfig,
    rounds: int | Array = 1,
) -> ReusedEstimate:
    """Runs phase 1 on reused returns: plays `rounds` times `mixture_samples` profiles, and estimates the meta-game.

    Args:
      key: typed PRNG key; consumed.
      replay: returns of earlier iterations.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      codes: their latent codes, [P, K, D].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].
      iteration: [] int32.
      config: settings; profiles are drawn from sigma, or uniformly with probability `sigma_floor`, and stored episodes
        explore with probability `exploration`.
      rounds: number of rounds, at least 1, static or traced.

    Returns:
      The store with the new returns, and the estimated meta-game.
    """
    uniform = jax.vmap(simplex.masked_uniform)(active)
    proposal = jnp.log((1.0 - config.sigma_floor) * jnp.exp(log_sigma) + config.sigma_floor * uniform)

    explorers = opponents
    if isinstance(opponents.apply, TabularPolicy):
        explorers = opponents.replace(params=opponents.apply.explore(opponents.params, config.exploration))

    def play(replay: Any, round_key: Array, number: Array) -> tuple[Any, Played]:
        del number
        if isinstance(replay, PairTable):
            replay, env_steps = play_pairs(
                play_episode, round_key, game, opponents, replay, proposal,
                samples=config.mixture_samples, episodes=config.episodes,
            )  # fmt: skip
            return replay, Played(jnp.int32(config.joint_episodes), env_steps)
        if isinstance(replay, ControlledTable):
            replay, env_steps = play_controlled_pairs(
                round_key, game, opponents, codes, replay, proposal,
                samples=config.mixture_samples, episodes=config.episodes,
            )  # fmt: skip
            return replay, Played(jnp.int32(config.joint_episodes), env_steps)
        found = play_and_record(
            round_key, game, explorers, proposal,
            samples=config.mixture_samples, episodes=config.episodes, stratified=config.opponents == "stratified",
        )  # fmt: skip
        return insert_episodes(replay, found, iteration), Played(found.episodes, found.env_steps)

    replay, played = sum_rounds(play, replay, key, rounds)
    if isinstance(replay, (PairTable, ControlledTable)):
        table = replay.table if isinstance(replay, ControlledTable) else replay
        pairs = estimate_pairs(table, game.population_of_player, config.prior_count)
        return ReusedEstimate(replay, pairs, None, *played)
    joint = estimate_game(replay, game, opponents, iteration, config.replay_discount)
    estimated = joint.to_pairs(config.prior_count) if num_players(game) == 2 else joint
    return ReusedEstimate(replay, estimated, joint, *played)


class SolvedMixture(NamedTuple):
    """Mixtures of an estimated game."""

    log_sigma: Array  # [P, K], start of the next iteration
    sigma: Array  # [P, K], sigma', the average of the iterates


def solve_estimated_game(
    estimated: EstimatedGame, log_sigma: Array, active: Array, first: Array, config: GemsConfig
) -> SolvedMixture:
    """Runs phase 2 on one estimate: `meta_steps` updates of RM+, OMWU (eq:omwu-eta) or MWU, without new episodes.

    Args:
      estimated: values of anchors as functions of the mixtures.
      log_sigma: logarithms of the mixtures to start from, [P, K].
      active: which slots hold an anchor, [P, K].
      first: [] int32, number of the first update, counted from 1 over the run.
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
    """Discounts stored returns after an iteration by the drift of the anchors, and clears those of replaced anchors.

    Args:
      replay: the store, or None.
      game: the game.
      divergence: KL of every anchor from its policy before training, [P, K].
      replaced: slots that a new anchor took, [P, K] bool.
      config: settings.

    Returns:
      The discounted store. A store of trajectories does not change, because its weights follow the policies.
    """
    if isinstance(replay, ControlledTable):
        return replay.replace(table=age_replay(replay.table, game, divergence, replaced, config))
    if not isinstance(replay, PairTable):
        return replay
    factors = staleness_factors(divergence, replaced, config.drift_discount, config.replay_discount)
    return discount_table(replay, game.population_of_player, factors)
