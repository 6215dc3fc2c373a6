"""Means of held-out episodes, each with its empirical-Bernstein bounds: nobody has learned from these episodes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import Sampling, joint_returns, policy_returns
from gems_jax.evaluate.certificates import Bounds, mean_bounds
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import View, each_population, players_of, rotate, take_population
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
    """Of the scaled values [P, C] of policies [P, C, ...] against the others' sigma [P, K] over opponents [P, K, ...].

    Each is by `episodes` episodes in every place that its population fills, one opponent each, so that they are
    independent; each bound fails with probability at most delta. key: consumed.
    """

    def measure(views: tuple[View, ...], p: Array | int, own_key: Array) -> Bounds:
        own, log_sigma = take_population(rotate(policies, p), 0), jnp.log(rotate(sigma, p))
        each = Sampling(num_opponents=episodes, episodes=1)
        returns, _ = policy_returns(own_key, views, own, rotate(opponents, p), log_sigma, each)
        return mean_bounds(returns, delta)

    return each_population(game, measure, jax.random.split(key, num_populations(game)))


@compile_play(static_argnames=("game", "episodes"))
def played_value(
    key: Array, game: Game, opponents: StackedPolicies, sigma: Array, *, delta: float | Array, episodes: int
) -> Bounds:
    """Of the scaled value [P] that each population's players earn when everybody is drawn from sigma. key: consumed.

    The players of a population earn different returns in the same episode: their mean is one sample.
    """
    joint, _ = joint_returns(key, game, opponents, jnp.log(sigma), samples=episodes, episodes=1)
    owned = [joint[:, jnp.asarray(players_of(game, p))].mean(axis=1) for p in range(num_populations(game))]
    return mean_bounds(jnp.stack(owned), delta)
