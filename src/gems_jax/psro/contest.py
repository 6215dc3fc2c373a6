"""Learning of games restricted for one side: a network against a mixture that adapts, by episodes.

The restricted side mixes its policies by multiplicative weights on the learner's returns against each of them. The
learner is an unrestricted network. The solution of the restricted side is its averaged mixture.

Both sides approach the equilibrium by no-regret learning, so the averaged mixture is exploitable by at most the sum of
their average regrets. A hundred rounds are too few for that sum to be small if every iteration starts from scratch.
The constants of the inner loop, which are this project's, address this:

    weights     continue from iteration to iteration: the last average with probability `warm_start`, uniform else
    average     linear in the round, and retains a fraction `retained` of its age in the last iteration
    step sizes  of both sides fall with the iteration t as t ** -anneal, since the games differ by one policy only
    entropy     of the learner, so that an inherited learner does not saturate

The cost of a policy is a ratio of discounted sums (returns over episodes), so that a rarely met policy is not judged by
a single episode. A fraction `floor` of all opponents is drawn uniformly, so that every policy is met.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import fused_key
from gems_jax.config import ABOVE_ZERO, FRACTION, NON_NEGATIVE, choice, real
from gems_jax.host.stages import compile_play
from gems_jax.learning.batches import Experience
from gems_jax.learning.ppo import TrainMetrics
from gems_jax.meta import simplex
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import pad_slots
from gems_jax.psro.ppo import NO_CODE, Student, mixture_source, plain_learner, student_networks, train_student
from gems_jax.psro.settings import ExplicitSettings, Learning, learning_of
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import View, map_populations, rotate
from gems_jax.types import Array, Game, PyTree, num_populations

_MEMORY = 0.7  # discount per round of returns and episodes


class ContestSettings(ExplicitSettings):
    """Settings of a mixture that adapts to its opponent."""

    inherit: bool = choice(False)
    """Continue learners from iteration to iteration instead of starting from scratch."""
    weight_step: float = real(4.0, ABOVE_ZERO)
    """Step size of multiplicative weights in the first iteration, for returns scaled to [0, 1] (learned form)."""
    anneal: float = real(0.5, NON_NEGATIVE)
    """Exponent of the decay of both step sizes with the iteration (learned form)."""
    warm_start: float = real(0.9, FRACTION)
    """Weight of the last average in the first mixture of an iteration; the rest is uniform (learned form)."""
    retained: float = real(0.9, FRACTION)
    """Fraction of its age that the averaged mixture retains between iterations (learned form)."""
    floor: float = real(0.1, FRACTION)
    """Fraction of a learner's opponents drawn uniformly from all policies."""


class Weights(NamedTuple):
    """State of the restricted side: [K] each and age [], or [P, K] and [P] for all populations."""

    log_weight: Array  # log of the current mixture
    earned: Array  # discounted sum of the learner's returns against each policy, scaled to [0, 1]
    met: Array  # discounted number of episodes against each policy
    average: Array  # average of the mixtures so far, with weights linear in the round
    age: Array  # effective number of averaged rounds

    @property
    def cost(self) -> Array:
        """Mean return [K] of the learner against each policy; for policies not met, that against all."""
        overall = self.earned.sum() / jnp.maximum(self.met.sum(), 1.0)
        return jnp.where(self.met > 0, self.earned / jnp.where(self.met > 0, self.met, 1.0), overall)


def initial_weights(active: Array) -> Weights:
    """Makes uniform weights of all populations over their active policies [P, K], with an average of age 0."""
    uniform, zero = jax.vmap(simplex.masked_uniform)(active), jnp.zeros(active.shape)
    return Weights(jnp.log(uniform), zero, zero, uniform, jnp.zeros(len(active)))


def carry_weights(
    weights: Weights, active: Array, warm_start: Array | float = 0.9, retained: Array | float = 0.9
) -> Weights:
    """Initializes the weights of an iteration from those of the last one.

    Args:
      weights: weights of the last iteration, [P, J] with J <= K.
      active: mask of the current policies, [P, K].
      warm_start: weight of the last average in the first mixture; the rest is uniform over `active`.
      retained: fraction of the average's age to retain.

    Returns:
      Weights [P, K] with empty sums of returns, because the learner may be another.
    """
    fresh = initial_weights(active)
    average = pad_slots(weights.average, active.shape[1], (1,))
    first = warm_start * average + (1 - warm_start) * fresh.average
    return fresh._replace(log_weight=jnp.log(first), average=average, age=weights.age * retained)


def update_weights(weights: Weights, active: Array, earned: Array, faced: Array, step_size: Array | float) -> Weights:
    """Runs one round of multiplicative weights, log w -= step_size * cost, against the learner.

    Args:
      weights: weights of one population, [K].
      active: mask of the policies, [K].
      earned: the learner's return in every episode, scaled to [0, 1], [n].
      faced: slot of the opponent in every episode, [n] int.
      step_size: step size of the update.

    Returns:
      The next weights. The average includes the mixture before the update, which these episodes were drawn from;
      round t has a weight proportional to t.
    """
    met = jax.nn.one_hot(faced, len(active))  # [n, K]
    age = weights.age + 1.0
    mixture = jnp.exp(weights.log_weight)
    seen = weights._replace(
        earned=_MEMORY * weights.earned + jnp.einsum("n,nk->k", earned, met),
        met=_MEMORY * weights.met + met.sum(axis=0),
        average=weights.average + (mixture - weights.average) * 2.0 / (age + 1.0),
        age=age,
    )
    return seen._replace(log_weight=simplex.masked_log_softmax(weights.log_weight - step_size * seen.cost, active))


def annealing_factor(config: ContestSettings, iteration: int) -> float:
    """Computes the factor (1 + iteration) ** -anneal of step sizes; iterations count from 0."""
    return float((1.0 + iteration) ** -float(config.anneal))


def anneal_learning(learning: Learning, factor: float) -> Learning:
    """Multiplies the learning rate of the policy by `factor`."""
    return learning.replace(learning_rate=learning.learning_rate * factor)


def continue_contest(
    game: Game, config: ContestSettings, weights: Weights | tuple[()], active: Array, iteration: int
) -> tuple[Learning, float, Weights]:
    """Prepares the contests of an iteration.

    Args:
      game: the game.
      config: settings.
      weights: weights of the last iteration.
      active: mask of the current policies, [P, K].
      iteration: number of the iteration, from 0.

    Returns:
      Annealed settings of the learners, annealed step size of the weights, and initial weights [P, K].
    """
    assert isinstance(weights, Weights)
    factor = annealing_factor(config, iteration)
    return (
        anneal_learning(learning_of(config, game), factor),
        config.weight_step * factor,
        carry_weights(weights, active, config.warm_start, config.retained),
    )


@compile_play(static_argnames=("game",))
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
    """Trains every population's learner against the other's mixture, which adapts by multiplicative weights.

    Args:
      key: typed PRNG key; consumed.
      game: a two-player game.
      learning: settings without `auto`; complete episodes are played whatever its `segment`.
      rounds: rounds of learning, [] int32.
      policies: policies [P, K, ...].
      active: mask of the policies, [P, K].
      student: learners [P, ...] to continue from.
      step_size: step size of the weights.
      floor: fraction of uniformly drawn opponents.
      weights: weights [P, K] to continue from.

    Returns:
      The learners, the weights, and metrics [P].
    """
    shared = num_populations(game) == 1

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, Weights, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        learner = plain_learner(student_networks(game, learning))
        held = rotate(active, p)[-1]  # the opponent's population comes last
        uniform = simplex.masked_uniform(held)
        log_active = jnp.log(rotate(active, p))
        source = mixture_source(views, learner, learning.replace(segment=0), rotate(policies, p), log_active)

        def experience(k: Array, params: PyTree, weights: Weights) -> tuple[list[Experience], Weights]:
            sigma = jnp.log((1 - floor) * jnp.exp(weights.log_weight) + floor * uniform)
            mixed = source.log_sigma.at[-1].set(sigma)
            batches, _ = source._replace(log_sigma=mixed).play_round(k, params, NO_CODE, [])
            earned = jnp.concatenate([batch.earned.reshape(-1) for batch in batches])
            faced = jnp.concatenate([batch.faced[..., 1].reshape(-1) for batch in batches])
            return batches, update_weights(weights, held, earned, faced, step_size)

        faced = jax.tree.map(lambda leaf: rotate(leaf, p)[-1], weights)
        trained, metrics = train_student(own_key, views[0], learning, own, learner, experience, rounds, faced)
        return trained, metrics.carry, metrics._replace(carry=())

    keys = jax.random.split(fused_key(key), num_populations(game))
    students, faced, metrics = map_populations(add_openings(game, learning), one, keys)
    return students, faced if shared else jax.tree.map(lambda leaf: leaf[::-1], faced), metrics
