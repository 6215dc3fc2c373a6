"""Populations: policies indexed by slot, with one method, `select(index) -> policy_params`.

`Anchors` generates its policies from latent codes (GEMS), `StackedPolicies` stores them (the PSRO family, tabular
methods, and policies generated once for a whole phase). Arrays carry a leading axis P in solver states.
"""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp

from gems_jax.policies.generator import Generator
from gems_jax.types import (
    Apply,
    Array,
    PolicyOutput,
    Population,
    PyTree,
    Shared,
    Struct,
    stack_policies,
    static_field,
    take_slot,
)


class Anchors(Struct):
    """Anchor set Z_t and the generator that maps its latent codes to policies: phi_i = G_theta(z_i)."""

    theta: PyTree
    codes: Array  # [K, D]
    temperature: Array | float  # [], divides the logits
    generator: Generator = static_field()

    @property
    def apply(self) -> Apply:
        return self.generator.policy

    def generate(self, z: Array) -> PyTree:
        """Generates the policy parameters of any code z [D]."""
        return self.generator.policy.temper(self.generator(self.theta, z), self.temperature)

    def select(self, index: Array) -> PyTree:
        return self.generate(self.codes[index])


class StackedPolicies(Struct):
    """Explicit policies: policy i is row i of every array of `params`. Tabular policies have logits [K, I, A]."""

    params: PyTree  # [K, ...], except for `Shared` parts
    apply: Apply = static_field()

    def select(self, index: Array) -> PyTree:
        return take_slot(self.params, index)


def materialize(population: Population, num_slots: int) -> StackedPolicies:
    """Generates the policy parameters of every slot once, for a phase of rollouts that indexes them.

    Args:
      population: leaves [P, ...].
      num_slots: K, static.

    Returns:
      The policies, [P, K, ...].
    """
    params = jax.vmap(lambda one: stack_policies(one.select, jnp.arange(num_slots)))(population)
    return StackedPolicies(params, population.apply)


@dataclasses.dataclass(frozen=True)
class _TwoTorsos:
    """Runs policies with one of two shared torsos: both are evaluated, one is selected."""

    network: Apply

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        settled = self.network(phi["policy"], observation, legal)
        added = self.network({**phi["policy"], **phi["shared"]}, observation, legal)
        return jax.tree.map(lambda left, right: jnp.where(phi["added"], left, right), added, settled)


def append_policy(policies: StackedPolicies, params: PyTree) -> StackedPolicies:
    """Adds one policy to every population, in a new last slot.

    Args:
      policies: [P, K, ...].
      params: parameters of the added policies, [P, ...]. Their `Shared` parts may differ from those of the K others.

    Returns:
      Policies [P, K + 1, ...].
    """
    held = policies.params
    shared = [name for name in held if isinstance(held[name], Shared)] if isinstance(held, dict) else []
    if not shared:
        return StackedPolicies(_append(held, params), policies.apply)
    own, added = ({name: tree[name] for name in tree if name not in shared} for tree in (held, params))
    stacked = _append(own, added)
    slots = jax.tree.leaves(stacked)[0].shape[:2]
    return StackedPolicies(
        params={
            "policy": {**stacked, **{name: held[name] for name in shared}},
            "shared": {name: params[name] for name in shared},
            "added": jnp.broadcast_to(jnp.arange(slots[1]) == slots[1] - 1, slots),
        },
        apply=_TwoTorsos(policies.apply),
    )


def _append(held: PyTree, added: PyTree) -> PyTree:
    """[P, K, ...] and [P, ...] -> [P, K + 1, ...]."""
    return jax.tree.map(lambda slots, one: jnp.concatenate([slots, one[:, None]], axis=1), held, added)


REPLACEMENTS = ("least_mass", "worst_ev")


def choose_slot(active: Array, mass: Array, values: Array, rule: str) -> Array:
    """Chooses the slot of a new anchor: the first free one, or at capacity that of the least mass or worst value.

    Args:
      active: which slots hold an anchor, [K] bool.
      mass: sigma, [K].
      values: v-hat, [K].
      rule: `least_mass` or `worst_ev`, which anchor is replaced at capacity.

    Returns:
      The slot, [] int32.

    Raises:
      ValueError: if the rule is unknown.
    """
    chex.assert_equal_shape([active, mass, values])
    if rule not in REPLACEMENTS:
        raise ValueError(
            f"choose_slot: unknown replacement rule, expected one of {', '.join(REPLACEMENTS)}, got {rule!r}."
        )
    loser = jnp.argmin(mass if rule == "least_mass" else values)
    return jnp.where(jnp.all(active), loser, jnp.argmin(active))
