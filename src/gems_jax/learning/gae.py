"""Advantages over the decisions of one seat: generalized advantage estimation, or action values.

    gae             A_t = sum_k (gamma lambda)^k delta_{t+k},   delta_t = r_t + gamma V(o_{t+1}) - V(o_t)
    q               A_t = Q(o_t, a_t) - V(o_t),                 V(o) = sum_b pi(b|o) Q(o, b)
    doubly_robust   w_t(b) = pi(b|o_t) (Q(o_t, b) - V(o_t)) + [b = a_t] (G_t - Q(o_t, a_t))   for every action b

pi is the policy that played. With gae and q, the gradient of a decision is A_t grad log pi(a_t|o_t); with doubly_robust
it is sum_b w_t(b) grad log pi(b|o_t), to first order. Critics are trained at the action taken towards the lambda-return

    G_t = r_t + gamma ((1 - lambda) V(o_{t+1}) + lambda G_{t+1}) = V(o_t) + A_t of gae

which for Q is the target of expected SARSA with lambda = 0, and the return with lambda = 1.

Bias and noise: q is the advantage of COMA (Foerster et al. 2018). It has no noise from the rest of the episode, but an
inexact Q biases the gradient, whatever lambda is. gae and doubly_robust are unbiased for any critic if lambda = 1.
doubly_robust has the sum over actions of mean actor-critic, corrected by the return: an accurate Q removes the noise of
the action's choice.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, PyTree


class Outlook(NamedTuple):
    """The value of the position after the last row, and whether it is known."""

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
    """Computes the generalized advantages A-hat of eq:abr-tr_revised for one seat.

        delta_t = r_t + discount V_{t+1} - V_t,    A_t = delta_t + discount * decay * A_{t+1}

    The recursion runs over the decisions of the seat only: t + 1 is its next decision, and r_t sums the rewards until
    then. The value after a terminated episode is 0. Where play is cut by a time limit or by the end of the rows and the
    next value is unknown, the last decision gets no advantage, and the earlier ones bootstrap from its value.

    Args:
      reward: [T].
      value: [T], values of the critic, read where the seat acted.
      acted: [T] bool.
      terminated: [T] bool, whether the episode ends with this row.
      truncated: [T] bool, whether play is cut after this row.
      outlook: the value after the last row.
      discount: gamma.
      decay: lambda of GAE.

    Returns:
      Advantages [T], 0 where the seat did not act, and a mask [T] of the decisions whose advantage is known.
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
    unrolled = len(reward) <= 8
    body = jax.jit(backward) if unrolled else backward
    _, (found, known) = jax.lax.scan(body, start, rows, reverse=True, unroll=unrolled)
    return jnp.where(acted, found, 0.0), known


def gae(reward: Array, value: Array, acted: Array, final_value: Array, discount: ArrayLike, decay: ArrayLike) -> Array:
    """Computes the generalized advantages of one seat in one whole episode; see `advantages`.

    Args:
      reward: [T].
      value: [T], values of the critic, read where the seat acted.
      acted: [T] bool.
      final_value: [], value after the episode: 0 unless it was truncated.
      discount: gamma.
      decay: lambda of GAE.

    Returns:
      Advantages [T], 0 where the seat did not act.
    """
    chex.assert_rank(final_value, 0)
    never = jnp.zeros_like(acted)
    outlook = Outlook(final_value, jnp.bool_(True))
    return advantages(reward, value, acted, never, never, outlook, discount, decay)[0]


def expected_value(action_values: Array, probs: Array) -> Array:
    """Computes V(o) = sum_b pi(b|o) Q(o, b).

    Args:
      action_values: Q of every action, [..., A]; illegal actions have any finite number.
      probs: probabilities of the policy that played, [..., A], 0 for illegal actions.

    Returns:
      V, [...].
    """
    chex.assert_equal_shape([action_values, probs])
    return jnp.sum(probs * action_values, axis=-1)


def doubly_robust_weights(action_values: Array, probs: Array, action: Array, target: Array) -> Array:
    """Computes the weight of every action in the policy gradient of a decision.

        w(b) = pi(b|o) (Q(o, b) - V(o)) + [b = a] (G - Q(o, a)),   V(o) = sum_b pi(b|o) Q(o, b)

    Args:
      action_values: Q of every action, [..., A].
      probs: probabilities of the policy that played, [..., A], 0 for illegal actions.
      action: action taken a, [...] int32.
      target: lambda-return G, [...].

    Returns:
      Weights, [..., A].
    """
    value = expected_value(action_values, probs)[..., None]
    taken = jax.nn.one_hot(action, probs.shape[-1])
    return probs * (action_values - value) + taken * (target[..., None] - action_values)


def _select(condition: Array, left: PyTree, right: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), left, right)
