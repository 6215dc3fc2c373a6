"""Products with small matrices: the product, and its gradient, whatever is vmapped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.accelerator import cpu
from gems_jax.accelerator.cpu import multiply_row


def drawn(*shape):
    return jax.random.normal(jax.random.key(len(shape) + shape[-1]), shape)


@pytest.mark.parametrize(("size", "columns"), [(8, 16), (16, 24), (3, 5), (40, 40)])  # small, too narrow, too large
def test_product_and_gradient(size, columns):
    rows, matrix, weights = drawn(6, size), drawn(size, columns), drawn(6, columns)

    def loss(rows, matrix, one):
        return jnp.sum(weights * jnp.sin(jax.vmap(one, in_axes=(0, None))(rows, matrix)))

    found, expected = (
        jax.jit(jax.value_and_grad(lambda r, m, f=f: loss(r, m, f), argnums=(0, 1)))(rows, matrix)
        for f in (multiply_row, lambda row, matrix: row @ matrix)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)


@pytest.mark.parametrize(("size", "columns"), [(8, 16), (40, 40)])
def test_forward_mode_and_forward_inside_a_gradient(size, columns):
    """The Jacobian of a product, and the gradient of its norm, which the smoothness penalty asks for."""
    row, matrix = drawn(size), drawn(size, columns)

    def norm(matrix, one):
        return jnp.sum(jax.jacfwd(lambda r: jnp.tanh(one(r, matrix)))(row) ** 2)

    found, expected = (
        jax.jit(jax.value_and_grad(lambda m, f=f: norm(m, f)))(matrix) for f in (multiply_row, lambda r, m: r @ m)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)


def test_many_matrices_at_once():
    rows, matrices = drawn(3, 5, 16), drawn(3, 16, 24)
    gradient = jax.grad(lambda m, r: jnp.sum(jax.vmap(multiply_row, in_axes=(0, None))(r, m) ** 2))
    found = jax.jit(jax.vmap(gradient))(matrices, rows)
    for place in range(3):
        expected = 2.0 * rows[place].T @ (rows[place] @ matrices[place])
        np.testing.assert_allclose(found[place], expected, rtol=1e-4, atol=1e-4)


def test_what_is_small(monkeypatch):
    """Sums are for float32 on a CPU, and for matrices of a certain size."""
    taken = []
    monkeypatch.setattr(cpu, "_sum_backwards", lambda row, matrix: taken.append(matrix.shape) or row @ matrix)
    for shape in ((8, 8), (32, 32), (33, 32), (7, 16), (16, 7)):
        multiply_row(drawn(shape[0]), drawn(*shape))
    multiply_row(drawn(8).astype(jnp.bfloat16), drawn(8, 8).astype(jnp.bfloat16))
    assert taken == ([(8, 8), (32, 32)] if jax.default_backend() == "cpu" else [])
