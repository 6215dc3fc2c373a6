"""Greedy play of a mixture: the most probable action instead of a random one."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from gems_jax.policies.distributions import mask_logits
from gems_jax.policies.population import StackedPolicies, materialize
from gems_jax.types import Apply, Array, PolicyOutput, Profile, PyTree

_NARROW = -20.0  # log-deviation of continuous actions, which is far below a float's resolution of the action


@dataclasses.dataclass(frozen=True)
class GreedyPlay:
    """Plays the most probable action of a policy, uniformly among equally probable ones, or the mean."""

    network: Apply

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        found = self.network(phi, observation, legal)
        if found.logits is None:
            assert found.mean is not None
            return PolicyOutput(mean=found.mean, log_std=jnp.full_like(found.mean, _NARROW))
        best = legal & (found.logits >= jnp.max(jnp.where(legal, found.logits, -jnp.inf)))
        return PolicyOutput(logits=mask_logits(jnp.zeros_like(found.logits), best))


def greedy_profile(profile: Profile) -> Profile:
    """Makes the profile whose policies play greedily. The policy of an episode is still drawn from sigma.

    Args:
      profile: the mixtures, sigma [P, K].

    Returns:
      The same mixtures of greedy policies.
    """
    stacked = materialize(profile.population, profile.sigma.shape[1])
    return Profile(StackedPolicies(stacked.params, GreedyPlay(stacked.apply)), profile.sigma)
