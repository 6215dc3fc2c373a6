"""A random stream that fuses: Threefry-2x32 with 13 rounds, written out as plain integer arithmetic.

JAX's own Threefry compiles to a loop of several kernels for every split and every draw; on a CPU, where an iteration
of a small game is thousands of tiny kernels, they are most of the program. Written out, a draw becomes part of the
kernel that uses it. 13 rounds is the fewest that Salmon et al. (2011, "Parallel random numbers: as easy as 1, 2, 3")
report to pass BigCrush; JAX uses 20. Key discipline is that of `jax.random`: a stream's keys are typed keys, split and
consumed like any other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jax.typing import ArrayLike

from gems_jax.types import Array

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS = 13
_PARITY = 0x1BD11BDA


def threefry_2x32(key: Array, high: Array, low: Array, rounds: int = _ROUNDS) -> tuple[Array, Array]:
    """The block cipher: two words under a key [2], all uint32."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    for number in range(rounds):
        rotation = _ROTATIONS[number % 8]
        x = x + y
        y = ((y << rotation) | (y >> (32 - rotation))) ^ x
        if number % 4 == 3:  # inject the key
            turn = number // 4 + 1
            x = x + schedule[turn % 3]
            y = y + schedule[(turn + 1) % 3] + jnp.uint32(turn)
    return x, y


def _words(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    counter = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return threefry_2x32(key, jnp.zeros_like(counter), counter)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    # Keys of keys of keys in one kernel take LLVM minutes to compile: a split ends a kernel, only draws fuse.
    return jax.lax.optimization_barrier(jnp.stack(_words(key, shape), axis=-1))


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    x, y = _words(key, shape)
    if width == 64:
        return (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    kinds = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}
    return (x ^ y).astype(kinds[width])


def _fold_in(key: Array, data: ArrayLike) -> Array:
    # A counter of its own in the high word: folding never gives what a split of the same key gives.
    return jnp.stack(threefry_2x32(key, jnp.uint32(1), jnp.asarray(data).astype(jnp.uint32)))


def _seed(seed: Array) -> Array:
    return jnp.stack([jnp.uint32(0), jnp.asarray(seed).astype(jnp.uint32)])


@functools.cache
def _implementation() -> Hashable:
    return define_prng_impl(
        key_shape=(2,),
        seed=_seed,
        split=_split,
        random_bits=_random_bits,
        fold_in=_fold_in,
        name="gems_jax_threefry13",
        tag="g13",
    )


def stream(key: Array) -> Array:
    """A key of the fused stream, drawn from any typed key. key: consumed."""
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=_implementation())
