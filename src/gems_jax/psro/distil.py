"""Distillation: one network learns to act as several policies did, from episodes that those play.

A round draws a few of the policies, each plays in its own place against the others' play, and the student lowers
KL(policy || student) at the decisions they took. The divergence is exact over actions: where the student already acts
as a policy does nothing pulls it away, which the sampled actions of a mixed policy would. A plain student becomes their
average, weighed by how often each gets to a state; one that is told a policy's code becomes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.accelerator.prng import stream
from gems_jax.host.stages import compiled
from gems_jax.learning import ppo as best_response
from gems_jax.learning.batches import Experience, Learner, collect
from gems_jax.learning.networks import without_sharing
from gems_jax.learning.ppo import Batch, Penalty, TrainMetrics, masked_mean, outputs_on, over_rows
from gems_jax.policies import distributions
from gems_jax.policies.networks import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.cost import Cost
from gems_jax.psro.ppo import Student, train_options, training_cost
from gems_jax.psro.settings import Learning
from gems_jax.rollout.views import View, each_population, rotate
from gems_jax.types import Array, Game, PyTree, num_populations

_EPOCHS = 4  # passes over a round's decisions: they are labelled, and need no fresh ones as policy gradients do


def nothing_earned(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """0: the surrogate of a student that is not paid."""
    del behaviour_log_prob, advantage, clip
    return jnp.zeros_like(log_prob)


def divergence(teacher: Learner, pupil: Learner) -> Penalty:
    """The penalty KL(teacher || pupil) [], the mean over all decisions: exact over actions, and 0 where they agree.

    Both are told the batch's codes; the teacher needs no parameters.
    """

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        del key
        rows = []
        for batch in batches:
            assert isinstance(batch, Experience)
            wanted, found = outputs_on(teacher, (), batch), outputs_on(pupil, params, batch)
            rows.append(masked_mean(over_rows(distributions.kl)(wanted, found), batch.acted))
        return jnp.mean(jnp.stack(rows))

    return penalty


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

    teachers [P, J, ...] are drawn with weights [P, J], no more at a time than the opponents that they share; codes
    [J, D], D = 0 for a plain student; the others play sigma [P, K] over opponents [P, K, ...], or joint sigma [K] of
    profiles.
    """
    joint, groups = sigma.ndim == 1, min(groups, learning.opponents)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        mine: StackedPolicies = jax.tree.map(lambda leaf: leaf[p], teachers)
        met, log_sigma = rotate(opponents, p), jnp.log(sigma if joint else rotate(sigma, p))
        teacher = Learner(
            lambda params, told: mine.select(told[0].astype(jnp.int32)),
            lambda params, told, seen: jnp.float32(0),
            mine.apply,
        )
        pupil = Learner(
            lambda params, told: policy_of(generator, params["policy"], told[1:]),
            lambda params, told, seen: jnp.float32(0),
            mine.apply,
        )

        def experience(k: Array, params: PyTree, carry: PyTree) -> tuple[list[Experience], PyTree]:
            key_slots, *keys = jax.random.split(k, 1 + len(views))
            slots = jax.random.categorical(key_slots, jnp.log(weights[p]), shape=(groups,))
            # a slot for the teacher, a code for the student
            told = jnp.concatenate([slots[:, None].astype(codes.dtype), codes[slots]], axis=1)
            batches = [
                collect(
                    view_key, place, teacher, params, told, met, log_sigma,
                    num_opponents=learning.opponents // groups, episodes=learning.episodes,
                    discount=learning.discount, decay=learning.gae_lambda,
                )
                for view_key, place in zip(keys, views, strict=True)
            ]  # fmt: skip
            return batches, carry

        options = train_options(views[0], learning) | {
            "surrogate": nothing_earned, "penalty": divergence(teacher, pupil), "epochs": _EPOCHS, "value_weight": 0.0,
            "entropy_weight": 0.0, "normalise": False, "learning_rate": {"policy": rate}, "tallied": False,
        }  # fmt: skip
        params, opt_state, metrics = best_response.train(
            own_key, own.params, own.opt_state, experience=experience, learner=pupil, steps=rounds, **options
        )
        return Student(params, opt_state), metrics._replace(carry=())

    return each_population(game, one, jax.random.split(stream(key), num_populations(game)))
