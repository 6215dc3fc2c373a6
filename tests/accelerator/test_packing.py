"""Packed flags come back, and the argsort of uniform draws is that of jnp."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.accelerator.cpu import VARIABLE
from gems_jax.accelerator.packing import argsort_uniform, pack_bits, unpack_bits


@pytest.mark.parametrize("switch", ["on", "off"])
def test_the_order_of_sort_keys_is_that_of_argsort(monkeypatch, switch):
    """Ties included: the sort_keys are coarse, and the first comes first."""
    monkeypatch.setenv(VARIABLE, switch)
    sort_keys = jax.random.uniform(jax.random.key(0), (2, 500)) + jnp.arange(500)[None] % 2
    sort_keys = sort_keys.at[:, 100:200].set(sort_keys[:, :100])
    np.testing.assert_array_equal(
        jax.jit(lambda keys: argsort_uniform(keys))(sort_keys), jnp.argsort(sort_keys, axis=1)
    )


@pytest.mark.parametrize("shape", [(1,), (32,), (33,), (6, 7, 2), (9, 9, 17), (8, 8, 119)])
def test_bits_come_back(shape):
    """Of sizes that fill their words and of others; a row takes a word per 32 flags, the last one perhaps in part."""
    flags = jax.random.bernoulli(jax.random.key(0), 0.4, (2, 3, *shape))
    bits = jax.jit(lambda flags: pack_bits(flags, 2))(flags)
    assert bits.words.shape == (2, 3, -(-flags[0, 0].size // 32)) and bits.words.dtype == jnp.uint32
    np.testing.assert_array_equal(jax.jit(unpack_bits)(bits), flags)
