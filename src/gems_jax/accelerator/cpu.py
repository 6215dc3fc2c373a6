"""Workarounds for XLA's CPU back end, behind one switch.

XLA:CPU recomputes cheap operations in every kernel that needs their result. The identities of this module prevent it.
If `cpu_workarounds()` is False they add no operation. Results do not depend on the switch, up to rounding.

A gain is the CPU time of one step of Kuhn poker with the preset `paper` without the workaround, divided by the time
with it. It was measured on a shared machine, where equal programs differed by up to a tenth.
"""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np

VARIABLE = "GEMS_JAX_WORKAROUNDS"  # environment variable: "off" compiles for the CPU as for any other back end


def cpu_workarounds() -> bool:
    """Returns whether programs are traced with the workarounds: on CPUs, unless GEMS_JAX_WORKAROUNDS=off."""
    return os.environ.get(VARIABLE, "on") != "off" and jax.default_backend() == "cpu"


def compute_once(x: jax.Array) -> jax.Array:
    """Returns x, computed once and stored. Gain: 1.5 for numbers, 1.2 for booleans.

    A reduction and a square root end a kernel: numbers are summed with zeros, booleans become the root of 0 or 1.
    """
    return _store(x) if cpu_workarounds() else x


@jax.jit
def _store(x: jax.Array) -> jax.Array:
    if x.dtype == bool:
        return jnp.sqrt(x.astype(jnp.float32)) > 0.0
    first = np.broadcast_to(np.asarray([True, False]).reshape(2, *(1,) * x.ndim), (2, *x.shape))
    zeros = jax.lax.full((2, *x.shape), 0, x.dtype)
    both = jax.lax.select(first, jax.lax.broadcast(x, (2,)), zeros)
    return jnp.sum(both, axis=0, dtype=x.dtype)


def compute_gradient_once(x: jax.Array) -> jax.Array:
    """Returns x, whose gradient is computed once and stored. Gain: 1.1."""
    return _compute_tangent_once(x) if cpu_workarounds() else x


@jax.custom_jvp
def _compute_tangent_once(x: jax.Array) -> jax.Array:
    return x


@_compute_tangent_once.defjvp
def _tangent(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return _compute_tangent_once(primals[0]), compute_once(tangents[0])  # linear, and its own transpose


def multiply_row(row: jax.Array, matrix: jax.Array) -> jax.Array:
    """Computes row [k] @ matrix [k, n], with gradients that are sums if the matrix is small; callers vmap over rows.

    XLA:CPU hands products of many small matrices, one for each seed and population, to a library one after the other:
    16 products of 16 x 24 take 11 to 23 us, but 4.5 us as sums of products, which XLA compiles itself. The forward
    product stays a product: XLA merges equal products, such as those of play and of the loss, but not equal sums.
    Gain: 1.2.
    """
    small = matrix.size <= _SMALL and min(matrix.shape) >= _NARROW
    if small and cpu_workarounds() and row.dtype == matrix.dtype == jnp.float32:
        return _sum_backwards(row, matrix)
    return row @ matrix


_SMALL = 1024  # entries of a matrix; measured
_NARROW = 8  # width of a vector register: with fewer columns XLA does not vectorize a sum of products


@jax.custom_jvp
def _sum_backwards(row: jax.Array, matrix: jax.Array) -> jax.Array:
    return row @ matrix


@_sum_backwards.defjvp
def _sum_tangent(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """d(row @ matrix) as sums of products, whose transposes are the sums of the gradient.

    A forward-mode rule supports every composition of derivatives, such as the Jacobian norm inside a gradient; a
    reverse-mode rule (`custom_vjp`) does not support forward mode.
    """
    (row, matrix), (row_dot, matrix_dot) = primals, tangents
    by_row = jnp.sum(row_dot[None, :] * compute_once(matrix.T), axis=1)
    by_matrix = jnp.sum(row[:, None] * matrix_dot, axis=0)
    return _sum_backwards(row, matrix), compute_once(by_row + by_matrix)  # `compute_once` is linear
