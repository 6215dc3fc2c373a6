"""The critic: a value network on observation and latent code."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp

from gems_jax.policies.networks import Mlp, orthogonal, to_bfloat16
from gems_jax.types import Array, PyTree


class _BoardMlp(nn.Module):
    """An MLP on a board whose squares are first reduced to a few channels each."""

    channels: int
    hidden: Sequence[int]

    @nn.compact
    def __call__(self, board: Array, z: Array) -> Array:
        embed = nn.Dense(self.channels, kernel_init=orthogonal(math.sqrt(2.0)), name="embed")
        squares = jnp.tanh(embed(board))
        return Mlp(self.hidden, 1, head_scale=0.01, name="mlp")(squares.reshape(-1), z)


@dataclasses.dataclass(frozen=True)
class Critic:
    """V(observation, z): the value of a position for the policy with code z, in units of the scaled return."""

    observation_shape: tuple[int, ...]
    latent_dim: int
    hidden: tuple[int, ...] = (64, 64)
    channels: int = 0  # features per square of a board [X, Y, planes] before it is flattened; 0: flattened as it is
    half: bool = False  # compute in bfloat16

    def _module(self) -> nn.Module:
        if self.channels:
            return _BoardMlp(self.channels, self.hidden)
        return Mlp(self.hidden, 1, head_scale=0.01)

    def _inputs(self, observation: Array, z: Array) -> tuple[Array, Array]:
        return observation.reshape(self.observation_shape if self.channels else -1), z

    def init(self, key: Array) -> PyTree:
        """Initial parameters. key: consumed."""
        inputs = self._inputs(jnp.zeros(self.observation_shape), jnp.zeros(self.latent_dim))
        return self._module().init(key, *inputs)["params"]

    def __call__(self, params: PyTree, observation: Array, z: Array) -> Array:
        inputs = self._inputs(observation, z)
        if self.half:
            params, inputs = to_bfloat16((params, inputs))
        output: Array = self._module().apply({"params": params}, *inputs)  # type: ignore[assignment]
        return output[0].astype(jnp.float32)
