"""Sufficient statistics of the experience of a tabular policy.

A policy with one row of logits per information set acts identically on identical observations, so a gradient step on
many episodes depends on sums per information set and action only. `TabularStatistics` holds these sums: loss and
gradient are those of the summed rows, at the cost of a table instead of a batch.

Arrays have actions first and cells, the information sets of all codes, last: XLA's CPU kernels take several times as
long if the last axis is as short as the actions of poker.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.learning.batches import (
    Batch,
    Experience,
    Learner,
    LossParts,
    Surrogate,
    choose_table,
    evaluate_critic_on_table,
)
from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Array, PyTree, Struct


class TabularStatistics(Struct):
    """Summed experience of one player: G codes, A actions, and X = G I cells, each an information set of a code."""

    code: Array  # [G, D]
    taken: Array  # [A, X], number of decisions for each action
    log_prob: Array  # [A, X], of the policy that played
    gain: Array  # [A, X], sum of the positive advantages, or weights, of each action
    loss: Array  # [A, X], minus the sum of the negative ones
    target: Array  # [A, X], sum of the critic's targets
    squared: Array  # [], sum of the squared targets

    @property
    def visits(self) -> Array:
        """Number of decisions [X] in every cell."""
        return self.taken.sum(axis=0)

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        """Evaluates the loss from sums: surrogates are proportional to the advantage, and squared errors expand."""
        visits = self.visits
        count = jnp.maximum(jnp.sum(visits), 1)
        log_prob = self.behavior(learner, params)
        one = jnp.ones_like(log_prob)
        gained = self.gain * surrogate(log_prob, self.log_prob, one, clip)
        lost = self.loss * surrogate(log_prob, self.log_prob, -one, clip)
        value = evaluate_critic_on_table(learner, params, self.code, _table(learner))
        if value.ndim == 2:
            value, number, target = value.reshape(-1), visits, self.target.sum(axis=0)
        else:
            value, number, target = actions_first(value), self.taken, self.target
        squares = jnp.sum(number * value**2 - 2.0 * target * value) + self.squared
        spread = jnp.sum(visits * entropy_of_cells(log_prob))
        return LossParts(jnp.sum(gained + lost) / count, squares / count, spread / count)

    def behavior(self, learner: Learner, params: PyTree) -> Array:
        """Evaluates log pi(a) [A, X] in every cell."""
        return log_probs(learner, params, self.code)

    def uniform_behavior(self, learner: Learner, behavior: PyTree) -> Array:
        del behavior
        logits = jnp.zeros(_table(learner).legal.shape)
        return log_probs(learner._replace(policy=lambda params, code: logits), None, self.code)

    def kl_per_code(self, left: Array, right: Array) -> Array:
        visits = self.visits.reshape(len(self.code), -1)
        total = jnp.sum(visits * kl_of_cells(left, right).reshape(visits.shape), axis=1)
        return total / jnp.maximum(visits.sum(axis=1), 1)


def summarize(learner: Learner, params: PyTree, batch: Experience) -> Batch:
    """Sums a batch to its statistics if these are smaller; otherwise returns the batch itself.

    Args:
      learner: evaluates the policies.
      params: parameters that played the batch.
      batch: rows of experience.

    Returns:
      `TabularStatistics`, or `batch`.
    """
    table = choose_table(learner, batch.acted.shape[1])
    if table is None or batch.row is None:
        return batch
    cells, actions = len(batch.code) * table.legal.shape[0], table.legal.shape[1]
    first = jnp.arange(len(batch.code))[:, None] * table.legal.shape[0]  # cell of each code
    cell = (batch.action * cells + first + batch.row).reshape(-1)
    weighted = batch.advantage.ndim > batch.acted.ndim  # weights of all actions
    target, acted = jnp.where(batch.acted, batch.target, 0.0), batch.acted.astype(jnp.float32)
    advantage = jnp.where(batch.acted[..., None] if weighted else batch.acted, batch.advantage, 0.0)
    signs = jnp.maximum(advantage, 0.0), jnp.maximum(-advantage, 0.0)
    rows = (acted, target) if weighted else (acted, target, *signs)
    sums = jax.ops.segment_sum(jnp.stack(rows, axis=-1).reshape(-1, len(rows)), cell, actions * cells)
    taken, targets, *split = jnp.moveaxis(sums.reshape(actions, cells, len(rows)), 2, 0)
    gain, loss = [sum_by_cell(weights, first + batch.row, cells) for weights in signs] if weighted else split
    return TabularStatistics(
        code=batch.code,
        taken=taken,
        log_prob=log_probs(learner, params, batch.code),
        gain=gain,
        loss=loss,
        target=targets,
        squared=jnp.sum(target**2),
    )


def log_probs(learner: Learner, params: PyTree, codes: Array) -> Array:
    """Evaluates log pi(a) [A, X] of a tabular learner's policies, codes [G, D], in every row of their table."""
    logits = jnp.moveaxis(jax.vmap(lambda code: learner.policy(params, code))(codes), 2, 0)  # [A, G, I]
    legal = jnp.broadcast_to(_table(learner).legal.T[:, None], logits.shape)
    return jax.nn.log_softmax(distributions.mask_logits(logits, legal).reshape(len(logits), -1), axis=0)


def sum_by_cell(weights: Array, cell: Array, cells: int) -> Array:
    """Sums weights of all actions [G, R, A] over the rows of each cell [G, R]; returns [A, X]."""
    return jax.ops.segment_sum(weights.reshape(-1, weights.shape[-1]), cell.reshape(-1), cells).T


def actions_first(rows: Array) -> Array:
    """Reshapes numbers per information set and action [G, I, A] to cells [A, X]."""
    return jnp.moveaxis(rows, 2, 0).reshape(rows.shape[2], -1)


def kl_of_cells(left: Array, right: Array) -> Array:
    """Computes KL(left || right) [X] of log pi [A, X] in every cell."""
    return jnp.sum(jnp.exp(left) * (left - right), axis=0)


def entropy_of_cells(log_prob: Array) -> Array:
    """Computes the entropy [X] of log pi [A, X]; illegal actions have probability 0 and a finite logarithm."""
    return -jnp.sum(jnp.exp(log_prob) * log_prob, axis=0)


def _table(learner: Learner) -> TabularPolicy:
    assert isinstance(learner.apply, TabularPolicy)  # only its learners have statistics
    return learner.apply
