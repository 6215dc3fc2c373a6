"""Amortized best response: advantages, surrogates, and one training loop for every method that learns by gradient.

The loop knows nothing of generators: a `Learner` says how trainable parameters and a code make a policy and a value,
a surrogate says how advantages become an objective, a penalty says what else counts. GEMS passes G_theta and the
trust region of eq:abr-tr_revised; a PSRO oracle passes a plain network and no penalty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from gems_jax import distributions
from gems_jax.estimate import draw_opponents, return_scale
from gems_jax.population import StackedPolicies
from gems_jax.rollout import of_seats, play_groups, unroll
from gems_jax.types import Apply, Array, Game, PyTree, Trajectory, seats_of_player, struct


def gae(reward: Array, value: Array, acted: Array, final_value: Array, discount: ArrayLike, decay: ArrayLike) -> Array:
    """Generalised advantages [T] of one seat of one episode.

    A decision's successor is the seat's next decision: rewards in between are summed into it, other seats' moves
    leave no trace, and the recursion A_t = delta_t + discount * decay * A_{t+1} runs over decisions only. After the
    last one stands `final_value`, 0 unless the episode was truncated. Zero where the seat did not act.
    """
    chex.assert_rank([reward, value, acted, final_value], [1, 1, 1, 0])

    def backward(carry: tuple[Array, Array, Array], row: tuple[Array, Array, Array]) -> tuple[tuple, Array]:
        next_value, next_advantage, pending = carry
        step_reward, step_value, step_acted = row
        pending = pending + step_reward
        delta = pending + discount * next_value - step_value
        advantage = delta + discount * decay * next_advantage
        decided = (step_value, advantage, jnp.zeros_like(pending))
        waiting = (next_value, next_advantage, pending)
        return jax.tree.map(lambda a, b: jnp.where(step_acted, a, b), decided, waiting), advantage

    start = (final_value, jnp.zeros_like(final_value), jnp.zeros_like(final_value))
    _, advantages = jax.lax.scan(backward, start, (reward, value, acted), reverse=True, unroll=len(reward) <= 8)
    return jnp.where(acted, advantages, 0.0)


# A surrogate maps (log_prob, behaviour_log_prob, advantage, clip) to an objective per decision, to be maximised.
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


class Learner(NamedTuple):
    """policy(params, code) -> policy_params; value(params, code, observation) -> []; apply runs the policy."""

    policy: Callable[[PyTree, Array], PyTree]
    value: Callable[[PyTree, Array, Array], Array]
    apply: Apply


@struct
class Experience:
    """What one player saw and did: G codes, E episodes each, T steps, Q seats of the player."""

    code: Array  # [G, D]
    observation: Array  # [G, E, T, Q, *obs]
    legal: Array  # [G, E, T, Q, A]
    action: Array  # [G, E, T, Q, ...]
    log_prob: Array  # [G, E, T, Q]
    acted: Array  # [G, E, T, Q]
    advantage: Array  # [G, E, T, Q]
    target: Array  # [G, E, T, Q], of the critic
    env_steps: Array  # [] int32


def own_part(game: Game, trajectory: Trajectory) -> Trajectory:
    """The seats of player 0 in a trajectory, with the team's mean reward in units of the scaled return."""
    seats = seats_of_player(game, 0)
    _, width = return_scale(game)

    def pick(leaf: Array) -> Array:
        return of_seats(leaf, seats, axis=1)

    reward = jnp.mean(pick(trajectory.reward), axis=1, keepdims=True) / width
    return dataclasses.replace(
        trajectory,
        observation=pick(trajectory.observation),
        legal=pick(trajectory.legal),
        action=pick(trajectory.action),
        log_prob=pick(trajectory.log_prob),
        acted=pick(trajectory.acted),
        reward=jnp.broadcast_to(reward, (reward.shape[0], len(seats))),
        final_observation=of_seats(trajectory.final_observation, seats),
    )


def collect(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    log_sigma: Array,
    *,
    num_opponents: int,
    episodes: int,
    discount: ArrayLike,
    decay: ArrayLike,
    stratified: bool = False,
) -> Experience:
    """Play each code [G, D] as player 0 against draws of the others' sigma and attach GAE advantages. key: consumed."""
    key_draw, key_play = jax.random.split(key)
    policies = jax.vmap(learner.policy, in_axes=(None, 0))(params, codes)
    indices = draw_opponents(key_draw, game, log_sigma, (codes.shape[0], num_opponents), stratified)
    trajectory = play_groups(unroll, key_play, game, policies, learner.apply, opponents, indices, episodes)
    # [G, N, M, ...] -> [G, E, ...]
    trajectory = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), trajectory)

    def episode(code: Array, whole: Trajectory) -> Experience:
        own = own_part(game, whole)
        value = jax.vmap(jax.vmap(lambda seen: learner.value(params, code, seen)))(own.observation)  # [T, Q]
        final = jax.vmap(lambda seen: learner.value(params, code, seen))(own.final_observation)
        final = jnp.where(own.truncated, final, 0.0)
        advantage = jax.vmap(lambda r, v, a, f: gae(r, v, a, f, discount, decay), in_axes=(1, 1, 1, 0), out_axes=1)(
            own.reward, value, own.acted, final
        )
        return Experience(
            code, own.observation, own.legal, own.action, own.log_prob, own.acted, advantage, advantage + value,
            own.length,
        )  # fmt: skip

    batch = jax.vmap(jax.vmap(episode, in_axes=(None, 0)))(codes, trajectory)
    return dataclasses.replace(batch, code=codes, env_steps=jnp.sum(batch.env_steps))


def masked_mean(values: Array, mask: Array) -> Array:
    """Mean over True entries, 0 when there are none."""
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


class LossParts(NamedTuple):
    objective: Array
    value_loss: Array
    entropy: Array


def outputs_on(learner: Learner, params: PyTree, batch: Experience) -> distributions.PolicyOutput:
    """The action distributions of params on every decision of a batch [G, E, T, Q, ...], grouped by code."""

    def group(code: Array, observation: Array, legal: Array) -> distributions.PolicyOutput:
        phi = learner.policy(params, code)
        run = jax.vmap(jax.vmap(jax.vmap(lambda seen, may: learner.apply(phi, seen, may))))
        return run(observation, legal)

    return jax.vmap(group)(batch.code, batch.observation, batch.legal)


def policy_gradient_loss(
    params: PyTree,
    batch: Experience,
    learner: Learner,
    surrogate: Surrogate,
    clip: ArrayLike,
    value_weight: ArrayLike,
    entropy_weight: ArrayLike,
) -> tuple[Array, LossParts]:
    """-E[surrogate] + value_weight * squared value error - entropy_weight * entropy, over decisions."""
    outputs = outputs_on(learner, params, batch)
    over = lambda function: jax.vmap(jax.vmap(jax.vmap(jax.vmap(function))))  # noqa: E731
    log_prob = over(distributions.log_prob)(outputs, batch.action)
    objective = masked_mean(surrogate(log_prob, batch.log_prob, batch.advantage, clip), batch.acted)
    spread = masked_mean(over(distributions.entropy)(outputs), batch.acted)

    def values(code: Array, observation: Array) -> Array:
        return jax.vmap(jax.vmap(jax.vmap(lambda seen: learner.value(params, code, seen))))(observation)

    error = jax.vmap(values)(batch.code, batch.observation) - batch.target
    value_loss = masked_mean(error**2, batch.acted)
    loss = -objective + value_weight * value_loss - entropy_weight * spread
    return loss, LossParts(objective, value_loss, spread)


def make_optimizer(gradient_clip: ArrayLike) -> optax.GradientTransformation:
    """Global-norm clipping and Adam; the learning rate is applied by `train`, where it may be traced."""
    return optax.chain(optax.clip_by_global_norm(gradient_clip), optax.scale_by_adam())


class TrainMetrics(NamedTuple):
    """Of the last gradient step, but for the counts, which are of the whole training."""

    objective: Array
    value_loss: Array
    entropy: Array
    penalty: Array
    gradient_norm: Array
    episodes: Array
    env_steps: Array


Penalty = Callable[[PyTree, list[Experience], Array], Array]  # (params, batches, key) -> [], to be minimised


def no_penalty(params: PyTree, batches: list[Experience], key: Array) -> Array:
    del params, batches, key
    return jnp.float32(0.0)


def train(
    key: Array,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    *,
    experience: Callable[[Array, PyTree], list[Experience]],
    learner: Learner,
    surrogate: Surrogate,
    penalty: Penalty = no_penalty,
    steps: int,
    epochs: int,
    learning_rate: dict[str, ArrayLike],
    gradient_clip: ArrayLike,
    clip: ArrayLike,
    value_weight: ArrayLike,
    entropy_weight: ArrayLike,
    normalise: bool = False,
) -> tuple[dict[str, PyTree], dict[str, PyTree], TrainMetrics]:
    """`steps` rounds of fresh experience, `epochs` gradient steps on each. key: consumed.

    params, opt_state and learning_rate are dicts by part (an actor and a critic): each part has its own optimizer and
    its own gradient clipping, so that a large value error cannot shrink the policy's step. `experience(key, params)`
    returns one batch per player that is drawn from the population being trained.
    """
    optimizer = make_optimizer(gradient_clip)

    def loss(params: PyTree, batches: list[Experience], penalty_key: Array) -> tuple[Array, tuple[LossParts, Array]]:
        parts = [
            policy_gradient_loss(params, batch, learner, surrogate, clip, value_weight, entropy_weight)
            for batch in batches
        ]
        extra = penalty(params, batches, penalty_key)
        mean = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves)), *[p for _, p in parts])
        return jnp.mean(jnp.stack([one for one, _ in parts])) + extra, (mean, extra)

    def update(carry: tuple, penalty_key: Array, batches: list[Experience]) -> tuple[tuple, tuple]:
        params, opt_state = carry
        gradients, (parts, extra) = jax.grad(loss, has_aux=True)(params, batches, penalty_key)
        new_params, new_opt_state = {}, {}
        for name in params:
            updates, new_opt_state[name] = optimizer.update(gradients[name], opt_state[name])
            scaled = jax.tree.map(lambda u, rate=learning_rate[name]: -rate * u, updates)
            new_params[name] = optax.apply_updates(params[name], scaled)
        return (new_params, new_opt_state), (parts, extra, optax.tree.norm(gradients))

    def step(carry: tuple, step_key: Array) -> tuple[tuple, TrainMetrics]:
        key_play, key_penalty = jax.random.split(step_key)
        batches = experience(key_play, carry[0])
        if normalise:
            batches = [_normalised(batch) for batch in batches]
        carry, (parts, extra, norm) = jax.lax.scan(
            lambda c, k: update(c, k, batches), carry, jax.random.split(key_penalty, epochs)
        )
        parts, extra, norm = jax.tree.map(lambda leaf: leaf[-1], (parts, extra, norm))
        played = sum(batch.acted.shape[0] * batch.acted.shape[1] for batch in batches)
        taken = jnp.sum(jnp.stack([batch.env_steps for batch in batches]))
        return carry, TrainMetrics(
            parts.objective, parts.value_loss, parts.entropy, extra, norm, jnp.int32(played), taken
        )

    if steps == 0:
        zero = jnp.float32(0.0)
        return params, opt_state, TrainMetrics(zero, zero, zero, zero, zero, jnp.int32(0), jnp.int32(0))
    (params, opt_state), rows = jax.lax.scan(step, (params, opt_state), jax.random.split(key, steps))
    last = jax.tree.map(lambda leaf: leaf[-1], rows)
    return params, opt_state, last._replace(episodes=rows.episodes.sum(), env_steps=rows.env_steps.sum())


def _normalised(batch: Experience) -> Experience:
    mean = masked_mean(batch.advantage, batch.acted)
    deviation = jnp.sqrt(masked_mean((batch.advantage - mean) ** 2, batch.acted))
    return dataclasses.replace(batch, advantage=(batch.advantage - mean) / (deviation + 1e-6))


__all__ = [
    "SURROGATES", "Experience", "Learner", "a2c_surrogate", "collect", "gae", "make_optimizer", "masked_mean",
    "no_penalty", "outputs_on", "own_part", "ppo_surrogate", "train",
]  # fmt: skip
