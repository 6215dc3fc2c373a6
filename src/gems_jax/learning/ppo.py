"""Amortized best response: advantages, surrogates, and one training loop for every method that learns by gradient.

The loop knows nothing of generators: a `Learner` says how trainable parameters and a code make a policy and a value,
a surrogate says how advantages become an objective, a penalty says what else counts. GEMS passes G_theta and the
trust region of eq:abr-tr_revised; a PSRO oracle passes a plain network and no penalty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from gems_jax.learning import tabular as tallies
from gems_jax.learning.batches import Experience, Learner, values_everywhere, values_on
from gems_jax.learning.minibatches import rows_at, shuffle, small
from gems_jax.learning.tabular import Tally
from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Array, PyTree

Batch = Experience | Tally
# A surrogate maps (log_prob, behaviour_log_prob, advantage, clip) to an objective per decision, to be maximised. It is
# proportional to the advantage on either side of zero.
Surrogate = Callable[[Array, Array, Array, ArrayLike], Array]


def ppo_surrogate(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)."""
    ratio = jnp.exp(log_prob - behaviour_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage)


def a2c_surrogate(log_prob: Array, behaviour_log_prob: Array, advantage: Array, clip: ArrayLike) -> Array:
    """log pi(a) A: the plain advantage actor-critic."""
    del behaviour_log_prob, clip
    return log_prob * advantage


SURROGATES: dict[str, Surrogate] = {"ppo": ppo_surrogate, "a2c": a2c_surrogate}


def masked_mean(values: Array, mask: Array) -> Array:
    """Mean over True entries, 0 when there are none."""
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of one row for all rows [G, R, ...] of a batch."""
    return jax.vmap(jax.vmap(function))


class LossParts(NamedTuple):
    objective: Array
    value_loss: Array
    entropy: Array


def outputs_on(learner: Learner, params: PyTree, batch: Experience) -> distributions.PolicyOutput:
    """The action distributions of params on every row of a batch [G, R, ...], grouped by code."""

    def group(code: Array, observation: Array, legal: Array) -> distributions.PolicyOutput:
        phi = learner.policy(params, code)
        return jax.vmap(lambda seen, may: learner.apply(phi, seen, may))(observation, legal)

    rows = (batch.code, batch.observation, batch.legal)
    if len(batch.code) == 1:  # without an axis for it: XLA would transpose what it sums over two axes in the gradient
        return jax.tree.map(lambda leaf: leaf[None], group(*(leaf[0] for leaf in rows)))
    return jax.vmap(group)(*rows)


def behaviour_on(learner: Learner, params: PyTree, batch: Batch) -> PyTree:
    """What the policies of params do on a batch, for `kl_per_code`."""
    if isinstance(batch, Tally):
        return tallies.log_probs(learner, params, batch.code)
    return outputs_on(learner, params, batch)


def kl_per_code(batch: Batch, left: PyTree, right: PyTree) -> Array:
    """KL(left || right) [G] of two behaviours on a batch, the mean over the decisions of each code."""
    if isinstance(batch, Tally):
        visits = batch.visits.reshape(len(batch.code), -1)
        total = jnp.sum(visits * tallies.kl(left, right).reshape(visits.shape), axis=1)
        return total / jnp.maximum(visits.sum(axis=1), 1)
    return jax.vmap(masked_mean)(over_rows(distributions.kl)(left, right), batch.acted)


def uniform_on(learner: Learner, batch: Batch, behaviour: PyTree) -> PyTree:
    """Uniform play on a batch, in the form of `behaviour`, what some policy of `learner` does there."""
    if isinstance(batch, Tally):
        assert isinstance(learner.apply, TabularPolicy)
        logits = jnp.zeros(learner.apply.legal.shape)
        return tallies.log_probs(learner._replace(policy=lambda params, code: logits), None, batch.code)
    return over_rows(distributions.uniform_like)(behaviour, batch.legal)


def policy_gradient_loss(
    params: PyTree,
    batch: Batch,
    learner: Learner,
    surrogate: Surrogate,
    clip: ArrayLike,
    value_weight: ArrayLike,
    entropy_weight: ArrayLike,
) -> tuple[Array, LossParts]:
    """-E[surrogate] + value_weight * squared value error - entropy_weight * entropy, over decisions."""
    if isinstance(batch, Tally):
        parts = _parts_of_tally(params, batch, learner, surrogate, clip)
    else:
        parts = _parts_of_rows(params, batch, learner, surrogate, clip)
    loss = -parts.objective + value_weight * parts.value_loss - entropy_weight * parts.entropy
    return loss, parts


def _parts_of_rows(
    params: PyTree, batch: Experience, learner: Learner, surrogate: Surrogate, clip: ArrayLike
) -> LossParts:
    outputs = outputs_on(learner, params, batch)
    log_prob = over_rows(distributions.log_prob)(outputs, batch.action)
    objective = masked_mean(surrogate(log_prob, batch.log_prob, batch.advantage, clip), batch.acted)
    error = values_on(learner, params, batch.code, batch.observation) - batch.target
    spread = masked_mean(over_rows(distributions.entropy)(outputs), batch.acted)
    return LossParts(objective, masked_mean(error**2, batch.acted), spread)


def _parts_of_tally(params: PyTree, batch: Tally, learner: Learner, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
    """The same by sums: a surrogate is proportional to the advantage, and a squared error expands into sums."""
    count = jnp.maximum(jnp.sum(batch.visits), 1)
    log_prob = tallies.log_probs(learner, params, batch.code)
    one = jnp.ones_like(log_prob)
    gained = batch.gain * surrogate(log_prob, batch.log_prob, one, clip)
    lost = batch.loss * surrogate(log_prob, batch.log_prob, -one, clip)
    assert isinstance(learner.apply, TabularPolicy)
    value = values_everywhere(learner, params, batch.code, learner.apply).reshape(-1)
    squares = jnp.sum(batch.visits * value**2 - 2.0 * batch.target * value) + batch.squared
    spread = jnp.sum(batch.visits * tallies.entropy(log_prob))
    return LossParts(jnp.sum(gained + lost) / count, squares / count, spread / count)


def make_optimizer(gradient_clip: ArrayLike, momentum: ArrayLike = 0.9) -> optax.GradientTransformation:
    """Global-norm clipping and Adam with b1 = momentum; `train` applies the learning rate, which may be traced."""
    return optax.chain(optax.clip_by_global_norm(gradient_clip), optax.scale_by_adam(b1=momentum))


def fresh_optimizers(params: dict[str, PyTree], gradient_clip: ArrayLike) -> dict[str, PyTree]:
    """The state of every part's own optimizer."""
    optimizer = make_optimizer(gradient_clip)
    return {name: optimizer.init(part) for name, part in params.items()}


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


Penalty = Callable[[PyTree, Sequence[Batch], Array], Array]  # (params, batches, key) -> [], to be minimised


def no_penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
    del params, batches, key
    return jnp.float32(0.0)


def train(
    key: Array,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    *,
    experience: Callable[[Array, PyTree, PyTree], tuple[list[Experience], PyTree]],
    learner: Learner,
    surrogate: Surrogate,
    penalty: Penalty = no_penalty,
    steps: int | Array,
    epochs: int,
    learning_rate: dict[str, PyTree],
    gradient_clip: ArrayLike,
    clip: ArrayLike,
    value_weight: ArrayLike,
    entropy_weight: ArrayLike,
    normalise: bool = False,
    minibatches: int = 1,
    kept: float = 1.0,
    momentum: ArrayLike = 0.9,
    carry: PyTree = (),
    tallied: bool = True,
) -> tuple[dict[str, PyTree], dict[str, PyTree], TrainMetrics]:
    """`steps` rounds of experience, `epochs` passes over each in `minibatches` gradient steps. key: consumed.

    params, opt_state and learning_rate are dicts by part (an actor and a critic): each part has its own optimizer and
    its own gradient clipping, so that a large value error cannot shrink the policy's step. A part's learning rate is
    one number, or a number for each of its own parts.
    `experience(key, params, carry)` returns one batch per player that is drawn from the population being trained, and
    what the next round begins with (games under way, or nothing). `steps` may be traced: one program then serves any
    number of rounds. With several minibatches the rows are shuffled, and `kept`, the share of them that are decisions,
    says how many a pass takes. tallied: a table's gradient steps are taken on tallies of the experience where that is
    less work, for which `params` themselves have to play and `penalty` has to know tallies.
    """
    optimizer = make_optimizer(gradient_clip, momentum)

    def loss(params: PyTree, batches: Sequence[Batch], penalty_key: Array) -> tuple[Array, tuple[LossParts, Array]]:
        parts = [
            policy_gradient_loss(params, batch, learner, surrogate, clip, value_weight, entropy_weight)
            for batch in batches
        ]
        extra = penalty(params, batches, penalty_key)
        mean = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves)), *[p for _, p in parts])
        return jnp.mean(jnp.stack([one for one, _ in parts])) + extra, (mean, extra)

    def update(carry: tuple, penalty_key: Array, batches: Sequence[Batch]) -> tuple[tuple, tuple]:
        params, opt_state = carry
        gradients, (parts, extra) = jax.grad(loss, has_aux=True)(params, batches, penalty_key)
        return _descended(optimizer, params, opt_state, gradients, learning_rate), (
            parts, extra, optax.tree.norm(gradients),
        )  # fmt: skip

    def step(state: tuple, step_key: Array) -> tuple[tuple, TrainMetrics]:
        learned, carry = state
        key_play, key_learn = jax.random.split(step_key)
        batches, carry = experience(key_play, learned[0], carry)
        if normalise:
            batches = [_normalised(batch) for batch in batches]
        if minibatches == 1:
            whole = [tallies.tally(learner, learned[0], batch) if tallied else batch for batch in batches]
            one_pass: Callable[..., Any] = partial(update, batches=whole)
        else:
            stored = [small(batch) for batch in batches]
            one_pass = partial(_in_minibatches, update, batches=stored, minibatches=minibatches, kept=kept)
        learned, (parts, extra, norm) = jax.lax.scan(one_pass, learned, jax.random.split(key_learn, epochs))
        parts, extra, norm = jax.tree.map(lambda leaf: leaf[-1], (parts, extra, norm))
        played = jnp.sum(jnp.stack([batch.episodes for batch in batches]))
        taken = jnp.sum(jnp.stack([batch.env_steps for batch in batches]))
        metrics = TrainMetrics(parts.objective, parts.value_loss, parts.entropy, extra, norm, played, taken)
        return (learned, carry), metrics._replace(improvement=_per_episode(batches))

    start = ((params, opt_state), carry)
    if isinstance(steps, int):
        final, last = _this_many(step, start, key, steps)
    else:
        final, last = repeat(step, start, key, steps)
    (params, opt_state), carry = final
    return params, opt_state, last._replace(carry=carry)


Update = Callable[[tuple, Array, Sequence[Batch]], tuple[tuple, tuple]]
Round = Callable[[tuple, Array], tuple[tuple, TrainMetrics]]


def _in_minibatches(
    update: Update, carry: tuple, key: Array, batches: list[Experience], minibatches: int, kept: float
) -> tuple[tuple, tuple]:
    """Gradient steps on minibatches of the batches, one after the other. key: consumed."""
    key_rows, key_penalty = jax.random.split(key)
    keys = jax.random.split(key_rows, len(batches))
    places = [shuffle(k, batch, minibatches, kept) for k, batch in zip(keys, batches, strict=True)]

    def one(carry: tuple, inputs: tuple[Array, list[Array]]) -> tuple[tuple, tuple]:
        penalty_key, chosen = inputs
        return update(carry, penalty_key, [rows_at(b, where) for b, where in zip(batches, chosen, strict=True)])

    carry, seen = jax.lax.scan(one, carry, (jax.random.split(key_penalty, minibatches), places))
    return carry, jax.tree.map(lambda leaf: leaf[-1], seen)


def no_metrics() -> TrainMetrics:
    """Metrics of no training at all."""
    zero = jnp.float32(0.0)
    return TrainMetrics(zero, zero, zero, zero, zero, jnp.int32(0), jnp.int32(0), zero)


def _this_many(step: Round, start: tuple, key: Array, count: int) -> tuple[tuple, TrainMetrics]:
    """`count` steps, and the metrics of all. key: consumed."""
    if count == 0:
        return start, no_metrics()
    final, rows = jax.lax.scan(step, start, jax.random.split(key, count))
    improvement = jnp.sum(_third(jnp.arange(count), count) * rows.improvement)
    last = jax.tree.map(lambda leaf: leaf[-1], rows)
    return final, last._replace(episodes=rows.episodes.sum(), env_steps=rows.env_steps.sum(), improvement=improvement)


def repeat(step: Round, start: tuple, key: Array, count: Array) -> tuple[tuple, TrainMetrics]:
    """Runs `count` rounds of training.

    Args:
      step: one round, (state, key) -> (state, metrics).
      start: the state that the first round begins with.
      key: typed PRNG key; consumed.
      count: [] int32, may be traced.

    Returns:
      The state after the last round, and its metrics with the episodes and env steps of all rounds.
    """

    def body(n: Array, loop: tuple[tuple, TrainMetrics]) -> tuple[tuple, TrainMetrics]:
        state, metrics = step(loop[0], jax.random.fold_in(key, n))
        return state, metrics._replace(
            episodes=loop[1].episodes + metrics.episodes,
            env_steps=loop[1].env_steps + metrics.env_steps,
            improvement=loop[1].improvement + _third(n, count) * metrics.improvement,
        )

    return jax.lax.fori_loop(0, count, body, (start, no_metrics()))


def _third(number: ArrayLike, count: ArrayLike) -> Array:
    """The weight of step `number` of `count` in the mean of the last third minus the mean of the first."""
    size = jnp.ceil(jnp.asarray(count) / 3)
    number = jnp.asarray(number)
    return ((number >= count - size).astype(jnp.float32) - (number < size)) / size


def _per_episode(batches: list[Experience]) -> Array:
    """Scaled return per episode, the mean over batches."""
    return jnp.mean(jnp.stack([jnp.sum(batch.earned) / jnp.maximum(batch.episodes, 1) for batch in batches]))


def _descended(
    optimizer: optax.GradientTransformation,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    gradients: dict[str, PyTree],
    learning_rate: dict[str, PyTree],
) -> tuple[dict[str, PyTree], dict[str, PyTree]]:
    """Every part one step of its own optimizer further."""
    new_params, new_opt_state = {}, {}
    for name in params:
        updates, new_opt_state[name] = optimizer.update(gradients[name], opt_state[name])
        scaled = jax.tree.map(
            lambda rate, part: jax.tree.map(lambda u, rate=rate: -rate * u, part), learning_rate[name], updates
        )
        new_params[name] = optax.apply_updates(params[name], scaled)
    return new_params, new_opt_state


def _normalised(batch: Experience) -> Experience:
    mean = masked_mean(batch.advantage, batch.acted)
    deviation = jnp.sqrt(masked_mean((batch.advantage - mean) ** 2, batch.acted))
    return dataclasses.replace(batch, advantage=(batch.advantage - mean) / (deviation + 1e-6))
