"""Fixed policies as mixtures, to measure them as trained mixtures are measured."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Apply, Array, Game, Policy, PolicyOutput, Profile, PyTree, expect, num_populations


@dataclasses.dataclass(frozen=True)
class _IgnoreSlot:
    """Applies a policy without parameters; `phi` is a placeholder that carries the axes of a stack."""

    policy: Apply

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        return self.policy((), observation, legal)


def fixed_profile(game: Game, policy: Policy) -> Profile:
    """Makes the profile in which every player plays one fixed policy.

    Args:
      game: the game.
      policy: a policy without parameters, such as those of `opponents_of`.

    Returns:
      One slot per population, [P, 1].

    Raises:
      ValueError: if the policy has parameters.
    """
    expect(
        not jax.tree.leaves(policy.params), "fixed_profile: expected a policy without parameters. Use StackedPolicies."
    )
    populations = num_populations(game)
    return Profile(
        StackedPolicies(jnp.zeros((populations, 1, 1)), _IgnoreSlot(policy.apply)), jnp.ones((populations, 1))
    )
