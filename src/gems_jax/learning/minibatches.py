"""Minibatches: rows of experience in random order, decisions first, gathered where a gradient step needs them.

XLA's CPU back end gathers element by element. Boolean observations are therefore packed into uint32 words, some thirty
elements each, while they are shuffled, and a minibatch is gathered just before its gradient step.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.learning.batches import Experience
from gems_jax.types import Array, Struct, static_field

_ROWS = ("observation", "legal", "action", "log_prob", "acted", "advantage", "target", "row")
_WORD = 32


class Bits(Struct):
    """Flags as words: the last axis holds what would be `shape` flags."""

    words: Array  # [..., W] uint32
    shape: tuple[int, ...] = static_field()


def pack(flags: Array, rank: int) -> Bits:
    """bool [...] as words; the first `rank` axes stay."""
    shape = flags.shape[rank:]
    size = math.prod(shape)
    words = math.ceil(size / _WORD)
    each = math.ceil(size / words)  # the same in every word: 84 are three times 28
    flat = flags.reshape(*flags.shape[:rank], size)
    flat = jnp.pad(flat, [(0, 0)] * rank + [(0, words * each - size)]).reshape(*flags.shape[:rank], words, each)
    values = jnp.left_shift(jnp.uint32(1), jnp.arange(each, dtype=jnp.uint32)).reshape((1,) * (rank + 1) + (each,))
    return Bits(jnp.sum(jnp.where(flat, values, jnp.uint32(0)), axis=-1, dtype=jnp.uint32), shape)


def unpack(bits: Bits) -> Array:
    """The flags again, bool."""
    size, words = math.prod(bits.shape), bits.words.shape[-1]
    each = math.ceil(size / words)
    rows = bits.words.shape[:-1]
    places = jnp.arange(each, dtype=jnp.uint32).reshape((1,) * bits.words.ndim + (each,))
    flat = (jnp.right_shift(bits.words[..., None], places) & 1).reshape(*rows, words * each)
    return (flat[..., :size] > 0).reshape(*rows, *bits.shape)


def pack_observations(batch: Experience) -> Experience:
    """Stores observations as `Bits`, where they are flags: for `gather_rows`."""
    if batch.observation.dtype != np.bool_ or not batch.observation[0, 0].size:
        return batch
    packed: Any = pack(batch.observation, 2)
    return batch.replace(observation=packed)


def gather_rows(batch: Experience, indices: Array) -> Experience:
    """Gathers the rows at `indices` [G, n] of every code: [G, n, ...]."""
    rows = {name: getattr(batch, name) for name in _ROWS}
    drawn: dict[str, Any] = jax.tree.map(lambda leaf: jax.vmap(lambda r, i: r[i])(leaf, indices), rows)
    if isinstance(drawn["observation"], Bits):
        drawn["observation"] = unpack(drawn["observation"])
    return batch.replace(**drawn)


def sample_decisions(key: Array, batch: Experience, count: int) -> Experience:
    """Draws `count` rows per code in random order, decisions first: [G, count, ...]. key: consumed."""
    return gather_rows(batch, _shuffled_indices(key, batch, count))


def shuffle_rows(key: Array, batch: Experience, minibatches: int, fraction: float) -> Array:
    """Distributes a fraction of the rows, decisions first, among minibatches: indices [minibatches, G, rows].

    key: consumed.
    """
    available = batch.acted.shape[1]
    size = min(math.ceil(fraction * available / minibatches), available // minibatches)
    indices = _shuffled_indices(key, batch, size * minibatches)
    return jnp.moveaxis(indices.reshape(len(indices), minibatches, size), 1, 0)


def _shuffled_indices(key: Array, batch: Experience, count: int) -> Array:
    """Indices [G, count] of rows in random order, decisions first. key: consumed."""
    # The sort key of a decision is below 1, any other row's above: the first in order are decisions, drawn at random.
    sort_keys = jax.random.uniform(key, batch.acted.shape) + jnp.where(batch.acted, 0.0, 1.0)
    return _argsort(sort_keys)[:, :count]


def _argsort(sort_keys: Array) -> Array:
    """argsort [G, n] of multiples of 2^-23 in [0, 2), as uniform draws are.

    A sort key and its index make one uint64, which a CPU sorts four times as fast as pairs.
    """
    integers = (sort_keys * 2**23).astype(jnp.uint32)
    with jax.enable_x64(True):
        indices = jnp.arange(sort_keys.shape[1], dtype=jnp.uint64)
        words = (integers.astype(jnp.uint64) << jnp.uint64(32)) | indices[None, :]
        return jax.lax.sort(words, dimension=1, is_stable=False).astype(jnp.uint32).astype(jnp.int32)
