"""Experience of a tabular policy by its sufficient statistics.

A policy with one row of logits per information set does the same wherever it sees the same, so what a gradient step
learns from many episodes depends on sums per information set and action alone. A `Tally` holds these: loss and
gradient are those of the rows it was made of, at the cost of a table instead of a batch.

Arrays have actions first and cells, the information sets of all codes, last: XLA's CPU kernels take several times as
long where the last axis is as short as the actions of poker.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.learning.batches import Experience, Learner, table_of
from gems_jax.policies import distributions
from gems_jax.types import Array, PyTree, Struct


class Tally(Struct):
    """What one player saw and did: G codes, A actions, and X = G I cells, an information set of a code each."""

    code: Array  # [G, D]
    visits: Array  # [X], decisions
    log_prob: Array  # [A, X], of the policy that played
    gain: Array  # [A, X], sum of the advantages above zero
    loss: Array  # [A, X], minus the sum of those below
    target: Array  # [X], sum of the critic's targets
    squared: Array  # [], sum of their squares


def tally(learner: Learner, params: PyTree, batch: Experience) -> Experience | Tally:
    """The tally of a batch that `params` played themselves; the batch itself where a tally would not be smaller."""
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
    return Tally(
        code=batch.code,
        visits=visits.sum(axis=0),
        log_prob=log_probs(learner, params, batch.code),
        gain=gain,
        loss=loss,
        target=targets.sum(axis=0),
        squared=jnp.sum(target**2),
    )


def log_probs(learner: Learner, params: PyTree, codes: Array) -> Array:
    """log pi(a) [A, X] of a tabular learner's policies in every row of their table."""
    logits = jnp.moveaxis(jax.vmap(lambda code: learner.policy(params, code))(codes), 2, 0)  # [A, G, I]
    legal = jnp.broadcast_to(learner.apply.legal.T[:, None], logits.shape)  # type: ignore[attr-defined]
    return jax.nn.log_softmax(distributions.mask_logits(logits, legal).reshape(len(logits), -1), axis=0)


def kl(left: Array, right: Array) -> Array:
    """KL(left || right) [X] of two sets of policies by their log pi [A, X]."""
    return jnp.sum(jnp.exp(left) * (left - right), axis=0)


def entropy(log_prob: Array) -> Array:
    """[X], of log pi [A, X]; an illegal action has probability 0 and a finite logarithm."""
    return -jnp.sum(jnp.exp(log_prob) * log_prob, axis=0)
