"""Generators G_theta: they map a latent code z to the parameters phi of a policy network.

A *generator* is a static callable `generator(theta, z) -> phi` with `init(key, scale) -> theta`, frozen and hashed by
value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol

import chex
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gems_jax.accelerator.cpu import multiply_row
from gems_jax.policies.networks import PolicyNetwork, TanhLayers, init_dense, name_layers
from gems_jax.types import Array, PyTree, Shared


class Generator(Protocol):
    """Maps a latent code z [D] to policy parameters phi = G_theta(z)."""

    @property
    def policy(self) -> PolicyNetwork:
        """The network that phi parameterizes."""
        ...

    @property
    def latent_dim(self) -> int:
        """Size D of a latent code."""
        ...

    def init(self, key: Array, scale: Array | float) -> PyTree:
        """Initializes theta; `scale` is the standard deviation of the part of phi that depends on z. key: consumed."""
        ...

    def __call__(self, theta: PyTree, z: Array) -> PyTree: ...

    def rates(self, rate: Array | float, output_rate: Array | float) -> PyTree:
        """Returns the learning rates of theta's parts, `output_rate` of the output layer relative to the rest."""
        ...

    def gram_norm(self, theta: PyTree, z: Array) -> Array:
        """Computes ||J G_theta(z)||_F^2 [] in closed form."""
        ...


@dataclasses.dataclass(frozen=True)
class Hypernetwork:
    """Generates phi = base + W f(z): an MLP f, one linear output layer W, and a learned base common to all codes.

    The base starts as an ordinary initialization of the policy network; `scale` determines how much codes differ at the
    start. Parameters that the policy network marks as `Shared` are not generated: there phi is the base for every code,
    and the Jacobian is zero. A scale of 0 starts with phi = base for every code (an output layer of zeros over a
    learned base, "bias-HyperInit"): codes then differ by training only.
    """

    policy: PolicyNetwork
    latent_dim: int
    widths: tuple[int, ...] = (64,)
    constant_norm: bool = False  # the input of f is [cos(pi z / 2), sin(pi z / 2)], whose norm is sqrt(D), not z

    def features(self, theta: PyTree, z: Array) -> Array:
        """Computes f(z) [F], the input of the output layer, of a code z [D]."""
        inputs = encode_angles(z) if self.constant_norm else z
        layers = {"params": name_layers(theta["layers"])}
        return TanhLayers(self.widths).apply(layers, inputs)  # type: ignore[return-value]

    def init(self, key: Array, scale: Array | float = 1.0) -> PyTree:
        """Initializes theta, with W f(z) of standard deviation `scale`. key: consumed."""
        key_base, key_output, *keys = jax.random.split(key, 2 + len(self.widths))
        base = self.policy.init(key_base)
        size = ravel_pytree(_split_shared(base)[1])[0].shape[0]
        sizes = (self.latent_dim * (1 + self.constant_norm), *self.widths)
        layers = [init_dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]
        output = jax.random.normal(key_output, (sizes[-1], size)) * scale / math.sqrt(sizes[-1])
        return {"layers": layers, "output": output, "base": base}

    def __call__(self, theta: PyTree, z: Array) -> PyTree:
        chex.assert_shape(z, (self.latent_dim,))
        shared, own = _split_shared(theta["base"])
        base, unravel = ravel_pytree(own)
        generated = unravel(base + multiply_row(self.features(theta, z), theta["output"]))
        return {**shared, **generated} if shared else generated

    def rates(self, rate: Array | float, output_rate: Array | float) -> PyTree:
        """Returns the learning rates of theta's parts, `output_rate` of W relative to the rest."""
        return {"layers": rate, "output": rate * output_rate, "base": rate}

    def gram_norm(self, theta: PyTree, z: Array) -> Array:
        """Computes ||J G(z)||_F^2 [] = tr(J_f^T W W^T J_f) without the Jacobian J = W^T J_f itself.

        With one hidden layer f(z) = tanh(V^T z + b), so J_f = diag(d) V^T with d = 1 - f^2, and the norm is
        d^T (V^T V * W W^T) d. The matrix in it, an entrywise product, is the same for all codes.
        """
        with jax.default_matmul_precision("highest"):
            gram = _gram(theta["output"])  # [F, F]
            if len(self.widths) == 1 and not self.constant_norm:
                slope = 1.0 - self.features(theta, z) ** 2
                return jnp.sum(slope * multiply_row(slope, _gram(theta["layers"][0]["kernel"].T) * gram))
            jacobian = jax.jacfwd(lambda code: self.features(theta, code))(z)  # [F, D]
            return jnp.sum(jacobian * (gram @ jacobian))


def encode_angles(z: Array) -> Array:
    """Encodes z [D] as [cos(pi z / 2), sin(pi z / 2)] [2 D], whose norm is sqrt(D) for every code."""
    angle = 0.5 * jnp.pi * z
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])


def _gram(rows: Array) -> Array:
    """rows rows^T."""
    return jax.vmap(multiply_row, in_axes=(0, None))(rows, rows.T)


def _split_shared(phi: PyTree) -> tuple[dict[str, Shared], PyTree]:
    """Splits phi into the parts common to all codes, by name, and the generated parts."""
    if not isinstance(phi, dict):
        return {}, phi
    shared = {name: part for name, part in phi.items() if isinstance(part, Shared)}
    return shared, {name: part for name, part in phi.items() if name not in shared}


def jacobian_norm(generator: Generator, theta: PyTree, z: Array, method: str, key: Array | None = None) -> Array:
    """Computes ||J G_theta(z)||_F^2, the smoothness penalty of eq:ucb-jac and eq:abr-tr_revised.

    Args:
      generator: G.
      theta: parameters of the generator.
      z: latent code [D].
      method: `exact` takes D products in forward mode; `gram` gives the same value by the generator's closed form;
        `hutchinson` is the unbiased estimate ||J v||^2 of one random v with E[v v^T] = I.
      key: typed PRNG key, needed by `hutchinson` alone; consumed.

    Returns:
      The squared norm [].

    Raises:
      ValueError: if the method is unknown, or `hutchinson` has no key.
    """
    if method == "gram":
        return generator.gram_norm(theta, z)
    if method == "exact":
        return _exact_norm(generator, theta, z)
    if method != "hutchinson":
        raise ValueError(f"jacobian_norm: unknown method, expected one of exact, gram, hutchinson, got {method!r}.")
    if key is None:
        raise ValueError("jacobian_norm: method='hutchinson' needs a key, got None. Pass key=jax.random.key(...).")
    direction = jax.random.rademacher(key, z.shape, z.dtype)
    return jnp.sum(jax.jvp(_flat_output(generator, theta), (z,), (direction,))[1] ** 2)


def _flat_output(generator: Generator, theta: PyTree) -> Callable[[Array], Array]:
    return lambda code: ravel_pytree(generator(theta, code))[0]


def _exact_norm(generator: Generator, theta: PyTree, z: Array) -> Array:
    return jnp.sum(jax.jacfwd(_flat_output(generator, theta))(z) ** 2)
