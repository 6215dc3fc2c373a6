"""A learner against a mixture that learns too: games restricted for one side only, by episodes.

The restricted side mixes policies that it holds, by multiplicative weights on what the learner earned from each of
them lately; the learner is a network, which may do anything. The average mixture is the restricted side's answer. The
constants of the inner loop are this project's: what a policy costs is a moving average over the rounds that met it,
and a share `floor` of all opponents is drawn from all policies alike, so that none is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax import best_response, simplex
from gems_jax.best_response import TrainMetrics
from gems_jax.config import ABOVE_ZERO, SHARE, choice, real
from gems_jax.estimate import return_scale
from gems_jax.experience import Experience
from gems_jax.explicit.ppo import NO_CODE, Student, networks, plain_learner, source_of, train_options
from gems_jax.explicit.settings import ExplicitSettings, Learning
from gems_jax.population import StackedPolicies
from gems_jax.roles import View, each_population, rotate
from gems_jax.stages import compiled
from gems_jax.streams import stream
from gems_jax.types import Array, Game, PyTree, num_populations, struct

_MEMORY = 0.7  # of the moving average, from round to round


@struct
class ContestSettings(ExplicitSettings):
    """How a mixture answers its opponent."""

    inherit: bool = choice(False)
    """Learners go on from iteration to iteration instead of starting afresh."""
    step_size: float = real(0.1, ABOVE_ZERO)
    """Of multiplicative weights, in units of the game's returns."""
    floor: float = real(0.1, SHARE)
    """Share of a learner's opponents that are drawn from all policies alike."""


class Weights(NamedTuple):
    """The restricted side. [K] each, or [P, K] of all populations."""

    log_weight: Array
    cost: Array  # what the learner earned from each policy lately, in units of the game's returns
    total: Array  # the sum of all mixtures so far

    @property
    def average(self) -> Array:
        """The mean of all mixtures so far."""
        return self.total / self.total.sum(axis=-1, keepdims=True)


def equal_weights(active: Array) -> Weights:
    """Where a contest begins: every active policy alike. active [P, K]."""
    return Weights(jnp.log(jax.vmap(simplex.masked_uniform)(active)), jnp.zeros(active.shape), jnp.zeros(active.shape))


def reweighed(weights: Weights, active: Array, earned: Array, faced: Array, step_size: Array | float) -> Weights:
    """One update: episodes in which the learner `earned` [n] from the policies `faced` [n]."""
    met = jax.nn.one_hot(faced, len(active))  # [n, K]
    count = met.sum(axis=0)
    mean = jnp.einsum("n,nk->k", earned, met) / jnp.maximum(count, 1.0)
    cost = jnp.where(count > 0, _MEMORY * weights.cost + (1 - _MEMORY) * mean, weights.cost)
    log_weight = simplex.masked_log_softmax(weights.log_weight - step_size * cost, active)
    return Weights(log_weight, cost, weights.total + jnp.exp(weights.log_weight))


@compiled(static_argnames=("game",))
def contest(
    key: Array,
    game: Game,
    learning: Learning,
    rounds: Array,
    policies: StackedPolicies,
    active: Array,
    student: Student,
    step_size: Array | float,
    floor: Array | float,
    weights: Weights,
) -> tuple[Student, Weights, TrainMetrics]:
    """`rounds` rounds of every population's learner against the others' policies, [P, K] active. key: consumed.

    Every population's mixture against the other's learner goes on from `weights` [P, K]. Returns the learners, the
    weights, and metrics. Two-player games; rounds are of whole episodes.
    """
    width = return_scale(game)[1]
    shared = num_populations(game) == 1

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, Weights, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        learner = plain_learner(networks(game, learning))
        held = rotate(active, p)[-1]  # the opponent's population comes last
        alike = simplex.masked_uniform(held)
        source = source_of(views, learner, learning.replace(segment=0), rotate(policies, p), jnp.log(rotate(active, p)))

        def experience(k: Array, params: PyTree, weights: Weights) -> tuple[list[Experience], Weights]:
            sigma = jnp.log((1 - floor) * jnp.exp(weights.log_weight) + floor * alike)
            mixed = source.log_sigma.at[-1].set(sigma)
            batches, _ = source._replace(log_sigma=mixed).one_round(k, params, NO_CODE, [])
            earned = jnp.concatenate([batch.earned.reshape(-1) for batch in batches]) * width
            faced = jnp.concatenate([batch.faced[..., 1].reshape(-1) for batch in batches])
            return batches, reweighed(weights, held, earned, faced, step_size)

        params, opt_state, metrics = best_response.train(
            own_key,
            own.params,
            own.opt_state,
            experience=experience,
            learner=learner,
            steps=rounds,
            carry=jax.tree.map(lambda leaf: rotate(leaf, p)[-1], weights),
            **train_options(views[0], learning),
        )
        return Student(params, opt_state), metrics.carry, metrics._replace(carry=())

    keys = jax.random.split(stream(key), num_populations(game))
    students, faced, metrics = each_population(game, one, keys)
    return students, faced if shared else jax.tree.map(lambda leaf: leaf[::-1], faced), metrics
