"""Distillation: one network learns to act as several policies did, from episodes that those play.

A round draws a few of the policies, each plays in its own place against the others' play, and the student raises the
log-likelihood of what they did: the cross-entropy, which is KL(policy || student) but for a constant. A plain student
becomes their average, weighed by how often each gets to a state; one that is told a policy's code becomes all of them.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax import best_response
from gems_jax.best_response import TrainMetrics
from gems_jax.experience import Experience, Learner, collect
from gems_jax.explicit.cost import Cost
from gems_jax.explicit.ppo import Student, train_options, training_cost
from gems_jax.explicit.settings import Learning
from gems_jax.nets import Hypernetwork
from gems_jax.policies import without_sharing
from gems_jax.population import StackedPolicies
from gems_jax.roles import View, each_population, rotate
from gems_jax.stages import compiled
from gems_jax.streams import stream
from gems_jax.types import Array, Game, PyTree, num_populations

_EPOCHS = 4  # passes over a round's decisions: they are labelled, and need no fresh ones as policy gradients do


def likelihood(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """log pi(a): a surrogate that clones whoever acted."""
    del behaviour_log_prob, advantage, clip
    return log_prob


def policy_of(generator: Hypernetwork | None, params: PyTree, code: Array) -> PyTree:
    """The student's policy: what its generator makes of a code, or its parameters themselves."""
    return params if generator is None else without_sharing(generator(params, code))


def new_pupil(params: PyTree, learning: Learning) -> Student:
    """A student with policy parameters [P, ...] and fresh optimizers."""
    own = {"policy": params}
    return Student(own, jax.vmap(lambda one: best_response.fresh_optimizers(one, learning.gradient_clip))(own))


def distil_cost(learning: Learning, metrics: TrainMetrics, rounds: int) -> Cost:
    """Of `rounds` rounds of every population's distillation. metrics: [P]."""
    return training_cost(learning.replace(epochs=_EPOCHS), metrics, rounds)


@compiled(static_argnames=("game", "generator", "groups"))
def distil(
    key: Array,
    game: Game,
    learning: Learning,
    rounds: Array,
    teachers: StackedPolicies,
    weights: Array,
    codes: Array,
    opponents: StackedPolicies,
    sigma: Array,
    student: Student,
    rate: ArrayLike,
    generator: Hypernetwork | None = None,
    groups: int = 4,
) -> tuple[Student, TrainMetrics]:
    """`rounds` rounds of every population's student, `groups` policies at a time. key: consumed.

    teachers [P, J, ...] are drawn with weights [P, J]; codes [J, D], D = 0 for a plain student; the others play sigma
    [P, K] over opponents [P, K, ...], or joint sigma [K] of profiles.
    """
    joint = sigma.ndim == 1

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        mine: StackedPolicies = jax.tree.map(lambda leaf: leaf[p], teachers)
        met, log_sigma = rotate(opponents, p), jnp.log(sigma if joint else rotate(sigma, p))
        teacher = Learner(
            lambda params, slot: mine.select(slot[0]), lambda params, slot, seen: jnp.float32(0), mine.apply
        )
        pupil = Learner(
            lambda params, code: policy_of(generator, params["policy"], code),
            lambda params, code, seen: jnp.float32(0),
            mine.apply,
        )

        def experience(k: Array, params: PyTree, carry: PyTree) -> tuple[list[Experience], PyTree]:
            key_slots, *keys = jax.random.split(k, 1 + len(views))
            slots = jax.random.categorical(key_slots, jnp.log(weights[p]), shape=(groups,))
            batches = [
                collect(
                    view_key, place, teacher, params, slots[:, None], met, log_sigma,
                    num_opponents=max(learning.opponents // groups, 1), episodes=learning.episodes,
                    discount=learning.discount, decay=learning.gae_lambda,
                )
                for view_key, place in zip(keys, views, strict=True)
            ]  # fmt: skip
            return [dataclasses.replace(batch, code=codes[slots]) for batch in batches], carry

        options = train_options(views[0], learning) | {
            "surrogate": likelihood, "epochs": _EPOCHS, "value_weight": 0.0, "entropy_weight": 0.0, "normalise": False,
            "learning_rate": {"policy": rate}, "tallied": False,
        }  # fmt: skip
        params, opt_state, metrics = best_response.train(
            own_key, own.params, own.opt_state, experience=experience, learner=pupil, steps=rounds, **options
        )
        return Student(params, opt_state), metrics._replace(carry=())

    return each_population(game, one, jax.random.split(stream(key), num_populations(game)))
