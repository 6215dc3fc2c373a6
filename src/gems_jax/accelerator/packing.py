"""Shuffling rows on a CPU: boolean arrays packed into uint32 words, and an argsort of uniform draws.

XLA's CPU back end gathers element by element and sorts pairs slowly. Some thirty booleans of a row are gathered as one
uint32, and a sort key with its index is sorted as one uint64, four times as fast as a pair. Results do not depend on
the switch of `accelerator.cpu`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from gems_jax.accelerator.cpu import cpu_workarounds
from gems_jax.types import Array, Struct, static_field

_WORD = 32


class PackedBits(Struct):
    """A boolean array packed into uint32 words along the last axis, which replaces axes of shape `shape`."""

    words: Array  # [..., W] uint32
    shape: tuple[int, ...] = static_field()


def pack_bits(flags: Array, rank: int) -> PackedBits:
    """Packs a boolean array into words along all but its first `rank` axes."""
    shape = flags.shape[rank:]
    size = math.prod(shape)
    words = math.ceil(size / _WORD)
    each = math.ceil(size / words)  # equal in every word: 84 booleans are three times 28
    flat = flags.reshape(*flags.shape[:rank], size)
    flat = jnp.pad(flat, [(0, 0)] * rank + [(0, words * each - size)]).reshape(*flags.shape[:rank], words, each)
    values = jnp.left_shift(jnp.uint32(1), jnp.arange(each, dtype=jnp.uint32)).reshape((1,) * (rank + 1) + (each,))
    return PackedBits(jnp.sum(jnp.where(flat, values, jnp.uint32(0)), axis=-1, dtype=jnp.uint32), shape)


def unpack_bits(bits: PackedBits) -> Array:
    """Restores the boolean array of `pack_bits`."""
    size, words = math.prod(bits.shape), bits.words.shape[-1]
    each = math.ceil(size / words)
    rows = bits.words.shape[:-1]
    shifts = jnp.arange(each, dtype=jnp.uint32).reshape((1,) * bits.words.ndim + (each,))
    flat = (jnp.right_shift(bits.words[..., None], shifts) & 1).reshape(*rows, words * each)
    return (flat[..., :size] > 0).reshape(*rows, *bits.shape)


def argsort_uniform(sort_keys: Array) -> Array:
    """Computes the stable argsort [G, n] int32 of sort keys [G, n] that are multiples of 2^-23 in [0, 2).

    Uniform draws of `jax.random.uniform` are such numbers.
    """
    if not cpu_workarounds():
        return jnp.argsort(sort_keys, axis=1).astype(jnp.int32)
    integers = (sort_keys * 2**23).astype(jnp.uint32)
    with jax.enable_x64(True):
        indices = jnp.arange(sort_keys.shape[1], dtype=jnp.uint64)
        words = (integers.astype(jnp.uint64) << jnp.uint64(32)) | indices[None, :]
        return jax.lax.sort(words, dimension=1, is_stable=False).astype(jnp.uint32).astype(jnp.int32)
