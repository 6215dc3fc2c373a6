"""Trust regions: policies stay close to what they were, measured on states of their own play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.learning.batches import Batch, Experience, Learner
from gems_jax.learning.tabular import summarize
from gems_jax.types import Array, PyTree


class TrustRegion(NamedTuple):
    """The frozen policies of K codes, and what they do on states of their own play."""

    frozen: PyTree  # parameters of the learner
    batches: list[Batch]  # one per player that shares the population
    behaviour: list[PyTree]  # of `frozen` on these
    protected: Array  # [K] bool, codes that must not drift

    def divergence(self, learner: Learner, params: PyTree) -> Array:
        """KL(params || frozen) [K] on the region's own states."""
        return _kl_to_behaviour(learner, params, self.batches, self.behaviour)

    def divergence_on(self, learner: Learner, params: PyTree, batches: Sequence[Batch]) -> Array:
        """KL(params || frozen) [G] on the states of other batches."""
        frozen = [batch.behaviour(learner, self.frozen) for batch in batches]
        return _kl_to_behaviour(learner, params, batches, frozen)


def make_trust_region(learner: Learner, frozen: PyTree, batches: Sequence[Experience], protected: Array) -> TrustRegion:
    """Records what `frozen` does on batches that it played itself."""
    summaries = [summarize(learner, frozen, batch) for batch in batches]
    return TrustRegion(frozen, summaries, [batch.behaviour(learner, frozen) for batch in summaries], protected)


def _kl_to_behaviour(learner: Learner, params: PyTree, batches: Sequence[Batch], behaviour: Sequence[PyTree]) -> Array:
    """KL(params || behaviour) [G], the mean over each code's decisions, averaged over batches."""
    rows = [
        batch.kl_per_code(batch.behaviour(learner, params), then)
        for batch, then in zip(batches, behaviour, strict=True)
    ]
    return jnp.mean(jnp.stack(rows), axis=0)
