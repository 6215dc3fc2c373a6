"""What an iteration of an explicit-population method cost, and what it holds."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.types import Array, Struct

Count = int | Array  # arrays in compiled steps


class Cost(NamedTuple):
    """Counts, which are summed on the host where steps run in Python."""

    episodes: Count = 0
    env_steps: Count = 0
    gradient_steps: Count = 0
    tree_walks: Count = 0  # exact evaluations of a policy or of a best response
    training_steps: Count = 0  # of env_steps, those that were learned from

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + yours for mine, yours in zip(self, other, strict=True)))


class ExplicitMetrics(Struct):
    """One iteration of an explicit-population method. Bytes are those of the arrays held after it."""

    num_active: Array  # [P] int32, policies per population
    restricted_gap: Array  # [] float32, what players could gain inside the meta-game; NaN-free: 0 without a table
    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    gradient_steps: Array  # [] int32
    tree_walks: Array  # [] int32
    parameter_bytes: Array  # [] float32, of the policies
    payoff_bytes: Array  # [] float32, of the payoff table
    meta_bytes: Array  # [] float32, of mixtures and whatever else the meta-solver keeps


def explicit_metrics(
    cost: Cost,
    active: Array,
    *,
    parameter_bytes: float,
    payoff_bytes: float = 0.0,
    meta_bytes: float = 0.0,
    restricted_gap: Array | float = 0.0,
) -> ExplicitMetrics:
    """The metrics of an iteration, from its cost and the sizes of what it holds."""
    return ExplicitMetrics(
        num_active=jnp.sum(active, axis=1, dtype=jnp.int32),
        restricted_gap=jnp.float32(restricted_gap),
        episodes=jnp.int32(cost.episodes),
        env_steps=jnp.int32(cost.env_steps),
        gradient_steps=jnp.int32(cost.gradient_steps),
        tree_walks=jnp.int32(cost.tree_walks),
        parameter_bytes=jnp.float32(parameter_bytes),
        payoff_bytes=jnp.float32(payoff_bytes),
        meta_bytes=jnp.float32(meta_bytes),
    )
