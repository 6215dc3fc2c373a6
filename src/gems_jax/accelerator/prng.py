"""A PRNG implementation that XLA fuses: Threefry-2x32 with 13 rounds, unrolled as plain integer arithmetic.

On a CPU JAX's own Threefry compiles to a loop of several kernels for every split and every draw. An iteration of a
small game is thousands of tiny kernels, and those loops are most of them. Unrolled, a draw becomes part of the kernel
that uses it. 13 is the smallest number of rounds that passes BigCrush according to Salmon et al. (2011, "Parallel
random numbers: as easy as 1, 2, 3"); JAX uses 20. Keys are typed keys, split and consumed like any other. Gain: 2.1 (as
in `accelerator.cpu`).

Solvers made for runs on a CPU convert their key (`fused_key`). Functions that take a key use it as it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jax.typing import ArrayLike

from gems_jax.accelerator.cpu import compute_once, cpu_workarounds
from gems_jax.types import Array

Key = Array | tuple[Array, Array]  # two uint32, or two arrays of uint32
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS = 13
_PARITY = 0x1BD11BDA


def fused_key(key: Array) -> Array:
    """Derives a key of this module's implementation if `cpu_workarounds()`, and returns `key` itself otherwise.

    Args:
      key: any typed PRNG key; consumed.

    Returns:
      A typed PRNG key.
    """
    if not cpu_workarounds():
        return key
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=_implementation())


def split_keys(key: Array, count: int) -> tuple[Array, ...]:
    """Splits a key into a tuple of `count` keys, the same keys as `jax.random.split`. key: consumed.

    A single array of keys would be written to memory before the first draw. Gain: 1.05 in a step of rock-paper-scissors
    with the preset `tuned`.
    """
    if jax.random.key_impl(key) != _implementation():
        return tuple(jax.random.split(key, count))
    high, low = _draw(_both_words, count, jax.random.key_data(key))
    words = (jnp.stack([high[number], low[number]]) for number in range(count))
    return tuple(jax.random.wrap_key_data(two, impl=_implementation()) for two in words)


def draw_uniform(key: Array, shape: tuple[int, ...] = ()) -> Array:
    """Draws numbers from [0, 1), bit for bit those of `jax.random.uniform`, by a quarter of its operations.

    Args:
      key: typed PRNG key; consumed.
      shape: shape of the draws.

    Returns:
      Numbers, `shape`.
    """
    if jax.dtypes.canonicalize_dtype(float) != jnp.float32:  # numbers of 64 bits are switched on
        return jax.random.uniform(key, shape)
    mantissa = jax.lax.shift_right_logical(jax.random.bits(key, shape, jnp.uint32), jnp.uint32(9))
    return jax.lax.bitcast_convert_type(mantissa | jnp.uint32(0x3F800000), jnp.float32) - 1.0


@functools.partial(jax.jit, static_argnames="rounds")
def threefry_2x32(key: Key, high: Array, low: Array, rounds: int = _ROUNDS) -> tuple[Array, Array]:
    """Encrypts two uint32, or arrays of uint32, with Threefry-2x32.

    A program has one function for every shape, which its draws call. XLA inlines the calls.

    Args:
      key: two uint32 that broadcast with `high` and `low`.
      high: first word of the counter.
      low: second word of the counter.
      rounds: number of rounds.

    Returns:
      Two words of the shape of the counter, uint32.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    amounts = [jnp.uint32(_ROTATIONS[number % 8]) for number in range(rounds)]
    for group in range(1, rounds // 4 + 1):  # four rounds, then an injection of the key
        injected = schedule[group % 3], schedule[(group + 1) % 3] + jnp.uint32(group)
        x, y = _mix_four_times(x, y, amounts[4 * group - 4 : 4 * group], injected)
    for amount in amounts[rounds // 4 * 4 :]:
        x, y = _mix(x, y, amount)
    return x, y


@jax.jit
def _mix_four_times(x: Array, y: Array, rotations: list[Array], injected: Key) -> tuple[Array, Array]:
    """Four rounds, and an injection of two words of the key's schedule. rotations: 4 times [] uint32."""
    for rotation in rotations:
        x, y = _mix(x, y, rotation)
    return x + injected[0], y + injected[1]


@jax.jit
def _mix(x: Array, y: Array, rotation: Array) -> tuple[Array, Array]:
    """One round: adds, rotates and combines two words. rotation: [] uint32."""
    x = x + y
    return x, ((y << rotation) | (y >> (jnp.uint32(32) - rotation))) ^ x


@functools.cache
def _draws(
    combine: Callable[[Array, Array], tuple[Array, ...]], count: int, workarounds: bool
) -> Callable[[Array], tuple[Array, ...]]:
    """A function from a key [2] to combine(uint32 [count], uint32 [count]).

    There are few draws per key (the noise and the deal of an episode) and many keys: with the draws along the last axis
    XLA would vectorize nothing. Under `vmap` the longer axis therefore comes last. A program has one function for every
    shape of draws, which is traced once per state of the `workarounds` that `combine` reads.
    """
    del workarounds

    def encrypt(key: Key, counter: Array) -> tuple[Array, ...]:
        return combine(*threefry_2x32(key, jnp.zeros_like(counter), counter))

    @jax.jit
    def draw(key: Array) -> tuple[Array, ...]:
        return encrypt(key, jnp.arange(count, dtype=jnp.uint32))

    @jax.jit
    def draw_for_keys(keys: Array) -> tuple[Array, ...]:
        counter = jnp.arange(count, dtype=jnp.uint32)
        first, second = keys[:, 0], keys[:, 1]
        if len(keys) < count:
            return encrypt((first[:, None], second[:, None]), counter[None])
        return tuple(one.T for one in encrypt((first[None], second[None]), counter[:, None]))

    of_key = jax.custom_batching.custom_vmap(lambda key: draw(key))

    @of_key.def_vmap
    def of_keys(size: int, batched: list[bool], keys: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        del size, batched  # the only argument is batched
        drawn = draw_for_keys(keys)
        return drawn, (True,) * len(drawn)

    return of_key


def _draw(combine: Callable[[Array, Array], tuple[Array, ...]], count: int, key: Array) -> tuple[Array, ...]:
    return _draws(combine, count, cpu_workarounds())(key)


def _both_words(high: Array, low: Array) -> tuple[Array, Array]:
    # LLVM takes minutes to compile nested splits in one kernel, so a split ends a kernel and only draws are fused.
    return compute_once(high), compute_once(low)


def _one_word(high: Array, low: Array) -> tuple[Array]:
    return (compute_once(high ^ low),)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_draw(_both_words, math.prod(shape), key), axis=-1).reshape(*shape, 2)


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    if width == 64:
        high, low = _draw(_both_words, size, key)
        return ((high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)).reshape(shape)
    kinds = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}
    return _draw(_one_word, size, key)[0].astype(kinds[width]).reshape(shape)


def _fold_in(key: Array, data: ArrayLike) -> Array:
    # The high word of the counter is 1, and 0 in a split: folding never gives a key of a split.
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
