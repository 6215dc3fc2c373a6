"""Fixed opponents for measurements: uniformly random play, and a one-ply tactician for Connect Four."""

from __future__ import annotations

import dataclasses
import functools
import itertools

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


@functools.cache
def _lines(height: int, width: int) -> np.ndarray:
    """Returns every line of four on a board as masks [lines, height * width]."""
    lines = []
    for row, column, (down, right) in itertools.product(range(height), range(width), [(0, 1), (1, 0), (1, 1), (1, -1)]):
        squares = [(row + step * down, column + step * right) for step in range(4)]
        if all(0 <= r < height and 0 <= c < width for r, c in squares):
            mask = np.zeros((height, width), np.float32)
            mask[tuple(zip(*squares, strict=True))] = 1.0
            lines.append(mask.reshape(-1))
    return np.stack(lines)


@dataclasses.dataclass(frozen=True)
class Tactician:
    """Plays Connect Four one ply deep: wins if it can, else blocks if it must, else plays at random."""

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        height, width = observation.shape[:2]
        lines = jnp.asarray(_lines(height, width))
        filled = observation.sum(axis=(0, 2)).astype(jnp.int32)  # [width]
        drop = (height - 1 - filled)[None, :] == jnp.arange(height)[
            :, None
        ]  # [height, width], where a stone would land

        def completes(stones: Array) -> Array:
            """Finds the columns [width] where one more stone makes four."""
            three = (lines @ stones.reshape(-1)) == 3.0
            targets = jnp.any(three[:, None] & (lines > 0.0), axis=0).reshape(height, width)
            return jnp.any(targets & drop, axis=0) & legal

        wins, blocks = completes(observation[:, :, 0]), completes(observation[:, :, 1])
        wanted = jnp.where(wins.any(), wins, jnp.where(blocks.any(), blocks, legal))
        return PolicyOutput(logits=mask_logits(jnp.zeros(width), wanted))


def tactician() -> Policy:
    """Makes the one-ply policy for Connect Four."""
    return Policy((), Tactician())


def opponents_of(game: Game) -> dict[str, Policy]:
    """Returns the fixed opponents that a game's mixtures are measured against, by label."""
    known = {"random": random_policy(game)}
    return known | {"tactician": tactician()} if game.name == "connect_four" else known
