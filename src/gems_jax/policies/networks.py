"""Shared parts of networks: protocols, flax layers, initializers, and half precision.

A *policy network* is a static callable `network(phi, observation, legal) -> PolicyOutput` with `init(key) -> phi`. It
is frozen and hashed by value: it is a static part of pytrees and never causes a retrace. Every network holds its layers
as flax modules, but its parameters are plain pytrees, because a generator emits such trees.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from gems_jax.accelerator.cpu import compute_gradient_once, multiply_row
from gems_jax.types import Array, GameState, Policy, PolicyOutput, PyTree


class PolicyNetwork(Protocol):
    """Maps parameters phi and an observation to an action distribution."""

    def init(self, key: Array) -> PyTree:
        """Initializes phi. key: consumed."""
        ...

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput: ...

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        """Divides the logits by a temperature, by scaling the output layer of phi."""
        ...


@runtime_checkable
class IndexedNetwork(Protocol):
    """A policy network whose policies can be called by their index in a stack of policies, as tables can."""

    @property
    def indexed(self) -> IndexedApply:
        """Runs a policy by its index."""
        ...

    def prepare_stack(self, params: PyTree, lazily: bool = False) -> PyTree:
        """Prepares n policies [n, ...] for `indexed`, or each one when it is read; returns leaves [n, ...]."""
        ...


@runtime_checkable
class IndexedApply(Protocol):
    """Runs one policy of a stack; phi is its index [] and the stack."""

    def __call__(self, phi: tuple[Array, PyTree], observation: Array, legal: Array) -> PolicyOutput: ...
    def read(self, state: GameState) -> Array:
        """Reads the policy's inputs [S, ...] from a state: observations, or indices that replace them."""
        ...

    def sample_mover(self, policies: tuple[Policy, ...], state: GameState, noise: Array) -> Array:
        """Samples the action [] of the one seat that is to move, by one look-up for all seats. noise: [S]."""
        ...


def orthogonal(scale: float) -> Callable[..., Array]:
    """Makes an initializer of orthogonal kernels, equal to `flax.linen.initializers.orthogonal` up to rounding.

    It uses Gram-Schmidt, twice over each column, instead of LAPACK: jaxlib's QR waits on the threads that it runs on,
    and two concurrent ones, of two layers, may deadlock on a machine with two cores.
    """

    def init(key: Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        drawn = jax.random.normal(key, (max(rows, columns), min(rows, columns)), dtype)

        def column(index: Array, found: Array) -> Array:
            one = drawn[:, index]
            for _ in range(2):
                one = one - found @ (found.T @ one)
            return found.at[:, index].set(one / jnp.linalg.norm(one))

        found = jax.lax.fori_loop(0, drawn.shape[1], column, jnp.zeros_like(drawn))
        return jnp.asarray(scale, dtype) * (found.T if columns > rows else found).reshape(shape)

    return init


def init_dense(key: Array, inputs: int, outputs: int, scale: float = math.sqrt(2.0)) -> dict[str, Array]:
    """Initializes the parameters of `nn.Dense(outputs)`: an orthogonal kernel of some scale and no bias.

    Args:
      key: typed PRNG key, from which the kernel is drawn directly; consumed.
      inputs: number of inputs.
      outputs: number of outputs.
      scale: of the orthogonal kernel.

    Returns:
      "kernel" [inputs, outputs] and "bias" [outputs].
    """
    return {"kernel": orthogonal(scale)(key, (inputs, outputs)), "bias": jnp.zeros(outputs)}


def name_layers(layers: Sequence[PyTree]) -> dict[str, PyTree]:
    """Names the parameters of consecutive layers as flax modules do: layer_0, layer_1, ..."""
    return {f"layer_{index}": layer for index, layer in enumerate(layers)}


class SplitDense(nn.Module):
    """A dense layer on the concatenation of its inputs, each multiplied by its own rows of the kernel.

    A vmap over one input does not repeat the products of the others: with many codes and many observations there are as
    many products as codes plus observations, not as pairs of them.
    """

    features: int
    scale: float = math.sqrt(2.0)
    use_bias: bool = True

    @nn.compact
    def __call__(self, *inputs: Array) -> Array:
        ends = list(itertools.accumulate(len(x) for x in inputs))
        kernel = self.param("kernel", orthogonal(self.scale), (ends[-1], self.features))
        parts = [multiply_row(x, kernel[end - len(x) : end]) for x, end in zip(inputs, ends, strict=True)]
        if self.use_bias:  # added to the last part, which has the smallest batch
            parts[-1] = parts[-1] + self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return parts[0] if len(parts) == 1 else functools.reduce(jnp.add, map(compute_gradient_once, parts))


def _apply_hidden(widths: Sequence[int], inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """Dense layers with tanh, as submodules of the flax module that calls this."""
    for index, width in enumerate(widths):
        inputs = (jnp.tanh(SplitDense(width, name=f"layer_{index}")(*inputs)),)
    return inputs


class TanhLayers(nn.Module):
    """Dense layers with tanh on the concatenation of the inputs."""

    widths: Sequence[int]

    @nn.compact
    def __call__(self, *inputs: Array) -> Array:
        return _apply_hidden(self.widths, inputs)[0]


class Mlp(nn.Module):
    """Dense layers with tanh and a linear layer `head`; without hidden layers a linear map without bias."""

    hidden: Sequence[int]
    num_outputs: int
    head_scale: float = 1.0

    @nn.compact
    def __call__(self, *inputs: Array) -> Array:
        inputs = _apply_hidden(self.hidden, inputs)
        return SplitDense(self.num_outputs, self.head_scale, use_bias=bool(self.hidden), name="head")(*inputs)


def extract_patches(board: Array, kernel: int) -> Array:
    """Concatenates every square with its neighbors, padded with zeros.

    A dense layer on the patches is a convolution as one matrix product, which a CPU computes faster than small
    convolutions.

    Args:
      board: [X, Y, planes].
      kernel: side of a patch.

    Returns:
      Patches, [X, Y, kernel^2 planes].
    """
    if kernel == 1:
        return board
    height, width, _ = board.shape
    before = (kernel - 1) // 2
    padded = jnp.pad(board, [(before, kernel - 1 - before)] * 2 + [(0, 0)])
    shifted = [padded[x : x + height, y : y + width] for x in range(kernel) for y in range(kernel)]
    return jnp.concatenate(shifted, axis=2)


def temper_head(phi: PyTree, temperature: Array | float) -> PyTree:
    """Divides the output layer of policy parameters, `phi["head"]`, by a temperature."""
    return {**phi, "head": jax.tree.map(lambda weight: weight / temperature, phi["head"])}


def to_bfloat16(tree: PyTree) -> PyTree:
    """Rounds the float32 arrays of a tree to bfloat16."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if leaf.dtype == jnp.float32 else leaf, tree)


@dataclasses.dataclass(frozen=True)
class HalfPolicy:
    """A network that computes in bfloat16; its parameters and its outputs are float32."""

    network: PolicyNetwork

    def init(self, key: Array) -> PyTree:
        return self.network.init(key)

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        output = self.network(to_bfloat16(phi), to_bfloat16(observation), legal)
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), output)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return self.network.temper(phi, temperature)
