"""The shared-rollout estimator of the n-player meta-game: importance weights on one batch of joint play.

One batch of episodes between all players serves all anchors, whereas `population_values` plays each anchor separately.
The variance is higher: an anchor of mass sigma is drawn in a fraction sigma of the batch.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
from jax import random

from gems_jax.estimation.monte_carlo import Estimate, draw_opponents, player_return, sample_variance, to_unit
from gems_jax.meta import simplex
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.groups import play_joint
from gems_jax.rollout.views import players_of
from gems_jax.types import Array, Game, num_populations


def shared_values(
    key: Array,
    game: Game,
    opponents: StackedPolicies,
    log_sigma: Array,
    active: Array,
    *,
    samples: int,
    episodes: int,
    floor: Array | float = 0.0,
    self_normalized: bool = False,
    stratified: bool = False,
) -> Estimate:
    """Estimates v-hat of all anchors of all players from one batch of joint play (eq:iw_estimator_main).

    B profiles i_b are drawn from the proposal q = (1 - floor) sigma + floor * uniform. With Y_b the mean return over
    the m episodes of a profile,

        v-hat_i = 1/B sum_b 1{i_b = i} / q(i) prod_{others} sigma(i_b) / q(i_b) Y_b
        r-hat   = 1/B sum_b prod_{all players} sigma(i_b) / q(i_b) Y_b

    This is the paper's estimator at floor = 0, and unbiased at any floor. No weight exceeds k / floor.

    Args:
      key: typed PRNG key; consumed.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].
      samples: B, number of profiles.
      episodes: m, episodes per profile.
      floor: probability of drawing an anchor uniformly.
      self_normalized: divide by the sum of the weights instead of by B: a small bias for less variance. An anchor that
        was never drawn then gets r-hat.
      stratified: draw profiles by systematic sampling.

    Returns:
      An `Estimate` that is 0 on inactive slots.
    """
    chex.assert_rank([log_sigma, active], 2)
    sigma = jnp.where(active, jnp.exp(log_sigma), 0.0)
    proposal = (1.0 - floor) * sigma + floor * jax.vmap(simplex.masked_uniform)(active)
    key_draw, key_play = random.split(key)
    drawn = draw_opponents(key_draw, game, jnp.log(proposal), (samples,), stratified)  # [B, players]
    outcome = play_joint(play_episode, key_play, game, opponents, drawn, episodes)
    owner = jnp.asarray(game.population_of_player)
    chance = proposal[owner[None, :], drawn]  # [B, players]
    ratio = sigma[owner[None, :], drawn] / chance
    profile_weight = jnp.prod(ratio, axis=1)  # [B]

    def estimate_player(player: int) -> tuple[Array, Array, Array]:
        """v-hat and its variance [K], and the weighted returns [B]."""
        earned = to_unit(game, player_return(game, player, outcome.returns)).mean(axis=1)  # [B], Y_b
        others = jnp.prod(jnp.delete(ratio, player, axis=1, assume_unique_indices=True), axis=1)
        hit = drawn[:, player, None] == jnp.arange(active.shape[1])[None, :]  # [B, K]
        weight = jnp.where(hit, (others / chance[:, player])[:, None], 0.0)
        if self_normalized:
            return *_self_normalized_mean(weight, earned, profile_weight), profile_weight * earned
        weighted = weight * earned[:, None]
        return weighted.mean(axis=0), sample_variance(weighted.T), profile_weight * earned

    def estimate_population(population: int) -> tuple[Array, Array, Array, Array]:
        """v-hat and its variance [K], r-hat and its variance [], means over the population's players."""
        players = [estimate_player(player) for player in players_of(game, population)]
        values, variances, weighted = map(jnp.stack, zip(*players, strict=True))
        return values.mean(axis=0), variances.mean(axis=0), weighted.mean(), sample_variance(weighted).mean()

    found = [estimate_population(population) for population in range(num_populations(game))]
    values, variances, mixture_value, mixture_variance = map(jnp.stack, zip(*found, strict=True))
    return Estimate(
        values=jnp.where(active, values, 0.0),
        variances=jnp.where(active, variances, 0.0),
        mixture_value=mixture_value,
        mixture_variance=mixture_variance,
        count=jnp.int32(samples),
        episodes=jnp.int32(samples * episodes),
        env_steps=outcome.length.sum(),
    )


def _self_normalized_mean(weight: Array, earned: Array, profile_weight: Array) -> tuple[Array, Array]:
    """Weighted mean of returns and its variance [K]: weight [B, K], earned [B], profile_weight [B]."""
    total = weight.sum(axis=0)
    mixture = jnp.sum(profile_weight * earned) / jnp.sum(profile_weight)
    met = total > 0.0
    mean = jnp.where(met, weight.T @ earned / jnp.where(met, total, 1.0), mixture)
    # Delta method for B samples: B sum_b w_b^2 (Y_b - mean)^2 / (sum_b w_b)^2.
    square = jnp.sum((weight * (earned[:, None] - mean[None, :])) ** 2, axis=0)
    return mean, jnp.where(met, len(earned) * square / jnp.where(met, total, 1.0) ** 2, 0.0)
