"""Loops over a static or traced number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from gems_jax.types import Array

State = TypeVar("State")
Counted = TypeVar("Counted")


def sum_rounds(
    advance: Callable[[State, Array, Array], tuple[State, Counted]], start: State, key: Array, count: int | Array
) -> tuple[State, Counted]:
    """Runs `count` rounds of `state, counted = advance(state, key, number)`, and sums `counted` over them.

    Args:
      advance: one round; `number` [] int32 counts from 0.
      start: the state before the first round.
      key: typed PRNG key; consumed.
      count: number of rounds, a static int or a traced [] int32. Traced rounds use other keys than static ones.

    Returns:
      The state after the last round, and the sums of the leaves of `counted` over all rounds.
    """
    if isinstance(count, int) and count > 0:
        rounds = (jax.random.split(key, count), jnp.arange(count))
        last, counted = jax.lax.scan(lambda state, inputs: advance(state, *inputs), start, rounds)
        return last, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0, dtype=leaf.dtype), counted)
    shapes = jax.eval_shape(lambda state: advance(state, jax.random.key(0), jnp.int32(0))[1], start)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    if isinstance(count, int):
        return start, nothing

    def add_round(number: Array, loop: tuple[State, Any]) -> tuple[State, Any]:
        state, counted = advance(loop[0], jax.random.fold_in(key, number), number)
        return state, jax.tree.map(jnp.add, loop[1], counted)

    return jax.lax.fori_loop(0, count, add_round, (start, nothing))


def repeat_rounds(
    advance: Callable[[State, Array, Array], State], start: State, key: Array, count: int | Array
) -> State:
    """Runs `count` rounds of `state = advance(state, key, number)`; see `sum_rounds`."""
    if isinstance(count, int) and count == 0:
        return start
    return sum_rounds(lambda *inputs: (advance(*inputs), ()), start, key, count)[0]
