"""The critic: a network of values, or of action values, on observation and latent code."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp

from gems_jax.policies.networks import Mlp, orthogonal, to_bfloat16
from gems_jax.types import Array, PyTree


class _BoardMlp(nn.Module):
    """An MLP on a board whose squares are first embedded in a few channels each."""

    channels: int
    hidden: Sequence[int]
    outputs: int

    @nn.compact
    def __call__(self, board: Array, z: Array) -> Array:
        embed = nn.Dense(self.channels, kernel_init=orthogonal(math.sqrt(2.0)), name="embed")
        squares = jnp.tanh(embed(board))
        return Mlp(self.hidden, self.outputs, head_scale=0.01, name="mlp")(squares.reshape(-1), z)


@dataclasses.dataclass(frozen=True)
class Critic:
    """Value network V(observation, z) of the policy with code z, in units of the scaled return.

    Call `critic(params, observation, z)` with an observation of `observation_shape` and a code [D]; it returns V [], or
    Q(observation, a, z) [A] of every action a if `num_actions` is set.
    """

    observation_shape: tuple[int, ...]
    latent_dim: int
    hidden: tuple[int, ...] = (64, 64)
    channels: int = 0  # features per square of a board [X, Y, planes]; 0 flattens the board as it is
    half: bool = False  # compute in bfloat16
    num_actions: int = 0  # A of a critic of action values; 0: a critic of values

    def _module(self) -> nn.Module:
        outputs = self.num_actions or 1
        if self.channels:
            return _BoardMlp(self.channels, self.hidden, outputs)
        return Mlp(self.hidden, outputs, head_scale=0.01)

    def _inputs(self, observation: Array, z: Array) -> tuple[Array, Array]:
        return observation.reshape(self.observation_shape if self.channels else -1), z

    def init(self, key: Array) -> PyTree:
        """Initializes the parameters. key: consumed."""
        inputs = self._inputs(jnp.zeros(self.observation_shape), jnp.zeros(self.latent_dim))
        return self._module().init(key, *inputs)["params"]

    def __call__(self, params: PyTree, observation: Array, z: Array) -> Array:
        inputs = self._inputs(observation, z)
        if self.half:
            params, inputs = to_bfloat16((params, inputs))
        output: Array = self._module().apply({"params": params}, *inputs)  # type: ignore[assignment]
        return (output if self.num_actions else output[0]).astype(jnp.float32)
