"""One training loop for every method that learns by policy gradients.

The loop does not depend on generators: a `Learner` maps trainable parameters and a code to a policy and a value, and a
loss is minimized. GEMS passes `abr_tr_loss`, a PSRO oracle passes `policy_gradient_loss` of a plain network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from gems_jax.learning.batches import Batch, Experience, Learner, LossParts, Surrogate, mean_loss_parts
from gems_jax.learning.minibatches import gather_rows, pack_observations, shuffle_rows
from gems_jax.learning.rounds import repeat_rounds
from gems_jax.learning.tabular import summarize
from gems_jax.types import Array, PyTree


def ppo_surrogate(log_prob: Array, behavior_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """Computes the clipped surrogate of PPO (Schulman et al. 2017), elementwise.

        min(ratio A, clip(ratio, 1 - clip, 1 + clip) A),    ratio = exp(log_prob - behavior_log_prob)

    Args:
      log_prob: log pi(a) of the trained policy.
      behavior_log_prob: log pi(a) of the policy that played, same shape.
      advantage: A, same shape.
      clip: clipping range, [].

    Returns:
      The objective per decision, same shape.
    """
    ratio = jnp.exp(log_prob - behavior_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def a2c_surrogate(log_prob: Array, behavior_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """Computes log pi(a) A, the surrogate of advantage actor-critic; see `ppo_surrogate`."""
    del behavior_log_prob, clip
    return log_prob * advantage


SURROGATES: dict[str, Surrogate] = {"ppo": ppo_surrogate, "a2c": a2c_surrogate}

Learned = tuple[dict[str, PyTree], dict[str, PyTree]]  # parameters and states of their optimizers, by part
Parts = tuple[LossParts, Array]  # the parts, and the penalty of the loss
Loss = Callable[[PyTree, Sequence[Batch], Array], tuple[Array, Parts]]  # (params, batches, key) -> []
Penalty = Callable[[PyTree, Sequence[Batch], Array], Array]  # (params, batches, key) -> [], to be minimized


def zero_penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
    """Returns 0, the penalty of a loss without any."""
    del params, batches, key
    return jnp.float32(0.0)


class LossSettings(NamedTuple):
    """Settings of `policy_gradient_loss`."""

    surrogate: Surrogate
    clip: ArrayLike
    value_weight: ArrayLike
    entropy_weight: ArrayLike


def policy_gradient_loss(
    params: PyTree,
    batches: Sequence[Batch],
    key: Array,
    *,
    learner: Learner,
    settings: LossSettings,
    penalty: Penalty = zero_penalty,
) -> tuple[Array, Parts]:
    """Computes the loss of an actor and a critic, with means over decisions and batches.

        -E[surrogate] + value_weight E[(V - target)^2] - entropy_weight E[H(pi)] + penalty

    Args:
      params: trainable parameters of the learner.
      batches: one per player of the population in training.
      key: typed PRNG key of the penalty; consumed.
      learner: evaluates the policies and the critic.
      settings: surrogate and weights.
      penalty: a further term of the loss.

    Returns:
      The loss [], and its parts.
    """
    parts = mean_loss_parts(learner, params, batches, settings.surrogate, settings.clip)
    extra = penalty(params, batches, key)
    loss = -parts.objective + settings.value_weight * parts.value_loss - settings.entropy_weight * parts.entropy
    return loss + extra, (parts, extra)


def make_optimizer(gradient_clip: ArrayLike, momentum: ArrayLike = 0.9) -> optax.GradientTransformation:
    """Makes Adam with b1 = momentum after clipping by the global norm; training applies the learning rate itself."""
    return optax.chain(optax.clip_by_global_norm(gradient_clip), optax.scale_by_adam(b1=momentum))


def init_optimizers(params: dict[str, PyTree], gradient_clip: ArrayLike) -> dict[str, PyTree]:
    """Initializes the optimizer state of every part of the parameters."""
    optimizer = make_optimizer(gradient_clip)
    return {name: optimizer.init(part) for name, part in params.items()}


class TrainSettings(NamedTuple):
    """Settings of `train_learner`."""

    epochs: int  # passes over a round's experience
    learning_rate: dict[str, PyTree]  # by part: a scalar, or a prefix tree of the part
    gradient_clip: ArrayLike
    normalize: bool = False  # whether advantages are normalized per batch
    minibatches: int = 1  # gradient steps per pass; rows are shuffled if there are several
    decision_fraction: float = 1.0  # fraction of the rows in a pass over minibatches
    momentum: ArrayLike = 0.9
    summarize: bool = True  # use statistics of tabular play where they are smaller; the loss must support them


class TrainMetrics(NamedTuple):
    """Metrics of training: losses of the last gradient step, counts and improvement of the whole training."""

    objective: Array
    value_loss: Array
    entropy: Array
    penalty: Array
    gradient_norm: Array
    episodes: Array
    env_steps: Array
    improvement: Array | float = 0.0  # scaled return per episode of the last third of the rounds, minus the first third
    carry: PyTree = ()  # the carry of a further round


def train_learner(
    key: Array,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    *,
    learner: Learner,
    experience: Callable[[Array, PyTree, PyTree], tuple[list[Experience], PyTree]],
    loss: Loss,
    settings: TrainSettings,
    steps: int | Array,
    carry: PyTree = (),
) -> tuple[dict[str, PyTree], dict[str, PyTree], TrainMetrics]:
    """Trains for `steps` rounds of experience, with `epochs` passes over each in `minibatches` gradient steps.

    Parameters are a dict by part (an actor and a critic). Each part has its own optimizer and its own gradient
    clipping, so that a large value error cannot shrink the policy's step.

    Args:
      key: typed PRNG key; consumed.
      params: trainable parameters by part.
      opt_state: optimizer states by part, see `init_optimizers`.
      learner: evaluates the policies and the critic.
      experience: (key, params, carry) -> (batches, carry): one batch per player of the population in training, and the
        carry of the next round (ongoing games, or nothing).
      loss: (params, batches, key) -> (loss, parts), minimized.
      settings: settings.
      steps: number of rounds, static or traced. A traced number needs one compilation for all numbers.
      carry: carry of the first round.

    Returns:
      The trained parameters, the states of their optimizers, and metrics.
    """

    def step(state: tuple[Learned, PyTree], step_key: Array) -> tuple[tuple[Learned, PyTree], TrainMetrics]:
        return train_round(step_key, *state, learner=learner, experience=experience, loss=loss, settings=settings)

    ((params, opt_state), carry), metrics = repeat_training(step, ((params, opt_state), carry), key, steps)
    return params, opt_state, metrics._replace(carry=carry)


def train_round(
    key: Array,
    learned: Learned,
    carry: PyTree,
    *,
    learner: Learner,
    experience: Callable[[Array, PyTree, PyTree], tuple[list[Experience], PyTree]],
    loss: Loss,
    settings: TrainSettings,
) -> tuple[tuple[Learned, PyTree], TrainMetrics]:
    """Plays one round and takes its gradient steps; see `train_learner`.

    Args:
      key: typed PRNG key; consumed.
      learned: parameters and states of their optimizers, by part.
      carry: carry of this round.
      learner: evaluates the policies and the critic.
      experience: (key, params, carry) -> (batches, carry).
      loss: (params, batches, key) -> (loss, parts), minimized.
      settings: settings.

    Returns:
      ((learned, carry of the next round), metrics), where `improvement` is the scaled return per episode of the round.
    """
    optimizer = make_optimizer(settings.gradient_clip, settings.momentum)

    def update(learned: Learned, loss_key: Array, batches: Sequence[Batch]) -> tuple[Learned, tuple[Parts, Array]]:
        params, opt_state = learned
        gradients, parts = jax.grad(loss, has_aux=True)(params, batches, loss_key)
        learned = apply_gradients(optimizer, params, opt_state, gradients, settings.learning_rate)
        return learned, (parts, optax.tree.norm(gradients))

    key_play, key_learn = jax.random.split(key)
    batches, carry = experience(key_play, learned[0], carry)
    if settings.normalize:
        batches = [batch.normalize_advantages() for batch in batches]
    if settings.minibatches == 1:
        whole = [summarize(learner, learned[0], batch) if settings.summarize else batch for batch in batches]
        one_pass: Callable[..., Any] = partial(update, batches=whole)
    else:
        packed = [pack_observations(batch) for batch in batches]
        one_pass = partial(_update_in_minibatches, update, batches=packed, settings=settings)
    learned, steps_taken = jax.lax.scan(one_pass, learned, jax.random.split(key_learn, settings.epochs))
    (parts, extra), norm = jax.tree.map(lambda leaf: leaf[-1], steps_taken)
    episodes, env_steps = (
        jnp.sum(jnp.stack([getattr(batch, name) for batch in batches])) for name in ("episodes", "env_steps")
    )
    found = (parts.objective, parts.value_loss, parts.entropy, extra, norm, episodes, env_steps)
    return (learned, carry), TrainMetrics(*found, improvement=_mean_return(batches))


def repeat_training(
    step: Callable[[Any, Array], tuple[Any, TrainMetrics]],
    start: Any,
    key: Array,
    count: int | Array,
    shape: tuple[int, ...] = (),
) -> tuple[Any, TrainMetrics]:
    """Runs `count` rounds of training.

    Args:
      step: one round, (state, key) -> (state, metrics), with the scaled return per episode as `improvement`.
      start: the state before the first round.
      key: typed PRNG key; consumed.
      count: number of rounds, static or a traced [] int32.
      shape: shape of the leaves of the metrics: () for one learner, (P,) for P learners that train together.

    Returns:
      The state after the last round, and its metrics with the episodes and env steps of all rounds.
    """

    def advance(loop: tuple[Any, TrainMetrics], round_key: Array, number: Array) -> tuple[Any, TrainMetrics]:
        state, metrics = step(loop[0], round_key)
        return state, metrics._replace(
            episodes=loop[1].episodes + metrics.episodes,
            env_steps=loop[1].env_steps + metrics.env_steps,
            improvement=loop[1].improvement + _trend_weight(number, count) * metrics.improvement,
        )

    return repeat_rounds(advance, (start, zero_metrics(shape)), key, count)


def zero_metrics(shape: tuple[int, ...] = ()) -> TrainMetrics:
    """Makes the metrics of no training, with leaves of some shape."""
    zero, none = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32)
    return TrainMetrics(zero, zero, zero, zero, zero, none, none, zero)


def _update_in_minibatches(
    update: Callable[[Learned, Array, Sequence[Batch]], tuple[Learned, tuple[Parts, Array]]],
    learned: Learned,
    key: Array,
    batches: list[Experience],
    settings: TrainSettings,
) -> tuple[Learned, tuple[Parts, Array]]:
    """Takes gradient steps on minibatches, one after the other. key: consumed."""
    key_rows, key_loss = jax.random.split(key)
    keys = jax.random.split(key_rows, len(batches))
    count, fraction = settings.minibatches, settings.decision_fraction
    indices = [shuffle_rows(k, batch, count, fraction) for k, batch in zip(keys, batches, strict=True)]

    def one(learned: Learned, inputs: tuple[Array, list[Array]]) -> tuple[Learned, tuple[Parts, Array]]:
        loss_key, chosen = inputs
        return update(learned, loss_key, [gather_rows(b, where) for b, where in zip(batches, chosen, strict=True)])

    learned, seen = jax.lax.scan(one, learned, (jax.random.split(key_loss, count), indices))
    return learned, jax.tree.map(lambda leaf: leaf[-1], seen)


def _trend_weight(number: ArrayLike, count: ArrayLike) -> Array:
    """The weight of step `number` of `count` in the mean of the last third minus the mean of the first."""
    size = jnp.ceil(jnp.asarray(count) / 3)
    number = jnp.asarray(number)
    return ((number >= count - size).astype(jnp.float32) - (number < size)) / size


def _mean_return(batches: list[Experience]) -> Array:
    """Scaled return per episode, the mean over batches."""
    return jnp.mean(jnp.stack([jnp.sum(batch.earned) / jnp.maximum(batch.episodes, 1) for batch in batches]))


def apply_gradients(
    optimizer: optax.GradientTransformation,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    gradients: dict[str, PyTree],
    learning_rate: dict[str, PyTree],
) -> Learned:
    """Takes one optimizer step for every part of the parameters.

    Args:
      optimizer: the transformation of every part's gradients.
      params: parameters by part.
      opt_state: optimizer states by part.
      gradients: gradients by part.
      learning_rate: learning rates by part, scalars or prefix trees of the part.

    Returns:
      The new parameters and optimizer states.
    """
    new_params, new_opt_state = {}, {}
    for name in params:
        rates = jax.tree.map(lambda rate, part: jax.tree.map(lambda _: rate, part), learning_rate[name], params[name])
        move = _move_as_vector if _is_small(params[name]) else _move
        new_params[name], new_opt_state[name] = move(optimizer, params[name], opt_state[name], gradients[name], rates)
    return new_params, new_opt_state


_SMALL = 4096  # numbers; a vector of them is copied in less time than a kernel for every array takes


def _is_small(part: PyTree) -> bool:
    leaves = jax.tree.leaves(part)
    return len(leaves) > 1 and sum(leaf.size for leaf in leaves) <= _SMALL and len({leaf.dtype for leaf in leaves}) == 1


def _move(
    optimizer: optax.GradientTransformation, part: PyTree, state: PyTree, gradients: PyTree, rates: PyTree
) -> tuple[PyTree, PyTree]:
    """One optimizer step. rates: learning rates, a scalar per array of the part."""
    updates, state = optimizer.update(gradients, state)
    scaled = jax.tree.map(lambda rate, update: -rate * update, rates, updates)
    return optax.apply_updates(part, scaled), state


def _move_as_vector(
    optimizer: optax.GradientTransformation, part: PyTree, state: PyTree, gradients: PyTree, rates: PyTree
) -> tuple[PyTree, PyTree]:
    """One optimizer step of all arrays as one vector: fewer kernels than `_move`, and a smaller program."""
    sizes = [leaf.size for leaf in jax.tree.leaves(part)]
    structure: Any = jax.tree.structure(part)
    is_part = lambda tree: structure == jax.tree.structure(tree)  # noqa: E731

    def join(tree: PyTree) -> PyTree:
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)]) if is_part(tree) else tree

    def split(joined: Array) -> PyTree:
        pieces = jnp.split(joined, np.cumsum(sizes)[:-1])
        return jax.tree.map(lambda leaf, own: own.reshape(leaf.shape), part, jax.tree.unflatten(structure, pieces))

    vector_state = jax.tree.map(join, state, is_leaf=is_part)
    updates, moved = optimizer.update(join(gradients), vector_state)
    each = jax.tree.leaves(rates)
    rate = each[0]
    if any(one is not rate for one in each):
        rate = jnp.concatenate([jnp.full(size, one) for size, one in zip(sizes, each, strict=True)])
    state = jax.tree.map(lambda old, new: split(new) if is_part(old) else new, state, moved, is_leaf=is_part)
    return split(optax.apply_updates(join(part), -rate * updates)), state
