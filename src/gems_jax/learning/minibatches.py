"""Minibatches: rows of experience in random order, decisions first, gathered where a gradient step needs them.

XLA's CPU back end gathers element by element. Observations of bits are therefore kept as words, some thirty elements
each, while they are shuffled, and a minibatch is gathered when its turn comes: nothing larger is copied.
"""

from __future__ import annotations

import dataclasses
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


def small(batch: Experience) -> Experience:
    """The batch with its observations as `Bits`, where they are flags: for `rows_at`."""
    if batch.observation.dtype != np.bool_ or not batch.observation[0, 0].size:
        return batch
    kept: dict[str, Any] = {"observation": pack(batch.observation, 2)}
    return dataclasses.replace(batch, **kept)


def rows_at(batch: Experience, places: Array) -> Experience:
    """The rows at some places [G, n] of every code: [G, n, ...]."""
    rows = {name: getattr(batch, name) for name in _ROWS}
    drawn: dict[str, Any] = jax.tree.map(lambda leaf: jax.vmap(lambda r, i: r[i])(leaf, places), rows)
    if isinstance(drawn["observation"], Bits):
        drawn["observation"] = unpack(drawn["observation"])
    return dataclasses.replace(batch, **drawn)


def decisions(key: Array, batch: Experience, count: int) -> Experience:
    """`count` rows per code in random order, decisions first: [G, count, ...]. key: consumed."""
    return rows_at(batch, _shuffled(key, batch, count))


def shuffle(key: Array, batch: Experience, minibatches: int, kept: float) -> Array:
    """Where the rows of each minibatch are, the share `kept` of all, in random order: [minibatches, G, rows].

    key: consumed.
    """
    available = batch.acted.shape[1]
    size = min(math.ceil(kept * available / minibatches), available // minibatches)
    places = _shuffled(key, batch, size * minibatches)
    return jnp.moveaxis(places.reshape(len(places), minibatches, size), 1, 0)


def _shuffled(key: Array, batch: Experience, count: int) -> Array:
    """Places [G, count] of rows in random order, decisions first. key: consumed."""
    # A decision's lot is below 1, any other row's above: the first in order are decisions, drawn at random.
    lots = jax.random.uniform(key, batch.acted.shape) + jnp.where(batch.acted, 0.0, 1.0)
    return _order(lots)[:, :count]


def _order(lots: Array) -> Array:
    """argsort [G, n] of multiples of 2^-23 in [0, 2), as uniform draws are: a number and its place make one word, and
    words are sorted four times as fast as pairs on a CPU."""
    whole = (lots * 2**23).astype(jnp.uint32)
    with jax.enable_x64(True):
        places = jnp.arange(lots.shape[1], dtype=jnp.uint64)
        words = (whole.astype(jnp.uint64) << jnp.uint64(32)) | places[None, :]
        return jax.lax.sort(words, dimension=1, is_stable=False).astype(jnp.uint32).astype(jnp.int32)
