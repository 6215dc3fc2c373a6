"""Greedy play of a mixture: the most probable action instead of a random one."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Apply, Array, PolicyOutput, Population, Profile, PyTree, Struct

_NARROW = -20.0  # log-deviation of continuous actions, far below the resolution of a float


@dataclasses.dataclass(frozen=True)
class GreedyPlay:
    """Plays the most probable action of a policy, uniformly among equally probable ones, or the mean.

    Args:
      network: applies the policy.
    """

    network: Apply

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        found = self.network(phi, observation, legal)
        if found.logits is None:
            assert found.mean is not None
            return PolicyOutput(mean=found.mean, log_std=jnp.full_like(found.mean, _NARROW))
        best = legal & (found.logits >= jnp.max(jnp.where(legal, found.logits, -jnp.inf)))
        return PolicyOutput(logits=mask_logits(jnp.zeros_like(found.logits), best))


class GreedyPopulation(Struct):
    """Policies of another population, played greedily."""

    population: Population

    @property
    def apply(self) -> Apply:
        return GreedyPlay(self.population.apply)

    def select(self, index: Array) -> PyTree:
        return self.population.select(index)


def greedy_profile(profile: Profile) -> Profile:
    """Makes the profile whose policies play greedily. The policy of an episode is still drawn from sigma.

    Args:
      profile: the mixtures, sigma [P, K].

    Returns:
      The mixtures of greedy policies, with the same sigma.
    """
    return Profile(GreedyPopulation(profile.population), profile.sigma)
