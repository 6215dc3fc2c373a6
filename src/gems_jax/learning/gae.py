"""Generalized advantage estimation over the decisions of one seat."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, PyTree


class Outlook(NamedTuple):
    """What follows the last row of play: its value, and whether that is known."""

    value: Array  # []
    known: Array  # [] bool


def advantages(
    reward: Array,
    value: Array,
    acted: Array,
    terminated: Array,
    truncated: Array,
    outlook: Outlook,
    discount: ArrayLike,
    decay: ArrayLike,
) -> tuple[Array, Array]:
    """Computes generalized advantages of one seat.

        delta_t = r_t + discount V_{t+1} - V_t,    A_t = delta_t + discount * decay * A_{t+1}

    A decision's successor is the seat's next decision: rewards in between are summed into it, other seats' moves leave
    no trace, and the recursion runs over decisions only. Nothing follows a terminated episode. Where play was cut, by a
    time limit or by the end of the rows, the last decision has no advantage, and its own value stands in for what
    followed it.

    Args:
      reward: [T].
      value: [T], the critic's, read where the seat acted.
      acted: [T] bool.
      terminated: [T] bool, the episode ends with this row.
      truncated: [T] bool, play is cut after this row.
      outlook: what follows the last row.
      discount: gamma.
      decay: lambda of GAE.

    Returns:
      Advantages [T], 0 where the seat did not act, and which decisions [T] they are known for.
    """
    chex.assert_rank([reward, value, acted, terminated, truncated], 1)
    Carry = tuple[Array, Array, Array, Array]

    def backward(carry: Carry, row: tuple[Array, ...]) -> tuple[Carry, tuple[Array, Array]]:
        step_reward, step_value, step_acted, ended, cut = row
        zero = jnp.zeros_like(step_value)
        over = (zero, zero, zero, ended)
        next_value, next_advantage, pending, known = _select(ended | cut, over, carry)
        pending = pending + step_reward
        delta = pending + discount * next_value - step_value
        advantage = jnp.where(known, delta + discount * decay * next_advantage, 0.0)
        decided = (step_value, advantage, zero, jnp.ones_like(known))
        waiting = (next_value, next_advantage, pending, known)
        return _select(step_acted, decided, waiting), (advantage, step_acted & known)

    zero = jnp.zeros_like(outlook.value)
    start = (outlook.value, zero, zero, outlook.known)
    rows = (reward, value, acted, terminated, truncated)
    _, (found, known) = jax.lax.scan(backward, start, rows, reverse=True, unroll=len(reward) <= 8)
    return jnp.where(acted, found, 0.0), known


def gae(reward: Array, value: Array, acted: Array, final_value: Array, discount: ArrayLike, decay: ArrayLike) -> Array:
    """Computes `advantages` [T] of one seat in one episode that `final_value` [] follows: 0 unless it was truncated."""
    chex.assert_rank(final_value, 0)
    never = jnp.zeros_like(acted)
    outlook = Outlook(final_value, jnp.bool_(True))
    return advantages(reward, value, acted, never, never, outlook, discount, decay)[0]


def _select(condition: Array, left: PyTree, right: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), left, right)
