"""Products of rows with small matrices, whose gradients are sums.

XLA's CPU back end hands a product of many small matrices, one for each seed and population, to a library one after the
other: with 16 times 16 times 24 multiplications that takes 11 to 23 us for 16 of them, and as a sum of products, which
XLA compiles itself, 4.5. The product itself stays one: XLA finds two of these that are the same, as those of play and
of the loss after it are, but not two sums.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.compiling import kept
from gems_jax.types import Array

_SMALL = 1024  # entries of a matrix; measured
_NARROW = 8  # columns that a vector register holds: with fewer a sum of products is not vectorised


def product(row: Array, matrix: Array) -> Array:
    """row [k] @ matrix [k, n]; callers vmap over rows."""
    small = matrix.size <= _SMALL and min(matrix.shape) >= _NARROW
    if small and jax.default_backend() == "cpu" and row.dtype == matrix.dtype == jnp.float32:
        return _summed_backwards(row, matrix)
    return row @ matrix


@jax.custom_vjp
def _summed_backwards(row: Array, matrix: Array) -> Array:
    return row @ matrix


def _forward(row: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return row @ matrix, (row, matrix)


def _backward(known: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    row, matrix = known
    gradient = kept(gradient)  # what it is made of would be worked out again for every column
    return jnp.sum(gradient[:, None] * kept(matrix.T), axis=0), row[:, None] * gradient[None, :]


_summed_backwards.defvjp(_forward, _backward)
