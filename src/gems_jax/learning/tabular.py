"""Experience of a tabular policy by its sufficient statistics.

A policy with one row of logits per information set acts identically wherever it sees the same, so what a gradient step
learns from many episodes depends on sums per information set and action alone. `TabularStatistics` holds these: loss
and gradient are those of the rows it was made of, at the cost of a table instead of a batch.

Arrays have actions first and cells, the information sets of all codes, last: XLA's CPU kernels take several times as
long where the last axis is as short as the actions of poker.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.learning.batches import Batch, Experience, Learner, LossParts, Surrogate, table_of, values_of_table
from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Array, PyTree, Struct


class TabularStatistics(Struct):
    """What one player saw and did: G codes, A actions, and X = G I cells, an information set of a code each."""

    code: Array  # [G, D]
    visits: Array  # [X], decisions
    log_prob: Array  # [A, X], of the policy that played
    gain: Array  # [A, X], sum of the advantages above zero
    loss: Array  # [A, X], minus the sum of those below
    target: Array  # [X], sum of the critic's targets
    squared: Array  # [], sum of their squares

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        """By sums: a surrogate is proportional to the advantage, and a squared error expands into sums."""
        count = jnp.maximum(jnp.sum(self.visits), 1)
        log_prob = self.behaviour(learner, params)
        one = jnp.ones_like(log_prob)
        gained = self.gain * surrogate(log_prob, self.log_prob, one, clip)
        lost = self.loss * surrogate(log_prob, self.log_prob, -one, clip)
        value = values_of_table(learner, params, self.code, _table(learner)).reshape(-1)
        squares = jnp.sum(self.visits * value**2 - 2.0 * self.target * value) + self.squared
        spread = jnp.sum(self.visits * entropy_of_cells(log_prob))
        return LossParts(jnp.sum(gained + lost) / count, squares / count, spread / count)

    def behaviour(self, learner: Learner, params: PyTree) -> Array:
        """log pi(a) [A, X] in every cell."""
        return log_probs(learner, params, self.code)

    def uniform_behaviour(self, learner: Learner, behaviour: PyTree) -> Array:
        del behaviour
        logits = jnp.zeros(_table(learner).legal.shape)
        return log_probs(learner._replace(policy=lambda params, code: logits), None, self.code)

    def kl_per_code(self, left: Array, right: Array) -> Array:
        visits = self.visits.reshape(len(self.code), -1)
        total = jnp.sum(visits * kl_of_cells(left, right).reshape(visits.shape), axis=1)
        return total / jnp.maximum(visits.sum(axis=1), 1)


def summarize(learner: Learner, params: PyTree, batch: Experience) -> Batch:
    """Sums a batch that `params` played themselves; the batch itself where its statistics would not be smaller."""
    table = table_of(learner, batch.acted.shape[1])
    if table is None or batch.row is None:
        return batch
    cells, actions = len(batch.code) * table.legal.shape[0], table.legal.shape[1]
    first = jnp.arange(len(batch.code))[:, None] * table.legal.shape[0]  # cell of each code
    cell = (batch.action * cells + first + batch.row).reshape(-1)
    target, advantage = (jnp.where(batch.acted, x, 0.0) for x in (batch.target, batch.advantage))
    rows = (batch.acted.astype(jnp.float32), target, jnp.maximum(advantage, 0.0), jnp.maximum(-advantage, 0.0))
    sums = jax.ops.segment_sum(jnp.stack(rows, axis=-1).reshape(-1, len(rows)), cell, actions * cells)
    visits, targets, gain, loss = jnp.moveaxis(sums.reshape(actions, cells, len(rows)), 2, 0)
    return TabularStatistics(
        code=batch.code,
        visits=visits.sum(axis=0),
        log_prob=log_probs(learner, params, batch.code),
        gain=gain,
        loss=loss,
        target=targets.sum(axis=0),
        squared=jnp.sum(target**2),
    )


def log_probs(learner: Learner, params: PyTree, codes: Array) -> Array:
    """Evaluates log pi(a) [A, X] of a tabular learner's policies in every row of their table."""
    logits = jnp.moveaxis(jax.vmap(lambda code: learner.policy(params, code))(codes), 2, 0)  # [A, G, I]
    legal = jnp.broadcast_to(_table(learner).legal.T[:, None], logits.shape)
    return jax.nn.log_softmax(distributions.mask_logits(logits, legal).reshape(len(logits), -1), axis=0)


def kl_of_cells(left: Array, right: Array) -> Array:
    """KL(left || right) [X] of two sets of policies by their log pi [A, X]."""
    return jnp.sum(jnp.exp(left) * (left - right), axis=0)


def entropy_of_cells(log_prob: Array) -> Array:
    """Entropy [X] by log pi [A, X]; an illegal action has probability 0 and a finite logarithm."""
    return -jnp.sum(jnp.exp(log_prob) * log_prob, axis=0)


def _table(learner: Learner) -> TabularPolicy:
    assert isinstance(learner.apply, TabularPolicy)  # only its learners have statistics
    return learner.apply
