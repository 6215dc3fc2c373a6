"""Distillation: one network learns to imitate several policies, from episodes that they play.

A round draws a few of the policies, each plays in its own player position against the others' play, and the student
minimizes KL(policy || student) at their decisions. The divergence is exact over actions, so it has no gradient where
the student already agrees with a policy; sampled actions of a mixed policy would. A plain student becomes the average
of the policies, weighted by how often each reaches a state. A student whose input is a policy's code becomes all of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.accelerator.prng import fused_key
from gems_jax.host.stages import compile_play
from gems_jax.learning.batches import Batch, Experience, Learner, map_rows, masked_mean
from gems_jax.learning.collection import collect_episodes
from gems_jax.learning.networks import unshare_params
from gems_jax.learning.ppo import Penalty, TrainMetrics, init_optimizers
from gems_jax.policies import distributions
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost
from gems_jax.psro.ppo import Student, make_loss, play_settings, train_student, training_cost
from gems_jax.psro.settings import Learning
from gems_jax.rollout.views import View, map_populations, rotate
from gems_jax.types import Array, Game, Profile, PyTree, num_populations

_EPOCHS = 4  # passes over a round's decisions: unlike policy gradients, supervised learning can reuse them


class Teachers(NamedTuple):
    """Policies of all populations to imitate."""

    policies: StackedPolicies  # [P, J, ...]
    weights: Array  # [P, J], unnormalized probability of each
    codes: Array  # [J, D], input that selects the policy; D = 0 for a plain student


def zero_surrogate(log_prob: Array, behavior_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """Returns 0, the surrogate of a student that does not learn from returns."""
    del behavior_log_prob, advantage, clip
    return jnp.zeros_like(log_prob)


def imitation_penalty(teacher: Learner, pupil: Learner) -> Penalty:
    """Makes the penalty KL(teacher || pupil) [], exact over actions and averaged over all decisions.

    Both receive the batch's codes; the teacher needs no parameters.
    """

    def distance(params: PyTree, batch: Batch) -> Array:
        assert isinstance(batch, Experience)
        wanted, found = batch.behavior(teacher, ()), batch.behavior(pupil, params)
        return masked_mean(map_rows(distributions.action_kl)(wanted, found), batch.acted)

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        del key
        return jnp.mean(jnp.stack([distance(params, batch) for batch in batches]))

    return penalty


def pupil_policy(generator: Hypernetwork | None, params: PyTree, code: Array) -> PyTree:
    """Returns the student's policy: generated from a code, or without a generator its parameters."""
    return params if generator is None else unshare_params(generator(params, code))


def new_pupil(params: PyTree, learning: Learning) -> Student:
    """Makes a student with policy parameters [P, ...] and fresh optimizers."""
    own = {"policy": params}
    return Student(own, jax.vmap(lambda one: init_optimizers(one, learning.gradient_clip))(own))


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
    """Trains every population's student to imitate its teachers.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      learning: settings without `auto`; `opponents` are divided between the teachers of a round.
      rounds: [] int32, rounds of episodes.
      teachers: policies to imitate.
      opponents: mixtures of the others, sigma [P, K], or sigma [K] of joint profiles.
      student: networks and optimizers [P, ...].
      rate: step size of Adam.
      generator: generates the student's policy from a code; None for a plain student.
      groups: teachers per round, at most `learning.opponents`.

    Returns:
      The student, and metrics [P].
    """
    sigma, groups = opponents.sigma, min(groups, learning.opponents)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Student, TrainMetrics]:
        own = jax.tree.map(lambda leaf: leaf[p], student)
        mine: StackedPolicies = jax.tree.map(lambda leaf: leaf[p], teachers.policies)
        met, log_sigma = rotate(opponents.population, p), jnp.log(sigma if sigma.ndim == 1 else rotate(sigma, p))
        # a code is the teacher's slot, followed by the student's code; the critic is unused
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
            inputs = teachers.codes[slots]
            codes = jnp.concatenate([slots[:, None].astype(inputs.dtype), inputs], axis=1)
            each = play_settings(learning, stratified=False)._replace(num_opponents=learning.opponents // groups)
            batches = [
                collect_episodes(view_key, seen, teacher, params, codes, met, log_sigma, each)
                for view_key, seen in zip(keys, views, strict=True)
            ]
            return batches, carry

        imitating = learning.replace(value_weight=0.0, entropy_weight=0.0)
        loss = make_loss(pupil, imitating, imitation_penalty(teacher, pupil), zero_surrogate)
        return train_student(
            own_key, views[0], learning, own, pupil, experience, rounds, (), loss, epochs=_EPOCHS, normalize=False,
            learning_rate={"policy": rate}, summarize=False,
        )  # fmt: skip

    return map_populations(game, one, jax.random.split(fused_key(key), num_populations(game)))
