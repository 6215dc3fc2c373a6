"""Batches for gradient steps: rows of experience, and the interface of every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Apply, Array, PolicyOutput, PyTree, Struct

# A surrogate maps (log_prob, behavior_log_prob, advantage, clip) to an objective per decision, to be maximized. It is
# proportional to the advantage on either side of zero.
Surrogate = Callable[[Array, Array, Array, ArrayLike], Array]


class Learner(NamedTuple):
    """Functions by which the trainer evaluates policies and the critic of trainable parameters."""

    policy: Callable[[PyTree, Array], PyTree]  # (params, code [D]) -> policy parameters
    value: Callable[[PyTree, Array, Array], Array]  # (params, code [D], observation) -> V [], or Q [A] of all actions
    apply: Apply  # runs the policy on its parameters


class LossParts(NamedTuple):
    """Parts of a policy-gradient loss: means over the decisions of a batch, [] each."""

    objective: Array  # mean of the surrogate, to be maximized
    value_loss: Array  # mean squared error of the critic
    entropy: Array


class Batch(Protocol):
    """Decisions of G codes: rows (`Experience`), or sums over rows (`TabularStatistics`)."""

    @property
    def code(self) -> Array:
        """Latent codes, [G, D]."""
        ...

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        """Evaluates the parts of a policy-gradient loss.

        Args:
          learner: evaluates the policies and the critic.
          params: trainable parameters of the learner.
          surrogate: objective per decision.
          clip: clipping range of the surrogate, [].

        Returns:
          Means over decisions.
        """
        ...

    def behavior(self, learner: Learner, params: PyTree) -> PyTree:
        """Evaluates the policies of `params` on the batch; the result is an argument of `kl_per_code`."""
        ...

    def uniform_behavior(self, learner: Learner, behavior: PyTree) -> PyTree:
        """Makes the behavior of uniform play on the batch, with the structure of `behavior`."""
        ...

    def kl_per_code(self, left: PyTree, right: PyTree) -> Array:
        """Computes KL(left || right) [G] of two behaviors, the mean over the decisions of each code."""
        ...


class Experience(Struct):
    """Experience of one player: G codes with E episodes each, and R rows per code, one per step and seat of the player.

    Rows are one axis: XLA's CPU kernels take several times as long for an array of seven axes.
    """

    code: Array  # [G, D]
    observation: Array  # [G, R, *obs]
    legal: Array  # [G, R, A]
    action: Array  # [G, R, ...]
    log_prob: Array  # [G, R], or [G, R, A] of all actions
    acted: Array  # [G, R] bool, decisions to learn from
    advantage: Array  # [G, R] of the action taken, or weights of all actions [G, R, A] (`doubly_robust_weights`)
    target: Array  # [G, R], targets of the critic
    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    earned: Array  # [G, E], sum of the player's rewards, in units of the scaled return
    faced: Array  # [G, E, players], slots of the other players' policies
    row: Array | None = None  # [G, R] int32, row of a tabular policy's table

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        outputs = self.behavior(learner, params)
        if self.advantage.ndim == self.acted.ndim:
            log_prob = map_rows(distributions.log_prob)(outputs, self.action)
            gained = surrogate(log_prob, self.log_prob, self.advantage, clip)
        else:
            assert outputs.logits is not None  # only discrete actions have weights
            log_prob = jnp.where(self.legal, jax.nn.log_softmax(outputs.logits), 0.0)
            gained = jnp.sum(surrogate(log_prob, self.log_prob, self.advantage, clip), axis=-1)
        objective = masked_mean(gained, self.acted)
        value = select_taken(evaluate_critic(learner, params, self.code, self.observation), self.action, 2)
        error = value - self.target
        spread = masked_mean(map_rows(distributions.action_entropy)(outputs), self.acted)
        return LossParts(objective, masked_mean(error**2, self.acted), spread)

    def behavior(self, learner: Learner, params: PyTree) -> PolicyOutput:
        """Evaluates the action distributions [G, R, ...] of `params` on every row."""
        return evaluate_policies(learner, params, self.code, self.observation, self.legal)

    def uniform_behavior(self, learner: Learner, behavior: PyTree) -> PolicyOutput:
        del learner
        return map_rows(distributions.uniform_like)(behavior, self.legal)

    def kl_per_code(self, left: PyTree, right: PyTree) -> Array:
        return jax.vmap(masked_mean)(map_rows(distributions.action_kl)(left, right), self.acted)

    def normalize_advantages(self) -> Experience:
        """Shifts and scales the advantages of the decisions to mean 0 and standard deviation 1.

        Weights of all actions are scaled to a mean squared norm of 1. A shift of Q does not change them.
        """
        if self.advantage.ndim > self.acted.ndim:
            norm = jnp.sqrt(masked_mean(jnp.sum(self.advantage**2, axis=-1), self.acted))
            return self.replace(advantage=self.advantage / (norm + 1e-6))
        mean = masked_mean(self.advantage, self.acted)
        deviation = jnp.sqrt(masked_mean((self.advantage - mean) ** 2, self.acted))
        return self.replace(advantage=(self.advantage - mean) / (deviation + 1e-6))


def masked_mean(values: Array, mask: Array) -> Array:
    """Averages values over the True entries of a mask of the same shape; 0 if there are none."""
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def map_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Maps a function of one row over all rows [G, R, ...] of a batch."""
    return jax.vmap(jax.vmap(function))


def mean_loss_parts(
    learner: Learner, params: PyTree, batches: Sequence[Batch], surrogate: Surrogate, clip: ArrayLike
) -> LossParts:
    """Averages the parts of the loss over batches; see `Batch.loss_parts`."""
    parts = [batch.loss_parts(learner, params, surrogate, clip) for batch in batches]
    return jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves)), *parts)


def evaluate_policies(learner: Learner, params: PyTree, codes: Array, observation: Array, legal: Array) -> PolicyOutput:
    """Evaluates the policies of codes [G, D] on rows: observations [G, R, *obs] and legal actions [G, R, A].

    Args:
      learner: evaluates the policies.
      params: trainable parameters of the learner.
      codes: [G, D].
      observation: [G, R, *obs].
      legal: [G, R, A].

    Returns:
      Action distributions, [G, R, ...].
    """

    def group(code: Array, observation: Array, legal: Array) -> PolicyOutput:
        phi = learner.policy(params, code)
        return jax.vmap(lambda seen, may: learner.apply(phi, seen, may))(observation, legal)

    rows = (codes, observation, legal)
    if len(codes) == 1:  # without an axis of codes: XLA transposes before a sum over two axes in the gradient
        return jax.tree.map(lambda leaf: leaf[None], group(*(leaf[0] for leaf in rows)))
    return jax.vmap(group)(*rows)


def evaluate_critic(learner: Learner, params: PyTree, codes: Array, observation: Array, rank: int = 2) -> Array:
    """Evaluates the critic on observations, each with its code.

    Args:
      learner: evaluates the critic.
      params: trainable parameters of the learner.
      codes: [G, D].
      observation: [G, ..., *obs].
      rank: number of axes before those of an observation, G among them.

    Returns:
      Values, [G, ...] of rank `rank`, or action values, [G, ..., A].
    """
    shape = observation.shape[:rank]
    rows = observation.reshape(len(codes), -1, *observation.shape[rank:])
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    found = jax.vmap(of_code, in_axes=(None, 0, 0))(params, codes, rows)
    return found.reshape(*shape, *found.shape[2:])


def evaluate_critic_on_table(learner: Learner, params: PyTree, codes: Array, table: TabularPolicy) -> Array:
    """Evaluates the critic of every code on all I rows of a table: values [G, I], or action values [G, I, A]."""
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    return jax.vmap(of_code, in_axes=(None, 0, None))(params, codes, jnp.asarray(table.observations))


def select_taken(found: Array, action: Array, rank: int) -> Array:
    """Selects the action values of the actions that were taken; values are returned unchanged.

    Args:
      found: outputs of a critic, values [...] of rank `rank` or action values [..., A].
      action: [...] int32; not read for values.
      rank: number of axes of the rows.

    Returns:
      One value per row, [...].
    """
    if found.ndim == rank:
        return found
    taken = jax.nn.one_hot(action, found.shape[-1], dtype=bool)  # the gradient of a look-up would be a slow scatter
    return jnp.sum(jnp.where(taken, found, 0.0), axis=-1)


def choose_table(learner: Learner, rows: int) -> TabularPolicy | None:
    """Returns the table of a tabular learner if it has fewer than `rows` rows, the experience per code; else None."""
    table = learner.apply
    return table if isinstance(table, TabularPolicy) and table.distinct and len(table.legal) < rows else None
