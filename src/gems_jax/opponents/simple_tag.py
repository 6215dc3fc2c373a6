"""Scripted pursuers and evader of `simple_tag`, for discrete and for continuous actions.

A pursuer steers to where the evader will be in a moment. The evader is pushed away from pursuers, more by near ones,
and away from the border of the square (-1, 1)^2, beyond which it pays. One policy plays both roles: the observation
ends with the one-hot of the seat.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Policy, PolicyOutput, PyTree

_LEAD = 0.3  # seconds that a pursuer looks ahead
_BORDER = 0.6  # distance from the center at which the border begins to push
_NOISE = -4.0  # log-deviation of continuous actions
# Layout of an observation: own velocity and position, two obstacles, three other agents, the evader's velocity, seat.
_POSITION, _OTHERS, _VELOCITY, _SEAT = slice(2, 4), slice(8, 14), slice(14, 16), slice(16, 20)


@dataclasses.dataclass(frozen=True)
class TagScript:
    """Chases as a pursuer, flees as the evader.

    Args:
      continuous: whether actions are points of (-1, 1)^5 instead of one of five.
    """

    continuous: bool = False

    def direction(self, observation: Array) -> Array:
        """Computes the wanted acceleration of a seat.

        Args:
          observation: [20].

        Returns:
          A direction [2] of length 1 at most.
        """
        position, others = observation[_POSITION], observation[_OTHERS].reshape(3, 2)
        chase = others[2] + _LEAD * (observation[_VELOCITY] - observation[:2])  # the evader is the last other agent
        distance = jnp.sqrt(jnp.sum(others**2, axis=1, keepdims=True)) + 1e-3
        flee = -jnp.sum(others / distance**3, axis=0)
        beyond = jnp.maximum(jnp.abs(position) - _BORDER, 0.0) / (1.0 - _BORDER)
        flee = flee - jnp.sign(position) * 20.0 * beyond**2
        wanted = jnp.where(observation[_SEAT][3] > 0, flee, chase)
        return wanted / (jnp.sqrt(jnp.sum(wanted**2)) + 1e-6)

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        right, up = self.direction(observation)
        push = jnp.stack([jnp.zeros(()), -right, right, -up, up])  # nothing, left, right, down, up
        if self.continuous:
            # Forces are differences of two actions in (0, 1): each axis pushes with one of its two actions.
            wanted = jnp.clip(2.0 * jnp.maximum(push, 0.0) - 1.0, -0.99, 0.99)
            return PolicyOutput(mean=jnp.arctanh(wanted), log_std=jnp.full_like(wanted, _NOISE))
        best = legal & (push == jnp.max(push))
        return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), best))


def tag_script(continuous: bool = False) -> Policy:
    """Makes the scripted policy of both roles of simple_tag.

    Args:
      continuous: whether the game's actions are continuous.

    Returns:
      A policy without parameters.
    """
    return Policy((), TagScript(continuous))
