"""Populations: policies indexed by slot, behind one method, `select(index) -> policy_params`.

`Anchors` generates its policies from latent codes (GEMS), `StackedPolicies` stores them (the PSRO family, tabular
methods, and policies generated once for a whole phase). Arrays carry a leading axis P in solver states.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from gems_jax.policies.generator import Generator
from gems_jax.types import Apply, Array, Population, PyTree, Struct, stack_policies, static_field, take_slot


class Anchors(Struct):
    """Latent codes Z_t and the generator that turns them into policies: phi_i = G_theta(z_i)."""

    theta: PyTree
    codes: Array  # [K, D]
    temperature: Array | float  # [], divides the logits
    generator: Generator = static_field()

    @property
    def apply(self) -> Apply:
        return self.generator.policy

    def generate(self, z: Array) -> PyTree:
        """Returns the policy parameters of any code z [D]."""
        return self.generator.policy.temper(self.generator(self.theta, z), self.temperature)

    def select(self, index: Array) -> PyTree:
        return self.generate(self.codes[index])


class StackedPolicies(Struct):
    """Explicit policies: row i of every array of `params`. Tabular ones have the logits [K, I, A]."""

    params: PyTree  # [K, ...], but for what is `Shared`
    apply: Apply = static_field()

    def select(self, index: Array) -> PyTree:
        return take_slot(self.params, index)


def materialise(population: Population, num_slots: int) -> StackedPolicies:
    """Generates the parameters of every slot, [P, K, ...], which a phase of rollouts indexes."""
    params = jax.vmap(lambda one: stack_policies(one.select, jnp.arange(num_slots)))(population)
    return StackedPolicies(params, population.apply)


REPLACEMENTS = ("least_mass", "worst_ev")


def choose_slot(active: Array, mass: Array, values: Array, rule: str) -> Array:
    """Returns the slot [] of a new anchor: the first free one; at capacity that of the least mass or worst value."""
    chex.assert_equal_shape([active, mass, values])
    if rule not in REPLACEMENTS:
        raise ValueError(f"unknown replacement rule {rule!r}; known: {', '.join(REPLACEMENTS)}")
    loser = jnp.argmin(mass if rule == "least_mass" else values)
    return jnp.where(jnp.all(active), loser, jnp.argmin(active))
