"""The Public Goods Game: n players contribute or not, once and simultaneously; the pot is multiplied and shared.

With a_i = 1 for a contribution and S = sum_j a_j, player i earns u_i = (r / n) S - c_i a_i, and all together earn
W = r S - sum_i c_i a_i. If r / n < c_i < r it is a dilemma: withholding dominates for every player, and all would be
better off if all contributed. If r / n > c_i contributing dominates.

For independent cooperation probabilities q_i, u_i = (r / n) sum_j q_j - c_i q_i, and the gain of player i's best reply
is max(0, c_i - r / n) q_i + max(0, r / n - c_i) (1 - q_i).
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, expect

WITHHOLD, CONTRIBUTE = 0, 1


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class PublicGoods:
    """Public goods. Actions: 0 withholds (defects), 1 contributes (cooperates).

    Args:
      n: number of players.
      r: factor of the contributions before they are shared.
      c: cost of a contribution, one number for all or one per player.
      shared: all players are drawn from one population. They are then exchangeable and observe the same, so that a
        policy
        is one cooperation probability. Otherwise each observes its seat.
    """

    n: int = 5
    r: float = 3.0
    c: float | tuple[float, ...] = 1.0
    shared: bool = False

    name = "public_goods"
    num_actions = 2
    max_steps = 1
    simultaneous = True
    continuous = False
    zero_sum = False
    areas = ("welfare", "coop")  # columns whose area under the curve is logged, too

    def __post_init__(self) -> None:
        enough = type(self.n) is int and self.n >= 2
        expect(enough, f"n must be an integer of at least 2, got {self.n!r}.")
        try:
            costs = np.broadcast_to(np.asarray(self.c, np.float64), (self.n,))
            multiplier = float(self.r)
        except (TypeError, ValueError):
            raise ValueError(
                f"r must be a number and c one or {self.n} numbers, got r={self.r!r}, c={self.c!r}."
            ) from None
        sound = 0.0 < multiplier < math.inf and 0.0 <= costs.min() <= costs.max() < math.inf
        expect(sound, f"r must be above 0 and every c at least 0, all finite, got r={self.r!r}, c={self.c!r}.")
        one = costs.min() == costs.max() or not self.shared
        expect(one, f"shared=True makes the players exchangeable: c must be one number, got {self.c!r}.")
        # Normalized, so that c=1, c=1.0 and c=(1, 1, 1, 1, 1) are equal games.
        object.__setattr__(self, "r", multiplier)
        object.__setattr__(self, "c", tuple(costs.tolist()))

    @property
    def num_seats(self) -> int:
        return self.n

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (1,) if self.shared else (self.n,)

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return tuple(range(self.n))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0,) * self.n if self.shared else tuple(range(self.n))

    @property
    def return_bounds(self) -> tuple[float, float]:
        """From contributing alone (or nobody contributing) to withholding alone (or everybody contributing)."""
        costs, fraction = np.asarray(self.c), self.r / self.n
        return min(0.0, fraction - float(costs.max())), max(self.r - fraction, self.r - float(costs.min()))

    def init(self, key: Array) -> GameState:
        """Returns the initial state. key: unused."""
        del key
        return self._game_state(jnp.zeros(self.n, jnp.float32), jnp.zeros((), jnp.bool_))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the joint action, actions [n] int32. key: unused."""
        del key
        given = (actions == CONTRIBUTE).astype(jnp.float32)
        earned = self.r / self.n * jnp.sum(given) - jnp.asarray(self.c, jnp.float32) * given
        return self._game_state(jnp.where(state.done, 0.0, earned), jnp.ones((), jnp.bool_))

    def deals(self) -> tuple[GameState, Array]:
        """Returns the one initial state, [1], and its probability."""
        start = self.init(jax.random.key(0))
        return jax.tree.map(lambda leaf: leaf[None], start), jnp.ones(1, jnp.float32)

    def infosets(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all observations [I, *obs] and legal actions [I, A], without enumerating the 2^n ends."""
        rows = 1 if self.shared else self.n
        return self._observation()[:rows], np.ones((rows, 2), bool)

    def choices(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Returns the cooperation rate (1 / n) sum_i P(a_i = 1)."""
        return {"coop": (np.arange(self.n), self._observation(), np.full(self.n, CONTRIBUTE))}

    def _observation(self) -> np.ndarray:
        """Observations [n, *obs]."""
        return np.ones((self.n, 1), np.float32) if self.shared else np.eye(self.n, dtype=np.float32)

    def _game_state(self, reward: Array, terminated: Array) -> GameState:
        return GameState(
            inner=(),
            observation=jnp.asarray(self._observation()),
            legal=jnp.full((self.n, 2), ~terminated),
            to_move=jnp.full(self.n, ~terminated),
            reward=reward,
            terminated=terminated,
            truncated=jnp.zeros((), jnp.bool_),
        )
