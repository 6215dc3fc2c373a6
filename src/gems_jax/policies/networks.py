"""Networks: the policy whose weights are generated, the generator G_theta, and the critic.

A *policy network* is a static callable `network(phi, observation, legal) -> PolicyOutput` with `init(key) -> phi`. A
*generator* is a static callable `generator(theta, z) -> phi` with `init(key) -> theta`. Both are frozen and hashed by
value: they ride along as static parts of pytrees and never cause a retrace.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from gems_jax.accelerator.compile import kept_gradient
from gems_jax.accelerator.products import product
from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, PolicyOutput, PyTree, Shared


class PolicyNetwork(Protocol):
    """phi -> behaviour. `temper` divides the logits by a temperature, by scaling the output layer of phi."""

    def init(self, key: Array) -> PyTree: ...
    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput: ...
    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree: ...


def orthogonal(scale: float) -> Callable[..., Array]:
    """Orthogonal kernels, those of `flax.linen.initializers.orthogonal` to rounding, without LAPACK.

    jaxlib's QR waits on the threads that it runs on: two of them at once, as two layers are, may keep a machine with
    two cores waiting for ever. Gram and Schmidt, twice over each column, need none of them.
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


class Joined(nn.Module):
    """`nn.Dense` on its inputs joined, each of which meets its own rows of the kernel.

    A vmap over one input then leaves the other's product alone: rows of many codes and many observations cost as many
    products as there are codes and observations, not as there are pairs of them.
    """

    features: int
    scale: float
    use_bias: bool = True

    @nn.compact
    def __call__(self, *inputs: Array) -> Array:
        ends = list(itertools.accumulate(len(x) for x in inputs))
        kernel = self.param("kernel", orthogonal(self.scale), (ends[-1], self.features))
        parts = [product(x, kernel[end - len(x) : end]) for x, end in zip(inputs, ends, strict=True)]
        if self.use_bias:  # to the last one, which there are fewest of
            parts[-1] = parts[-1] + self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return parts[0] if len(parts) == 1 else functools.reduce(jnp.add, map(kept_gradient, parts))


class Mlp(nn.Module):
    """Dense layers with tanh; the last one is called `head`. No hidden layer: a linear map without bias."""

    hidden: Sequence[int]
    num_outputs: int
    head_scale: float = 1.0

    @nn.compact
    def __call__(self, *inputs: Array) -> Array:
        for index, width in enumerate(self.hidden):
            inputs = (jnp.tanh(Joined(width, math.sqrt(2.0), name=f"layer_{index}")(*inputs)),)
        return Joined(self.num_outputs, self.head_scale, use_bias=bool(self.hidden), name="head")(*inputs)


def gaussian(outputs: Array) -> PolicyOutput:
    """The base of a squashed Gaussian from 2 A network outputs: means, then log-deviations kept in [-5, 2]."""
    mean, log_std = jnp.split(outputs, 2)
    return PolicyOutput(mean=mean, log_std=jnp.clip(log_std, -5.0, 2.0))


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
        """Initial phi: orthogonal layers, an output layer near zero (near-uniform play). key: consumed."""
        return self._module().init(key, jnp.zeros(self.observation_size))["params"]

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        outputs: Array = self._module().apply({"params": phi}, observation.reshape(-1))  # type: ignore[assignment]
        if not self.continuous:
            return PolicyOutput(logits=mask_logits(outputs, legal))
        return gaussian(outputs)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return {**phi, "head": jax.tree.map(lambda weight: weight / temperature, phi["head"])}


def in_bfloat16(tree: PyTree) -> PyTree:
    """The same with float32 arrays rounded."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if leaf.dtype == jnp.float32 else leaf, tree)


@dataclasses.dataclass(frozen=True)
class HalfPolicy:
    """A network that computes in bfloat16: its parameters and its outputs are float32."""

    network: PolicyNetwork

    def init(self, key: Array) -> PyTree:
        return self.network.init(key)

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        output = self.network(in_bfloat16(phi), in_bfloat16(observation), legal)
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), output)

    def temper(self, phi: PyTree, temperature: Array | float) -> PyTree:
        return self.network.temper(phi, temperature)


class Generator(Protocol):
    """G_theta: latent code -> policy parameters phi."""

    @property
    def policy(self) -> PolicyNetwork: ...
    @property
    def latent_dim(self) -> int: ...
    def init(self, key: Array, scale: Array | float) -> PyTree: ...
    def __call__(self, theta: PyTree, z: Array) -> PyTree: ...
    def rates(self, rate: Array | float, output_rate: Array | float) -> PyTree: ...


@dataclasses.dataclass(frozen=True)
class Hypernetwork:
    """phi = base + W f(z): an MLP f, one linear output layer, and a learned base that all codes share.

    The base starts as an ordinary initialisation of the policy network, so that the first policies are ordinary ones;
    `scale` sets how far codes differ at the start. What the policy network marks as `Shared` is not generated: there
    phi is the base, for every code, and the Jacobian is zero.
    """

    policy: PolicyNetwork
    latent_dim: int
    widths: tuple[int, ...] = (64,)

    def features(self, theta: PyTree, z: Array) -> Array:
        """f(z) [F]: what the output layer sees."""
        for layer in theta["layers"]:
            z = jnp.tanh(product(z, layer["kernel"]) + layer["bias"])
        return z

    def init(self, key: Array, scale: Array | float = 1.0) -> PyTree:
        """theta. The output layer is scaled so that W f(z) has standard deviation `scale`. key: consumed."""
        key_base, key_output, *keys = jax.random.split(key, 2 + len(self.widths))
        base = self.policy.init(key_base)
        size = ravel_pytree(_parted(base)[1])[0].shape[0]
        layers, fan_in = [], self.latent_dim
        for layer_key, width in zip(keys, self.widths, strict=True):
            kernel = orthogonal(math.sqrt(2.0))(layer_key, (fan_in, width))
            layers.append({"kernel": kernel, "bias": jnp.zeros(width)})
            fan_in = width
        output = jax.random.normal(key_output, (fan_in, size)) * scale / math.sqrt(fan_in)
        return {"layers": layers, "output": output, "base": base}

    def __call__(self, theta: PyTree, z: Array) -> PyTree:
        chex.assert_shape(z, (self.latent_dim,))
        shared, own = _parted(theta["base"])
        base, unravel = ravel_pytree(own)
        generated = unravel(base + product(self.features(theta, z), theta["output"]))
        return {**shared, **generated} if shared else generated

    def rates(self, rate: Array | float, output_rate: Array | float) -> PyTree:
        """Step sizes of theta's parts, `output_rate` of W relative to the rest."""
        return {"layers": rate, "output": rate * output_rate, "base": rate}


def _parted(phi: PyTree) -> tuple[dict[str, Shared], PyTree]:
    """What all codes share, by name, and what a code generates."""
    if not isinstance(phi, dict):
        return {}, phi
    shared = {name: part for name, part in phi.items() if isinstance(part, Shared)}
    return shared, {name: part for name, part in phi.items() if name not in shared}


@dataclasses.dataclass(frozen=True)
class Concatenated:
    """The code concatenated to the observation of one shared network, written as a generator.

    A first layer on (observation, z) is W_o o + (b + W_z z): so phi is the shared network with its first bias moved
    by W_z z, the same `apply` runs it, and ||J G(z)||_F = ||W_z||_F.
    """

    policy: MlpPolicy
    latent_dim: int

    def init(self, key: Array, scale: Array | float = 1.0) -> PyTree:
        """theta. key: consumed."""
        if not self.policy.hidden:
            raise ValueError(
                "the latent-concatenated generator needs a hidden layer in the policy: got policy_hidden=(), "
                "set for example policy_hidden=(64,), or generator='hypernetwork'"
            )
        key_network, key_code = jax.random.split(key)
        shift = jax.random.normal(key_code, (self.latent_dim, self.policy.hidden[0])) * scale
        return {"network": self.policy.init(key_network), "code": shift / math.sqrt(self.latent_dim)}

    def __call__(self, theta: PyTree, z: Array) -> PyTree:
        chex.assert_shape(z, (self.latent_dim,))
        first = theta["network"]["layer_0"]
        return {**theta["network"], "layer_0": {**first, "bias": first["bias"] + z @ theta["code"]}}

    def rates(self, rate: Array | float, output_rate: Array | float) -> PyTree:
        """Step sizes of theta's parts, `output_rate` of W_z relative to the rest."""
        return {"network": rate, "code": rate * output_rate}


def jacobian_norm(generator: Generator, theta: PyTree, z: Array, method: str, key: Array | None = None) -> Array:
    """||J G_theta(z)||_F^2 [], the smoothness penalty of eq:ucb-jac and eq:abr-tr_revised.

    `exact`: forward mode, D products. `gram`: for a Hypernetwork the last layer is linear, J = W^T J_f, and
    ||J||_F^2 = tr(J_f^T W W^T J_f) never forms J (exact too; other generators fall back to `exact`). With one hidden
    layer it forms nothing per code but f(z).
    `hutchinson`: one random direction v with E[v v^T] = I gives the unbiased ||J v||^2. key: consumed.
    """

    def flat(code: Array) -> Array:
        return ravel_pytree(generator(theta, code))[0]

    if method == "gram" and isinstance(generator, Hypernetwork):
        if len(generator.widths) == 1:
            return _one_layer_norm(theta, generator.features(theta, z))
        jacobian = jax.jacfwd(lambda code: generator.features(theta, code))(z)  # [F, D]
        gram = jnp.matmul(theta["output"], theta["output"].T, precision="highest")  # [F, F]
        return jnp.sum(jacobian * jnp.matmul(gram, jacobian, precision="highest"))
    if method in ("exact", "gram"):
        return jnp.sum(jax.jacfwd(flat)(z) ** 2)
    if method == "hutchinson":
        if key is None:
            raise ValueError("jacobian_norm(method='hutchinson') needs a key: got None, pass key=jax.random.key(...)")
        direction = jax.random.rademacher(key, z.shape, z.dtype)
        return jnp.sum(jax.jvp(flat, (z,), (direction,))[1] ** 2)
    raise ValueError(f"unknown Jacobian method {method!r}; known: 'exact', 'gram', 'hutchinson'")


def _one_layer_norm(theta: PyTree, features: Array) -> Array:
    """||J||_F^2 for f(z) = tanh(V^T z + b): J_f = diag(d) V^T with d = 1 - f^2, so it is d^T (V^T V * W W^T) d.

    The matrix in the middle, an entrywise product, is the same for all codes.
    """
    slope = 1.0 - features**2
    with jax.default_matmul_precision("highest"):
        pairs = _gram(theta["layers"][0]["kernel"].T) * _gram(theta["output"])
        return _twice_the_first(lambda left, right: jnp.sum(left * product(right, pairs)), slope)


def _gram(rows: Array) -> Array:
    """rows rows^T, for use where only its symmetric part counts."""
    return _twice_the_first(lambda left, right: jax.vmap(product, in_axes=(0, None))(left, right.T), rows)


def _twice_the_first(form: Callable[[Array, Array], Array], x: Array) -> Array:
    """form(x, x) of a bilinear form that is symmetric where it counts: by x its gradient is twice that of one place.

    One product backwards instead of two that are equal.
    """
    fixed = jax.lax.stop_gradient(x)
    return 2.0 * form(x, fixed) - form(fixed, fixed)


def patches(board: Array, kernel: int) -> Array:
    """Every square with its neighbours, [X, Y, planes] -> [X, Y, kernel^2 planes]; beyond the edge there is nothing.

    A dense layer on them is a convolution, as matrix products, which a CPU does faster than small convolutions.
    """
    if kernel == 1:
        return board
    height, width, _ = board.shape
    before = (kernel - 1) // 2
    padded = jnp.pad(board, [(before, kernel - 1 - before)] * 2 + [(0, 0)])
    shifted = [padded[x : x + height, y : y + width] for x in range(kernel) for y in range(kernel)]
    return jnp.concatenate(shifted, axis=2)


class _Squares(nn.Module):
    """A board's planes, and those of neighbours, reduced to a few channels per square before all is flattened."""

    channels: int
    hidden: Sequence[int]
    kernel: int

    @nn.compact
    def __call__(self, board: Array, z: Array) -> Array:
        kernel_init = orthogonal(math.sqrt(2.0))
        squares = jnp.tanh(nn.Dense(self.channels, kernel_init=kernel_init, name="embed")(patches(board, self.kernel)))
        return Mlp(self.hidden, 1, head_scale=0.01, name="mlp")(squares.reshape(-1), z)


@dataclasses.dataclass(frozen=True)
class Critic:
    """V(observation, z): the value of a position for the policy with code z, in units of the scaled return.

    channels: for a board [X, Y, planes], how many features each square is first reduced to; 0 flattens it as it is.
    kernel: side of the patch around a square that those features are of.
    """

    observation_shape: tuple[int, ...]
    latent_dim: int
    hidden: tuple[int, ...] = (64, 64)
    channels: int = 0
    kernel: int = 1
    half: bool = False  # compute in bfloat16

    def _module(self) -> nn.Module:
        if self.channels:
            return _Squares(self.channels, self.hidden, self.kernel)
        return Mlp(self.hidden, 1, head_scale=0.01)

    def _inputs(self, observation: Array, z: Array) -> tuple[Array, Array]:
        return observation.reshape(self.observation_shape if self.channels else -1), z

    def init(self, key: Array) -> PyTree:
        """key: consumed."""
        inputs = self._inputs(jnp.zeros(self.observation_shape), jnp.zeros(self.latent_dim))
        return self._module().init(key, *inputs)["params"]

    def __call__(self, params: PyTree, observation: Array, z: Array) -> Array:
        inputs = self._inputs(observation, z)
        if self.half:
            params, inputs = in_bfloat16((params, inputs))
        output: Array = self._module().apply({"params": params}, *inputs)  # type: ignore
        return output[0].astype(jnp.float32)
