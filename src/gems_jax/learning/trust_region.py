"""Trust regions: the KL divergence of policies from a frozen copy, measured on states of their own play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.learning.batches import Batch, Experience, Learner
from gems_jax.learning.tabular import summarize
from gems_jax.types import Array, PyTree


class TrustRegion(NamedTuple):
    """The frozen policies of K codes, and their behavior on states of their own play."""

    frozen: PyTree  # parameters theta^- of the learner
    batches: list[Batch]  # one per player of the population
    behavior: list[PyTree]  # behavior of `frozen` on the batches
    protected: Array  # [K] bool, codes that must not drift

    def divergence(self, learner: Learner, params: PyTree) -> Array:
        """Computes KL(pi_{G_theta(z)} || pi_{G_theta^-(z)}) [K] of eq:abr-tr_revised on the region's own states.

        Args:
          learner: evaluates the policies.
          params: parameters theta.

        Returns:
          KL of every code, the mean over its decisions, [K].
        """
        return _kl_to_behavior(learner, params, self.batches, self.behavior)

    def divergence_on(self, learner: Learner, params: PyTree, batches: Sequence[Batch]) -> Array:
        """Computes KL(pi_{G_theta(z)} || pi_{G_theta^-(z)}) [G] of eq:abr-tr_revised on the states of other batches.

        Args:
          learner: evaluates the policies.
          params: parameters theta.
          batches: experience of G codes, one batch per player of the population.

        Returns:
          KL of every code, the mean over its decisions, [G].
        """
        frozen = [batch.behavior(learner, self.frozen) for batch in batches]
        return _kl_to_behavior(learner, params, batches, frozen)


def make_trust_region(learner: Learner, frozen: PyTree, batches: Sequence[Experience], protected: Array) -> TrustRegion:
    """Makes a trust region around frozen parameters.

    Args:
      learner: evaluates the policies.
      frozen: parameters theta^-.
      batches: experience that `frozen` played, one batch per player of the population.
      protected: codes that must not drift, [K] bool.

    Returns:
      The trust region.
    """
    summaries = [summarize(learner, frozen, batch) for batch in batches]
    return TrustRegion(frozen, summaries, [batch.behavior(learner, frozen) for batch in summaries], protected)


def _kl_to_behavior(learner: Learner, params: PyTree, batches: Sequence[Batch], behavior: Sequence[PyTree]) -> Array:
    """KL(params || behavior) [G], the mean over each code's decisions, averaged over batches."""
    rows = [
        batch.kl_per_code(batch.behavior(learner, params), then) for batch, then in zip(batches, behavior, strict=True)
    ]
    return jnp.mean(jnp.stack(rows), axis=0)
