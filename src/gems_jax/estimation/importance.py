"""The shared-rollout estimator of the n-player meta-game (eq:iw_estimator_main): joint play, weighed.

One batch of episodes between everybody serves all anchors of all players, where `estimate.population_values` plays
each anchor apart. The price is variance: an anchor of mass sigma comes up in a share sigma of the batch.
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
    self_normalised: bool = False,
    stratified: bool = False,
) -> Estimate:
    """v-hat of all anchors of all players from one batch of joint play (eq:iw_estimator_main). key: consumed.

    B = `samples` profiles are drawn, each played `episodes` times. With a `floor`, from q = (1 - floor) sigma + floor
    on all active anchors alike, so that no weight is above k / floor; then

        v-hat_i = 1/B sum_b 1{i_b = i} / q(i) prod_{others} sigma(i_b) / q(i_b) Y_b
        r-hat   = 1/B sum_b prod_{everybody} sigma(i_b) / q(i_b) Y_b

    with Y_b the mean over the episodes of a profile: unbiased whatever the floor. `self_normalised` divides by the sum
    of the weights instead of by B: a small bias for less variance, and r-hat for an anchor that never came up.
    """
    chex.assert_rank([log_sigma, active], 2)
    sigma = jnp.where(active, jnp.exp(log_sigma), 0.0)
    proposal = (1.0 - floor) * sigma + floor * jax.vmap(simplex.masked_uniform)(active)
    key_draw, key_play = random.split(key)
    drawn = draw_opponents(key_draw, game, jnp.log(proposal), (samples,), stratified)  # [B, players]
    outcome = play_joint(play_episode, key_play, game, opponents, drawn, episodes)
    owner = jnp.asarray(game.population_of_player)
    mass, chance = sigma[owner[None, :], drawn], proposal[owner[None, :], drawn]  # [B, players]
    ratio = mass / chance
    everyone = jnp.prod(ratio, axis=1)
    values, spreads, mixture, mixture_spread = [], [], [], []
    for population in range(num_populations(game)):
        rows, weighed = [], []
        for player in players_of(game, population):
            earned = to_unit(game, player_return(game, player, outcome.returns)).mean(axis=1)  # [B]
            others = jnp.prod(jnp.delete(ratio, player, axis=1, assume_unique_indices=True), axis=1)
            hit = drawn[:, player, None] == jnp.arange(active.shape[1])[None, :]  # [B, K]
            weight = jnp.where(hit, (others / chance[:, player])[:, None], 0.0)
            rows.append(_weighed(weight, earned, everyone, self_normalised))
            weighed.append(everyone * earned)
        mean, spread = (jnp.mean(jnp.stack(part), axis=0) for part in zip(*rows, strict=True))
        values.append(mean)
        spreads.append(spread)
        mixture.append(jnp.mean(jnp.stack(weighed)))
        mixture_spread.append(sample_variance(jnp.stack(weighed)).mean())
    return Estimate(
        values=jnp.where(active, jnp.stack(values), 0.0),
        variances=jnp.where(active, jnp.stack(spreads), 0.0),
        mixture_value=jnp.stack(mixture),
        mixture_variance=jnp.stack(mixture_spread),
        count=jnp.int32(samples),
        episodes=jnp.int32(samples * episodes),
        env_steps=outcome.length.sum(),
    )


def _weighed(weight: Array, earned: Array, everyone: Array, self_normalised: bool) -> tuple[Array, Array]:
    """Mean and variance [K] of weighed returns: weight [B, K], earned [B], everyone [B] the weight of a profile."""
    count = len(earned)
    if not self_normalised:
        samples = weight * earned[:, None]
        return samples.mean(axis=0), sample_variance(samples.T)
    total = weight.sum(axis=0)
    mixture = jnp.sum(everyone * earned) / jnp.sum(everyone)
    met = total > 0.0
    mean = jnp.where(met, weight.T @ earned / jnp.where(met, total, 1.0), mixture)
    # the delta method: B sum w^2 (y - mean)^2 / (sum w)^2, of B samples
    square = jnp.sum((weight * (earned[:, None] - mean[None, :])) ** 2, axis=0)
    return mean, jnp.where(met, count * square / jnp.where(met, total, 1.0) ** 2, 0.0)


def importance_variance(mean: Array, second_moment: Array, mass: Array, samples: int) -> Array:
    """Var v-hat_i of eq:iw_estimator_main: (E[Y^2 | i] / sigma(i) - v_i^2) / B.

    mean v_i and second_moment E[Y^2 | i] are of the mean return Y of one profile's episodes against the others' sigma.
    """
    return (second_moment / mass - mean**2) / samples
