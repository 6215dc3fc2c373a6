"""One training loop for every method that learns by policy gradients.

The loop knows nothing of generators: a `Learner` says how trainable parameters and a code make a policy and a value,
and a loss says what is minimized. GEMS passes `abr_tr_loss`, a PSRO oracle `policy_gradient_loss` of a plain network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from gems_jax.learning.batches import Batch, Experience, Learner, LossParts, Surrogate, mean_loss_parts
from gems_jax.learning.minibatches import gather_rows, pack_observations, shuffle_rows
from gems_jax.learning.rounds import repeat_rounds
from gems_jax.learning.tabular import summarize
from gems_jax.types import Array, PyTree


def ppo_surrogate(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)."""
    ratio = jnp.exp(log_prob - behaviour_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def a2c_surrogate(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """log pi(a) A: the plain advantage actor-critic."""
    del behaviour_log_prob, clip
    return log_prob * advantage


SURROGATES: dict[str, Surrogate] = {"ppo": ppo_surrogate, "a2c": a2c_surrogate}

Learned = tuple[dict[str, PyTree], dict[str, PyTree]]  # parameters and states of their optimizers, by part
Parts = tuple[LossParts, Array]  # and what the loss adds to them
Loss = Callable[[PyTree, Sequence[Batch], Array], tuple[Array, Parts]]  # (params, batches, key) -> []
Penalty = Callable[[PyTree, Sequence[Batch], Array], Array]  # (params, batches, key) -> [], to be minimized


def no_penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
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
    penalty: Penalty = no_penalty,
) -> tuple[Array, Parts]:
    """Computes the loss of an actor and a critic, with means over decisions and batches.

        -E[surrogate] + value_weight E[(V - target)^2] - entropy_weight E[H(pi)] + penalty

    Args:
      params: trainable parameters of the learner.
      batches: one per player that is drawn from the population being trained.
      key: typed PRNG key of the penalty; consumed.
      learner: runs the policies and the critic.
      settings: surrogate and weights.
      penalty: what else is to be minimized.

    Returns:
      The loss [], and its parts.
    """
    parts = mean_loss_parts(learner, params, batches, settings.surrogate, settings.clip)
    extra = penalty(params, batches, key)
    loss = -parts.objective + settings.value_weight * parts.value_loss - settings.entropy_weight * parts.entropy
    return loss + extra, (parts, extra)


def make_optimizer(gradient_clip: ArrayLike, momentum: ArrayLike = 0.9) -> optax.GradientTransformation:
    """Global-norm clipping and Adam with b1 = momentum; training applies the learning rate, which may be traced."""
    return optax.chain(optax.clip_by_global_norm(gradient_clip), optax.scale_by_adam(b1=momentum))


def fresh_optimizers(params: dict[str, PyTree], gradient_clip: ArrayLike) -> dict[str, PyTree]:
    """Makes the state of every part's own optimizer."""
    optimizer = make_optimizer(gradient_clip)
    return {name: optimizer.init(part) for name, part in params.items()}


class TrainSettings(NamedTuple):
    """Settings of `train_learner`."""

    epochs: int  # passes over a round's experience
    learning_rate: dict[str, PyTree]  # by part: one number, or a number for each of the part's own parts
    gradient_clip: ArrayLike
    normalize: bool = False  # advantages, per batch
    minibatches: int = 1  # gradient steps per pass; with several the rows are shuffled
    decision_fraction: float = 1.0  # of the rows, how many a pass over minibatches takes
    momentum: ArrayLike = 0.9
    summarize: bool = True  # steps on statistics of tabular play, where these are smaller; the loss must support them


class TrainMetrics(NamedTuple):
    """Of the last gradient step; counts, and what follows them, are of the whole training."""

    objective: Array
    value_loss: Array
    entropy: Array
    penalty: Array
    gradient_norm: Array
    episodes: Array
    env_steps: Array
    improvement: Array | float = 0.0  # scaled return per episode in the last third of the rounds, minus the first's
    carry: PyTree = ()  # what a further round would begin with


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
    """Trains for `steps` rounds of experience, `epochs` passes over each in `minibatches` gradient steps.

    Parameters are a dict by part (an actor and a critic): each part has its own optimizer and its own gradient
    clipping, so that a large value error cannot shrink the policy's step.

    Args:
      key: typed PRNG key; consumed.
      params: by part.
      opt_state: by part, see `fresh_optimizers`.
      learner: runs the policies and the critic.
      experience: (key, params, carry) -> one batch per player that is drawn from the population being trained, and what
        the next round begins with (ongoing games, or nothing).
      loss: what is minimized, (params, batches, key) -> (loss, parts).
      settings: settings.
      steps: static or traced number of rounds. A traced one serves any number of rounds with one program.
      carry: what the first round begins with.

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
      carry: what the round begins with.
      learner: runs the policies and the critic.
      experience: (key, params, carry) -> batches and what the next round begins with.
      loss: what is minimized.
      settings: settings.

    Returns:
      What was learned and what the next round begins with, and metrics, of which `improvement` is the scaled return
      per episode of the round.
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
      start: the state that the first round begins with.
      key: typed PRNG key; consumed.
      count: static, or [] int32 that may be traced.
      shape: of the leaves of the metrics: () for one learner, (P,) for several that are trained together.

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

    return repeat_rounds(advance, (start, no_metrics(shape)), key, count)


def no_metrics(shape: tuple[int, ...] = ()) -> TrainMetrics:
    """Makes the metrics of no training at all, leaves of some shape."""
    zero, none = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32)
    return TrainMetrics(zero, zero, zero, zero, zero, none, none, zero)


def _update_in_minibatches(
    update: Callable[[Learned, Array, Sequence[Batch]], tuple[Learned, tuple[Parts, Array]]],
    learned: Learned,
    key: Array,
    batches: list[Experience],
    settings: TrainSettings,
) -> tuple[Learned, tuple[Parts, Array]]:
    """Gradient steps on minibatches of the batches, one after the other. key: consumed."""
    key_rows, key_loss = jax.random.split(key)
    keys = jax.random.split(key_rows, len(batches))
    count, fraction = settings.minibatches, settings.decision_fraction
    places = [shuffle_rows(k, batch, count, fraction) for k, batch in zip(keys, batches, strict=True)]

    def one(learned: Learned, inputs: tuple[Array, list[Array]]) -> tuple[Learned, tuple[Parts, Array]]:
        loss_key, chosen = inputs
        return update(learned, loss_key, [gather_rows(b, where) for b, where in zip(batches, chosen, strict=True)])

    learned, seen = jax.lax.scan(one, learned, (jax.random.split(key_loss, count), places))
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
    """Takes one step of every part's own optimizer; learning rates may have further parts."""
    new_params, new_opt_state = {}, {}
    for name in params:
        updates, new_opt_state[name] = optimizer.update(gradients[name], opt_state[name])
        scaled = jax.tree.map(
            lambda rate, part: jax.tree.map(lambda u, rate=rate: -rate * u, part), learning_rate[name], updates
        )
        new_params[name] = optax.apply_updates(params[name], scaled)
    return new_params, new_opt_state
