"""Learned responses: one network per population, trained by `best_response.train` against a fixed mixture.

Networks are those of GEMS with parameters of their own, one set per policy, instead of generated ones. A `Student` is
what a learner goes on from: networks and optimizers of every population. Programs are compiled once per game, network
and capacity, whatever the method and the number of rounds.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.prng import stream
from gems_jax.estimation.monte_carlo import return_scale
from gems_jax.host.stages import compiled
from gems_jax.learning import ppo as best_response
from gems_jax.learning.batches import Learner, Source, decision_share
from gems_jax.learning.networks import critic_network, policy_network, unshared
from gems_jax.learning.ppo import SURROGATES, TrainMetrics, fresh_optimizers, no_penalty
from gems_jax.policies.networks import Critic, PolicyNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.cost import Cost
from gems_jax.psro.diversity import sameness
from gems_jax.psro.responses import Mixture, Oracle, Response
from gems_jax.psro.settings import Learning
from gems_jax.rollout.views import View, each_population, rotate
from gems_jax.types import Array, Game, PyTree, Struct, num_populations

NO_CODE = jnp.zeros((1, 0))  # a plain network has no code


class Student(Struct):
    """A learner of every population."""

    params: dict[str, PyTree]  # [P, ...] of "policy" and "critic"
    opt_state: dict[str, PyTree]


class Nets(NamedTuple):
    policy: PolicyNetwork
    critic: Critic


def networks(game: Game, learning: Learning, code_size: int = 0) -> Nets:
    """Policy and critic: static, equal for equal arguments. `learning` without `auto`."""
    return Nets(unshared(policy_network(game, learning)), critic_network(game, learning, code_size))


def plain_learner(nets: Nets) -> Learner:
    """The networks as the trainer sees them."""
    return Learner(
        policy=lambda params, code: params["policy"],
        value=lambda params, code, observation: nets.critic(params["critic"], observation, code),
        apply=nets.policy,
    )


@partial(jax.jit, static_argnames="game")
def new_student(key: Array, game: Game, learning: Learning) -> Student:
    """Fresh networks, near-uniform play. key: consumed."""
    nets = networks(game, learning)
    key_policy, key_critic = jax.random.split(key)
    params = {
        "policy": jax.vmap(nets.policy.init)(jax.random.split(key_policy, num_populations(game))),
        "critic": jax.vmap(nets.critic.init)(jax.random.split(key_critic, num_populations(game))),
    }
    return Student(params, jax.vmap(lambda own: fresh_optimizers(own, learning.gradient_clip))(params))


def train_options(game: Game, learning: Learning) -> dict[str, Any]:
    """What `best_response.train` takes from the settings."""
    return {
        "surrogate": SURROGATES[learning.surrogate],
        "epochs": learning.epochs,
        "learning_rate": {"policy": learning.learning_rate, "critic": learning.critic_learning_rate},
        "gradient_clip": learning.gradient_clip,
        "clip": learning.ppo_clip,
        "value_weight": learning.value_weight,
        "entropy_weight": learning.entropy_weight,
        "normalise": learning.normalise_advantages,
        "minibatches": learning.minibatches,
        "kept": decision_share(game),
    }


def source_of(
    views: tuple[View, ...], learner: Learner, learning: Learning, opponents: StackedPolicies, log_sigma: Array
) -> Source:
    """Experience against the others' mixture, whose draws are systematic."""
    return Source(
        views, learner, opponents, log_sigma, learning.opponents, learning.episodes, learning.segment,
        learning.discount, learning.gae_lambda, stratified=True,
    )  # fmt: skip


@compiled(static_argnames=("game",))
def study(
    key: Array, game: Game, learning: Learning, rounds: Array, mixture: StackedPolicies, sigma: Array, student: Student
) -> tuple[Student, TrainMetrics]:
    """Every population's learner `rounds` rounds further against the others' sigma [P, K], or joint sigma [K] of
    profiles. key: consumed."""
    joint = sigma.ndim == 1

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        learner = plain_learner(networks(game, learning))
        met = sigma if joint else rotate(sigma, p)
        source = source_of(views, learner, learning, rotate(mixture, p), jnp.log(met))
        key_train, key_lanes = jax.random.split(own_key)
        held = jax.tree.map(lambda leaf: leaf[p], mixture)
        own_sigma = sigma if joint else sigma[p]
        unlike = sameness(learner, held, own_sigma, learning.diversity_weight) if learning.diversity else no_penalty
        params, opt_state, metrics = best_response.train(
            key_train,
            own.params,
            own.opt_state,
            experience=lambda k, current, lanes: source.one_round(k, current, NO_CODE, lanes),
            learner=learner,
            steps=rounds,
            carry=source.lanes(key_lanes, 1),
            **train_options(views[0], learning),
            penalty=unlike,
            tallied=not learning.diversity,
        )
        return Student(params, opt_state), metrics._replace(carry=())

    return each_population(game, one, jax.random.split(stream(key), num_populations(game)))


def training_cost(learning: Learning, metrics: TrainMetrics, rounds: int) -> Cost:
    """Of `rounds` rounds of every population. metrics: [P]."""
    steps = int(np.sum(metrics.env_steps))
    updates = rounds * learning.epochs * learning.minibatches * np.size(metrics.env_steps)
    return Cost(int(np.sum(metrics.episodes)), steps, updates, training_steps=steps)


def ppo_oracle(game: Game, learning: Learning) -> Oracle:
    """Responses that are learned, from `start` or from scratch. `gain` is how much a round earned more at the end."""
    width = return_scale(game)[1]

    def first(key: Array) -> Student:
        return new_student(key, game, learning)

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_start, key_train = jax.random.split(key)
        student = first(key_start) if start is None else start
        student, metrics = study(key_train, game, learning, jnp.int32(rounds), mixture.policies, mixture.sigma, student)
        return Response(
            params=student.params["policy"],
            gain=np.asarray(metrics.improvement) * width,
            cost=training_cost(learning, metrics, rounds),
            learner=student,
        )

    return Oracle(networks(game, learning).policy, first, lambda student: student.params["policy"], respond)
