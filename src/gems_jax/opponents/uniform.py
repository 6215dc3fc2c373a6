"""Uniformly random play of any game."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Game, Policy, PolicyOutput, PyTree


@dataclasses.dataclass(frozen=True)
class RandomPlay:
    """Plays every legal action with equal probability.

    Continuous actions are nearly uniform in their box: tanh of a normal with standard deviation 0.9.
    """

    num_actions: int
    continuous: bool = False

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi, observation
        if self.continuous:
            return PolicyOutput(mean=jnp.zeros(self.num_actions), log_std=jnp.full(self.num_actions, np.log(0.9)))
        return PolicyOutput(logits=mask_logits(jnp.zeros(self.num_actions), legal))


def random_policy(game: Game) -> Policy:
    """Makes the policy that plays legal actions uniformly at random."""
    return Policy((), RandomPlay(game.num_actions, game.continuous))
