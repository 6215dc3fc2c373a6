"""Shifting Meta: a bandit whose best arm changes, for studies of the oracle's indices (`gems_jax.meta.bandit`).

It is not a `Game`, because there is no opponent. `pull` fits `experiments.measures.bandit.play_bandit`:

    bandit = ShiftingMeta()
    history = play_bandit(key, bandit.pull, index, bandit.num_arms, horizon=2000, forced_pulls=2)
    bandit.regret(history.arms)

The paper describes the bandit (3 arms, a shift at round 1000, the new best arm noisier) without numbers. The defaults
were chosen to match the description; their rewards span about [-3, 6], far beyond the [0, 1] that the indices assume.
`bounded` is the control: the same shift in [0, 1], where UCB1 adapts about as quickly as EB-UCB.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array


class Regret(NamedTuple):
    """Cumulative regret over rounds, [T] each. Against the best arm of the round it never decreases."""

    current: Array  # against the arm that is best in the round itself
    first_phase: Array  # against the mean of the arm that was best before the shift, throughout: it may fall


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ShiftingMeta:
    """Gaussian arms whose means change after round `shift`; rounds count from 1.

    before, after: means of the arms; deviation: their standard deviations.
    clip: clip rewards to [0, 1]. `means` and regrets stay those of the Gaussians before clipping.
    """

    before: tuple[float, ...] = (0.4, 1.0, 0.5)
    after: tuple[float, ...] = (2.0, 0.5, 0.4)
    deviation: tuple[float, ...] = (1.3, 0.1, 0.1)
    shift: int = 1000
    clip: bool = False

    def __post_init__(self) -> None:
        sizes = {len(self.before), len(self.after), len(self.deviation)}
        if len(sizes) != 1 or sizes == {0}:
            raise ValueError(f"before, after and deviation need one number per arm each, got lengths {sorted(sizes)}.")
        if min(self.deviation) < 0 or self.shift < 0:
            raise ValueError(f"deviation and shift must not be negative, got {self.deviation} and {self.shift}.")

    @classmethod
    def bounded(cls, shift: int = 1000) -> ShiftingMeta:
        """Makes the control, with all rewards in [0, 1]."""
        return cls((0.3, 0.7, 0.5), (0.9, 0.5, 0.4), (0.3, 0.05, 0.05), shift, clip=True)

    @property
    def num_arms(self) -> int:
        return len(self.before)

    def means(self, t: ArrayLike) -> Array:
        """Returns the means [..., arms] in round t [...]."""
        late = jnp.asarray(t)[..., None] > self.shift
        shape = (*late.shape[:-1], self.num_arms)
        before, after = (jnp.broadcast_to(jnp.asarray(row, jnp.float32), shape) for row in (self.before, self.after))
        return jnp.where(late, after, before)

    def pull(self, key: Array, arm: ArrayLike, t: ArrayLike) -> Array:
        """Draws rewards [...] of arms [...] in round t (one for all, or one each). The key is consumed."""
        arm = jnp.asarray(arm)
        mean = _of_arm(self.means(jnp.broadcast_to(t, arm.shape)), arm)
        deviation = jnp.asarray(self.deviation, jnp.float32)[arm]
        reward = mean + deviation * jax.random.normal(key, arm.shape)
        return jnp.clip(reward, 0.0, 1.0) if self.clip else reward

    def best(self, t: ArrayLike) -> Array:
        """Returns the best arm [...] in round t [...]."""
        return jnp.argmax(self.means(t), axis=-1)

    def regret(self, arms: Array) -> Regret:
        """Computes the regret of the arms [T] pulled in rounds 1 to T, in means, without the noise of rewards."""
        chex.assert_rank(arms, 1)
        means = self.means(jnp.arange(1, arms.shape[0] + 1))  # [T, arms]
        earned = _of_arm(means, arms)
        return Regret(
            current=jnp.cumsum(means.max(axis=-1) - earned), first_phase=jnp.cumsum(max(self.before) - earned)
        )


def _of_arm(rows: Array, arm: Array) -> Array:
    return jnp.take_along_axis(rows, arm[..., None], axis=-1)[..., 0]
