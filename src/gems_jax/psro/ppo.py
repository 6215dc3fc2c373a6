"""Learned responses: one network per population, trained by `train_learner` against a fixed mixture.

Networks are those of GEMS with one set of parameters per policy instead of generated ones. A `Student` is the state of
a learner: networks and optimizers of every population. Programs are compiled once per game, network and capacity,
whatever the method and the number of rounds.

Diversity (the setting of that name): a response gets a bonus for differing from its population's policies,

    bonus = E over states of play, j ~ sigma [1 - exp(-KL(pi || pi_j))],   in [0, 1)

where sigma is the population's own mixture. Policies are compared as in the policy-space diversity of Yao et al. 2023,
which takes the minimum distance to the mixtures of the population. The mean over a few draws, bounded because the KL of
deterministic policies is infinite, is this project's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gems_jax.accelerator.prng import fused_key
from gems_jax.estimation.monte_carlo import return_scale
from gems_jax.host.stages import compile_play
from gems_jax.learning.batches import Batch, Experience, Learner, Surrogate, map_rows, masked_mean
from gems_jax.learning.collection import PlaySettings, Source, decision_fraction
from gems_jax.learning.networks import critic_network, policy_network, unshare_network
from gems_jax.learning.ppo import (
    SURROGATES,
    Loss,
    LossSettings,
    Penalty,
    TrainMetrics,
    TrainSettings,
    init_optimizers,
    policy_gradient_loss,
    train_learner,
    zero_penalty,
)
from gems_jax.policies import distributions
from gems_jax.policies.critic import Critic
from gems_jax.policies.networks import PolicyNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost
from gems_jax.psro.responses import Mixture, Oracle, Respond, Response, exact_oracle, tabular_oracle
from gems_jax.psro.settings import ExplicitSettings, Learning, learning_of
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import View, map_populations, rotate
from gems_jax.types import Array, Game, Profile, PyTree, Struct, num_populations

NO_CODE = jnp.zeros((1, 0))  # a plain network has no code
_DRAWS = 4  # policies of the population to compare with per gradient step


class Student(Struct):
    """Parameters and optimizer states of every population's learner."""

    params: dict[str, PyTree]  # [P, ...] of "policy" and "critic"
    opt_state: dict[str, PyTree]


class Nets(NamedTuple):
    """Policy and critic of a learner. Static."""

    policy: PolicyNetwork
    critic: Critic


def student_networks(game: Game, learning: Learning) -> Nets:
    """Makes the policy and the critic; equal arguments give equal networks. learning: settings without `auto`."""
    return Nets(unshare_network(policy_network(game, learning)), critic_network(game, learning, 0))


def plain_learner(nets: Nets) -> Learner:
    """Wraps networks without code as a `Learner`."""
    return Learner(
        policy=lambda params, code: params["policy"],
        value=lambda params, code, observation: nets.critic(params["critic"], observation, code),
        apply=nets.policy,
    )


@partial(jax.jit, static_argnames="game")
def new_student(key: Array, game: Game, learning: Learning) -> Student:
    """Initializes networks with near-uniform play, and their optimizers. key: consumed."""
    nets = student_networks(game, learning)
    key_policy, key_critic = jax.random.split(key)
    params = {
        "policy": jax.vmap(nets.policy.init)(jax.random.split(key_policy, num_populations(game))),
        "critic": jax.vmap(nets.critic.init)(jax.random.split(key_critic, num_populations(game))),
    }
    return Student(params, jax.vmap(lambda own: init_optimizers(own, learning.gradient_clip))(params))


def train_student(
    key: Array,
    game: Game,
    learning: Learning,
    student: Student,
    learner: Learner,
    experience: Callable[[Array, PyTree, PyTree], tuple[list[Experience], PyTree]],
    rounds: Array | int,
    carry: PyTree = (),
    loss: Loss | None = None,
    **changes: Any,
) -> tuple[Student, TrainMetrics]:
    """Trains one learner by `learning.ppo.train_learner`.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      learning: settings without `auto`.
      student: parameters and optimizers to continue from.
      learner: how the parameters act.
      experience: (key, params, carry) -> (batches, carry), plays one round.
      rounds: rounds of learning.
      carry: carry of the first round.
      loss: loss that replaces that of `learning`.
      **changes: fields of `TrainSettings` that replace those of `learning`.

    Returns:
      The student, and metrics, whose `carry` is that of the next round.
    """
    settings = TrainSettings(
        epochs=learning.epochs,
        learning_rate={"policy": learning.learning_rate, "critic": learning.critic_learning_rate},
        gradient_clip=learning.gradient_clip,
        normalize=learning.normalise_advantages,
        minibatches=learning.minibatches,
        decision_fraction=decision_fraction(game),
    )
    params, opt_state, metrics = train_learner(
        key, student.params, student.opt_state, learner=learner, experience=experience, steps=rounds, carry=carry,
        loss=loss or make_loss(learner, learning), settings=settings._replace(**changes),
    )  # fmt: skip
    return Student(params, opt_state), metrics


def make_loss(
    learner: Learner, learning: Learning, penalty: Penalty = zero_penalty, surrogate: Surrogate | None = None
) -> Loss:
    """Builds the loss of an actor and a critic from the settings."""
    surrogate = surrogate or SURROGATES[learning.surrogate]
    settings = LossSettings(surrogate, learning.ppo_clip, learning.value_weight, learning.entropy_weight)
    return partial(policy_gradient_loss, learner=learner, settings=settings, penalty=penalty)


def play_settings(learning: Learning, stratified: bool = True) -> PlaySettings:
    """Converts settings to those of `learning.collection`."""
    return PlaySettings(
        learning.opponents, learning.episodes, learning.discount, learning.gae_lambda, stratified, learning.segment,
        learning.advantage == "doubly_robust",
    )  # fmt: skip


def mixture_source(
    views: tuple[View, ...], learner: Learner, learning: Learning, opponents: StackedPolicies, log_sigma: Array
) -> Source:
    """Makes a source of experience against the others' mixture, with systematic draws."""
    return Source(views, learner, opponents, log_sigma, play_settings(learning))


def bounded_divergence(left: distributions.PolicyOutput, right: distributions.PolicyOutput) -> Array:
    """Computes 1 - exp(-KL(left || right)), [], of two action distributions."""
    return 1.0 - jnp.exp(-distributions.action_kl(left, right))


def diversity_penalty(learner: Learner, held: StackedPolicies, sigma: Array, weight: ArrayLike) -> Penalty:
    """Makes the penalty -weight * bonus, bonus = E[1 - exp(-KL(pi || pi_j))] over decisions and j ~ sigma.

    Args:
      learner: how the learner acts.
      held: policies [K, ...] of its population.
      sigma: mixture [K] of its population.
      weight: weight of the bonus.
    """

    def batch_bonus(params: PyTree, batch: Batch, slots: Array) -> Array:
        assert isinstance(batch, Experience)  # statistics do not contain the observations
        mine = batch.behavior(learner, params)

        def divergence(slot: Array) -> Array:
            other = held.select(slot)
            theirs = map_rows(lambda seen, may: held.apply(other, seen, may))(batch.observation, batch.legal)
            return masked_mean(map_rows(bounded_divergence)(mine, theirs), batch.acted)

        return jax.vmap(divergence)(slots).mean()

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        slots = jax.random.categorical(key, jnp.log(sigma), shape=(_DRAWS,))
        return -jnp.asarray(weight) * jnp.mean(jnp.stack([batch_bonus(params, batch, slots) for batch in batches]))

    return penalty


@compile_play(static_argnames=("game",))
def train_students(
    key: Array, game: Game, learning: Learning, rounds: Array, opponents: Profile, student: Student
) -> tuple[Student, TrainMetrics]:
    """Trains every population's learner against the others' mixture.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      learning: settings without `auto`.
      rounds: rounds of learning, [] int32.
      opponents: policies [P, K, ...] with sigma [P, K], or with sigma [K] of joint profiles.
      student: learners [P, ...] to continue from.

    Returns:
      The learners, and metrics [P].
    """
    policies, sigma = opponents.population, opponents.sigma
    joint, learner = sigma.ndim == 1, plain_learner(student_networks(game, learning))

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        key_train, key_games = jax.random.split(own_key)
        own, held = (jax.tree.map(lambda leaf: leaf[p], tree) for tree in (student, policies))
        met, mine = (sigma, sigma) if joint else (rotate(sigma, p), sigma[p])
        source = mixture_source(views, learner, learning, rotate(policies, p), jnp.log(met))
        bonus = (
            diversity_penalty(learner, held, mine, learning.diversity_weight) if learning.diversity else zero_penalty
        )
        trained, metrics = train_student(
            key_train, views[0], learning, own, learner,
            lambda k, params, games: source.play_round(k, params, NO_CODE, games), rounds,
            source.start_games(key_games, 1), make_loss(learner, learning, bonus), summarize=not learning.diversity,
        )  # fmt: skip
        return trained, metrics._replace(carry=())

    keys = jax.random.split(fused_key(key), num_populations(game))
    return map_populations(add_openings(game, learning), one, keys)


def training_cost(learning: Learning, metrics: TrainMetrics, rounds: int) -> Cost:
    """Counts the cost of `rounds` rounds of every population. metrics: [P]."""
    steps = int(np.sum(metrics.env_steps))
    updates = rounds * learning.epochs * learning.minibatches * np.size(metrics.env_steps)
    return Cost(int(np.sum(metrics.episodes)), steps, updates, training_steps=steps)


def ppo_oracle(game: Game, learning: Learning) -> Oracle:
    """Makes an oracle of learned responses. `gain` is the improvement of a round's return during training."""
    width = return_scale(game)[1]

    def first(key: Array) -> Student:
        return new_student(key, game, learning)

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_start, key_train = jax.random.split(key)
        student = first(key_start) if start is None else start
        opponents = Profile(mixture.policies, mixture.sigma)
        student, metrics = train_students(key_train, game, learning, jnp.int32(rounds), opponents, student)
        return Response(
            params=student.params["policy"],
            gain=np.asarray(metrics.improvement) * width,
            cost=training_cost(learning, metrics, rounds),
            learner=student,
        )

    return Oracle(student_networks(game, learning).policy, first, lambda student: student.params["policy"], respond)


def make_oracle(game: Game, config: ExplicitSettings, respond: Respond | None = None, ties: str = "robust") -> Oracle:
    """Makes the oracle of the settings: learned or exact.

    Args:
      game: the game.
      config: settings without `auto`.
      respond: replaces the exact best responses.
      ties: tie-breaking rule of exact best responses (`psro/responses.py`).
    """
    if respond is None and config.oracle == "ppo":
        return ppo_oracle(game, learning_of(config, game))
    return tabular_oracle(game, respond or exact_oracle(game, ties))
