"""Stored policies: arrays [P, K, ...] whose capacity K doubles when they are full."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, PyTree, Struct


class Store(Struct):
    """The policies of all populations, in the order in which they came."""

    params: PyTree  # [P, K, ...]
    active: Array  # [P, K] bool: the slot holds a policy

    @property
    def capacity(self) -> int:
        return self.active.shape[1]


def new_store(params: PyTree, capacity: int) -> Store:
    """A store that begins with params [P, k, ...] in its first k slots."""
    count = jax.tree.leaves(params)[0].shape[1]
    if count > capacity:
        raise ValueError(f"a store of capacity {capacity} cannot begin with {count} policies")
    populations = jax.tree.leaves(params)[0].shape[0]
    return Store(
        params=jax.tree.map(lambda leaf: pad_slots(leaf, capacity, (1,)), params),
        active=jnp.broadcast_to(jnp.arange(capacity)[None, :] < count, (populations, capacity)),
    )


def pad_slots(array: Array, capacity: int, axes: tuple[int, ...]) -> Array:
    """`array` with zeros (False) appended along `axes` until these have `capacity` entries."""
    widths = [(0, capacity - size if axis in axes else 0) for axis, size in enumerate(array.shape)]
    return jnp.pad(array, widths)


def room(store: Store, newcomers: int = 1) -> int:
    """The capacity that the store needs for so many more policies in every population: its own, or doubled."""
    capacity, needed = store.capacity, int(np.asarray(store.active).sum(axis=1).max()) + newcomers
    while capacity < needed:
        capacity *= 2
    return capacity


def widen(store: Store, capacity: int) -> Store:
    """The same policies with more room."""
    return Store(
        params=jax.tree.map(lambda leaf: pad_slots(leaf, capacity, (1,)), store.params),
        active=pad_slots(store.active, capacity, (1,)),
    )


def append(store: Store, params: PyTree, keep: np.ndarray) -> tuple[Store, np.ndarray]:
    """The store with one more policy, params [P, ...], in every population where keep [P] is True.

    Also returns which slots are new, [P, K] bool. The store must have room (`room`, `widen`).
    """
    active, keep = np.asarray(store.active), np.asarray(keep, bool)
    slot = active.sum(axis=1)  # slots fill in order
    fresh = (np.arange(store.capacity)[None, :] == slot[:, None]) & keep[:, None]
    if (keep & (slot >= store.capacity)).any():
        raise ValueError(f"the store is full: {slot.tolist()} policies in {store.capacity} slots; widen it first")

    def put(stacked: Array, one: Array) -> Array:
        chex.assert_equal_shape([stacked[:, 0], one])
        mask = fresh.reshape(fresh.shape + (1,) * (stacked.ndim - 2))
        return jnp.where(mask, one[:, None], stacked)

    return Store(jax.tree.map(put, store.params, params), jnp.asarray(active | fresh)), fresh


def chosen_mixture(which: str, iterate: Array, average: Array) -> Array:
    """The mixture that `profile(state, which)` asks for. Raises ValueError for others."""
    if which not in ("iterate", "average"):
        raise ValueError(f"unknown profile {which!r}; known: 'iterate', 'average'")
    return iterate if which == "iterate" else average


def running_mean(average: Array, new: Array, count: int) -> Array:
    """The mean of count + 1 mixtures from that of the first `count`."""
    return (average * count + new) / (count + 1)
