"""A diversity bonus: a response earns more where it acts unlike the policies that its population holds already.

    bonus = E over states of play, j ~ sigma [1 - exp(-KL(pi || pi_j))],   in [0, 1)

where sigma is the population's own mixture. Policies are compared as in the policy-space diversity of Yao et al. 2023,
which takes the least distance to the mixtures of the population; the mean over a few draws, bounded so that
deterministic policies are not infinitely far from one another, is this project's.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.ppo import Batch, Penalty, masked_mean, outputs_on, over_rows
from gems_jax.policies import distributions
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Array, PyTree

_DRAWS = 4  # policies of the population that a gradient step compares with


def difference(left: distributions.PolicyOutput, right: distributions.PolicyOutput) -> Array:
    """1 - exp(-KL(left || right)), [], of two action distributions."""
    return 1.0 - jnp.exp(-distributions.kl(left, right))


def sameness(learner: Learner, held: StackedPolicies, sigma: Array, weight: ArrayLike) -> Penalty:
    """The bonus as a penalty. The learner's population holds [K, ...] policies and plays sigma [K]."""

    def of_batch(params: PyTree, batch: Batch, slots: Array) -> Array:
        assert isinstance(batch, Experience)  # rows: a tally does not say what others would do on it
        mine = outputs_on(learner, params, batch)

        def unlike(slot: Array) -> Array:
            other = held.select(slot)
            theirs = over_rows(lambda seen, may: held.apply(other, seen, may))(batch.observation, batch.legal)
            return masked_mean(over_rows(difference)(mine, theirs), batch.acted)

        return jax.vmap(unlike)(slots).mean()

    def penalty(params: PyTree, batches: Sequence[Batch], key: Array) -> Array:
        slots = jax.random.categorical(key, jnp.log(sigma), shape=(_DRAWS,))
        return -jnp.asarray(weight) * jnp.mean(jnp.stack([of_batch(params, batch, slots) for batch in batches]))

    return penalty
