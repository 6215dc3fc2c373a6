"""Stored policies that grow by doubling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.psro.base import append, new_store, room, widen
from gems_jax.types import nbytes


def policies(value, slots):
    """[P = 2, slots, ...]"""
    return {"a": jnp.full((2, slots, 3), value), "b": jnp.full((2, slots), value, jnp.int32)}


def test_policies_come_in_order_and_stay_as_they_are():
    store = new_store(policies(1.0, 1), capacity=2)
    np.testing.assert_array_equal(store.active, [[True, False]] * 2)
    assert room(store) == 2
    first = jax.tree.map(np.asarray, store.params)
    store, fresh = append(store, jax.tree.map(lambda leaf: leaf[:, 0], policies(2.0, 1)), np.array([True, False]))
    np.testing.assert_array_equal(fresh, [[False, True], [False, False]])
    np.testing.assert_array_equal(store.active, [[True, True], [True, False]])
    np.testing.assert_array_equal(store.params["b"], [[1, 2], [1, 0]])
    assert room(store) == 4 and room(store, 0) == 2 and room(store, 7) == 16
    wide = widen(store, 4)
    np.testing.assert_array_equal(wide.active, [[True, True, False, False], [True, False, False, False]])
    wide, fresh = append(wide, jax.tree.map(lambda leaf: leaf[:, 0], policies(3.0, 1)), np.array([True, True]))
    np.testing.assert_array_equal(wide.params["b"], [[1, 2, 3, 0], [1, 3, 0, 0]])
    jax.tree.map(lambda old, new: np.testing.assert_array_equal(old[:, 0], new[:, 0]), first, wide.params)
    assert nbytes(wide.params) == 2 * 4 * (3 * 4 + 4)


def test_no_room():
    store = new_store(policies(1.0, 2), capacity=2)
    newcomer = jax.tree.map(lambda leaf: leaf[:, 0], policies(2.0, 1))
    with pytest.raises(ValueError, match="the store is full: .2, 2. policies in 2 slots; widen it first"):
        append(store, newcomer, np.array([True, True]))
    same, fresh = append(store, newcomer, np.array([False, False]))
    np.testing.assert_array_equal(same.params["a"], store.params["a"])
    assert not fresh.any()
    with pytest.raises(ValueError, match="capacity 1 cannot begin with 2"):
        new_store(policies(1.0, 2), capacity=1)
