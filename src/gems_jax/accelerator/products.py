"""Products of rows with small matrices, whose gradients are sums.

XLA's CPU back end hands a product of many small matrices, one for each seed and population, to a library one after the
other: with 16 times 16 times 24 multiplications that takes 11 to 23 us for 16 of them, and as a sum of products, which
XLA compiles itself, 4.5. The product itself stays one: XLA finds two of these that are the same, as those of play and
of the loss after it are, but not two sums.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.accelerator.compile import kept
from gems_jax.types import Array

_SMALL = 1024  # entries of a matrix; measured
_NARROW = 8  # columns that a vector register holds: with fewer a sum of products is not vectorised


def product(row: Array, matrix: Array) -> Array:
    """row [k] @ matrix [k, n]; callers vmap over rows."""
    small = matrix.size <= _SMALL and min(matrix.shape) >= _NARROW
    if small and jax.default_backend() == "cpu" and row.dtype == matrix.dtype == jnp.float32:
        return _summed_backwards(row, matrix)
    return row @ matrix


@jax.custom_jvp
def _summed_backwards(row: Array, matrix: Array) -> Array:
    return row @ matrix


@_summed_backwards.defjvp
def _tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """d(row @ matrix) as sums of products, whose transposes are the sums that a gradient takes.

    A rule for forward mode serves every composition of derivatives, the Jacobian norm inside a gradient among them; a
    rule for reverse mode alone (`custom_vjp`) refuses forward mode.
    """
    (row, matrix), (row_dot, matrix_dot) = primals, tangents
    by_row = jnp.sum(row_dot[None, :] * kept(matrix.T), axis=1)
    by_matrix = jnp.sum(row[:, None] * matrix_dot, axis=0)
    return _summed_backwards(row, matrix), kept(by_row + by_matrix)  # `kept` is linear: gradients are kept, too
