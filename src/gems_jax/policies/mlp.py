"""A policy that is a multilayer perceptron."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from gems_jax.policies.distributions import make_output
from gems_jax.policies.networks import Mlp, temper_head
from gems_jax.types import Array, PolicyOutput, PyTree


@dataclasses.dataclass(frozen=True)
class MlpPolicy:
    """An MLP from the flattened observation to logits, or to mean and log-deviation of a squashed Gaussian."""

    observation_size: int
    num_actions: int
    hidden: tuple[int, ...] = ()
    continuous: bool = False

    def _module(self) -> Mlp:
        return Mlp(self.hidden, self.num_actions * (2 if self.continuous else 1), head_scale=0.01)

    def init(self, key: Array) -> PyTree:
        """Initializes phi: orthogonal layers, an output layer near zero (near-uniform play). key: consumed."""
        return self._module().init(key, jnp.zeros(self.observation_size))["params"]

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        outputs: Array = self._module().apply({"params": phi}, observation.reshape(-1))  # type: ignore[assignment]
        return make_output(outputs, legal, self.continuous)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return temper_head(phi, temperature)
