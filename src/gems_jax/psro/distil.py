"""Distillation: one network learns to act as several policies did, from episodes that those play.

A round draws a few of the policies, each plays in its own place against the others' play, and the student lowers
KL(policy || student) at the decisions they took. The divergence is exact over actions: where the student already acts
as a policy does nothing pulls it away, which the sampled actions of a mixed policy would. A plain student becomes their
average, weighed by how often each gets to a state; one that is told a policy's code becomes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.accelerator.prng import fused_key
from gems_jax.host.stages import compile_play
from gems_jax.learning.batches import Batch, Experience, Learner, masked_mean, over_rows
from gems_jax.learning.collection import collect_episodes
from gems_jax.learning.networks import without_sharing
from gems_jax.learning.ppo import Penalty, TrainMetrics, fresh_optimizers
from gems_jax.policies import distributions
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost
from gems_jax.psro.ppo import Student, make_loss, play_settings, train_student, training_cost
from gems_jax.psro.settings import Learning
from gems_jax.rollout.views import View, each_population, rotate
from gems_jax.types import Array, Game, Profile, PyTree, num_populations

_EPOCHS = 4  # passes over a round's decisions: they are labelled, and need no fresh ones as policy gradients do


class Teachers(NamedTuple):
    """Policies of all populations that a student imitates."""

    policies: StackedPolicies  # [P, J, ...]
    weights: Array  # [P, J], how often each is drawn
    codes: Array  # [J, D], how the student is told which one to play; D = 0 for a plain student


def zero_surrogate(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """0: the surrogate of a student that learns from no returns."""
    del behaviour_log_prob, advantage, clip
    return jnp.zeros_like(log_prob)


def imitation_penalty(teacher: Learner, pupil: Learner) -> Penalty:
    """The penalty KL(teacher || pupil) [], the mean over all decisions: exact over actions, and 0 where they agree.

    Both are told the batch's codes; the teacher needs no parameters.
    """

    def distance(params: PyTree, batch: Batch) -> Array:
        assert isinstance(batch, Experience)
        wanted, found = batch.behaviour(teacher, ()), batch.behaviour(pupil, params)
        return masked_mean(over_rows(distributions.action_kl)(wanted, found), batch.acted)

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        del key
        return jnp.mean(jnp.stack([distance(params, batch) for batch in batches]))

    return penalty


def pupil_policy(generator: Hypernetwork | None, params: PyTree, code: Array) -> PyTree:
    """The student's policy: what its generator makes of a code, or its parameters themselves."""
    return params if generator is None else without_sharing(generator(params, code))


def new_pupil(params: PyTree, learning: Learning) -> Student:
    """A student with policy parameters [P, ...] and fresh optimizers."""
    own = {"policy": params}
    return Student(own, jax.vmap(lambda one: fresh_optimizers(one, learning.gradient_clip))(own))


def distil_cost(learning: Learning, metrics: TrainMetrics, rounds: int) -> Cost:
    """Counts the cost of `rounds` rounds of every population's distillation. metrics: [P]."""
    return training_cost(learning.replace(epochs=_EPOCHS), metrics, rounds)


@compile_play(static_argnames=("game", "generator", "groups"))
def distil(
    key: Array,
    game: Game,
    learning: Learning,
    rounds: Array,
    teachers: Teachers,
    opponents: Profile,
    student: Student,
    rate: ArrayLike,
    generator: Hypernetwork | None = None,
    groups: int = 4,
) -> tuple[Student, TrainMetrics]:
    """Trains every population's student to act as its teachers do.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      learning: settings without `auto`; `opponents` are shared out between the teachers of a round.
      rounds: [] int32, rounds of episodes.
      teachers: who is imitated.
      opponents: what the others play, sigma [P, K], or sigma [K] of joint profiles.
      student: networks and optimizers [P, ...].
      rate: step size of Adam.
      generator: makes the student's policy of a code; None for a plain student.
      groups: teachers of one round, no more than `learning.opponents`.

    Returns:
      The student, and metrics [P].
    """
    sigma, groups = opponents.sigma, min(groups, learning.opponents)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        mine: StackedPolicies = jax.tree.map(lambda leaf: leaf[p], teachers.policies)
        met, log_sigma = rotate(opponents.population, p), jnp.log(sigma if sigma.ndim == 1 else rotate(sigma, p))
        # codes hold a slot for the teacher, and behind it a code for the student; nobody needs a critic
        teacher, pupil = (
            Learner(policy, lambda params, code, seen: jnp.float32(0), mine.apply)
            for policy in (
                lambda params, code: mine.select(code[0].astype(jnp.int32)),
                lambda params, code: pupil_policy(generator, params["policy"], code[1:]),
            )
        )

        def experience(k: Array, params: PyTree, carry: PyTree) -> tuple[list[Experience], PyTree]:
            key_slots, *keys = jax.random.split(k, 1 + len(views))
            slots = jax.random.categorical(key_slots, jnp.log(teachers.weights[p]), shape=(groups,))
            told = teachers.codes[slots]
            codes = jnp.concatenate([slots[:, None].astype(told.dtype), told], axis=1)
            each = play_settings(learning, stratified=False)._replace(num_opponents=learning.opponents // groups)
            batches = [
                collect_episodes(view_key, place, teacher, params, codes, met, log_sigma, each)
                for view_key, place in zip(keys, views, strict=True)
            ]
            return batches, carry

        unpaid = learning.replace(value_weight=0.0, entropy_weight=0.0)
        loss = make_loss(pupil, unpaid, imitation_penalty(teacher, pupil), zero_surrogate)
        return train_student(
            own_key, views[0], learning, own, pupil, experience, rounds, (), loss, epochs=_EPOCHS, normalize=False,
            learning_rate={"policy": rate}, summarize=False,
        )  # fmt: skip

    return each_population(game, one, jax.random.split(fused_key(key), num_populations(game)))
