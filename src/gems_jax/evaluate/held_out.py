"""Means over held-out episodes, which no learner has used, with empirical-Bernstein bounds."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import Sampling, joint_returns, policy_returns
from gems_jax.evaluate.certificates import Bounds, mean_bounds
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import View, map_populations, players_of, rotate, take_population
from gems_jax.types import Array, Game, num_populations


@compile_play(static_argnames=("game", "episodes"))
def measure_policies(
    key: Array,
    game: Game,
    policies: StackedPolicies,
    opponents: StackedPolicies,
    sigma: Array,
    *,
    delta: float | Array,
    episodes: int,
) -> Bounds:
    """Bounds the scaled values of policies against a mixture by held-out episodes.

    Args:
      key: consumed.
      game: the game.
      policies: what is measured, [P, C, ...].
      opponents: what the mixture draws from, [P, K, ...].
      sigma: the mixture of the other players, [P, K].
      delta: probability with which each bound may fail.
      episodes: episodes per policy and player position, each with its own opponents, so that they are independent.

    Returns:
      Bounds [P, C] of values scaled to [0, 1].
    """

    def measure(views: tuple[View, ...], p: Array | int, own_key: Array) -> Bounds:
        own, log_sigma = take_population(rotate(policies, p), 0), jnp.log(rotate(sigma, p))
        each = Sampling(num_opponents=episodes, episodes=1)
        returns, _ = policy_returns(own_key, views, own, rotate(opponents, p), log_sigma, each)
        return mean_bounds(returns, delta)

    return map_populations(game, measure, jax.random.split(key, num_populations(game)))


@compile_play(static_argnames=("game", "episodes"))
def measure_mixture(
    key: Array, game: Game, opponents: StackedPolicies, sigma: Array, *, delta: float | Array, episodes: int
) -> Bounds:
    """Bounds the scaled value that each population earns when every player is drawn from sigma.

    Players of one population earn different returns in the same episode: their mean is one sample.

    Args:
      key: consumed.
      game: the game.
      opponents: what the mixture draws from, [P, K, ...].
      sigma: the mixture, [P, K].
      delta: probability with which each bound may fail.
      episodes: number of joint episodes.

    Returns:
      Bounds [P] of values scaled to [0, 1].
    """
    joint, _ = joint_returns(key, game, opponents, jnp.log(sigma), samples=episodes, episodes=1)
    owned = [joint[:, jnp.asarray(players_of(game, p))].mean(axis=1) for p in range(num_populations(game))]
    return mean_bounds(jnp.stack(owned), delta)
