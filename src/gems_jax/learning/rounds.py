"""Loops over rounds whose number is static or traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from gems_jax.types import Array

State = TypeVar("State")


def repeat_rounds(
    advance: Callable[[State, Array, Array], State], start: State, key: Array, count: int | Array
) -> State:
    """Runs `count` rounds of `state = advance(state, key, number)`.

    Args:
      advance: one round; `number` [] int32 counts from 0.
      start: the state before the first round.
      key: typed PRNG key; consumed.
      count: number of rounds, a static int or a traced [] int32. Traced rounds draw other keys than static ones.

    Returns:
      The state after the last round.
    """
    if not isinstance(count, int):
        return jax.lax.fori_loop(0, count, lambda n, state: advance(state, jax.random.fold_in(key, n), n), start)
    if count == 0:
        return start
    rounds = (jax.random.split(key, count), jnp.arange(count))
    return jax.lax.scan(lambda state, inputs: (advance(state, *inputs), None), start, rounds)[0]
