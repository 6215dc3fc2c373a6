"""The Deceptive Messages Game: a Sender who knows the best arm and a Receiver who must not trust it.

The Sender observes which of K Bernoulli arms is best and sends one of K messages. The Receiver observes the message and
pulls an arm. The Receiver earns the payoff of the arm; the Sender earns 1 if the arm is the *target*, which is never
the best. In mode `fixed` the best arm is the same in every episode, so the Receiver has a dominant reply and the
equilibrium payoffs are unique: 0 for the Sender, the best mean for the Receiver. In mode `random` the best arm is drawn
among the arms other than the target. The Sender earns 0 in every equilibrium and need not reveal what it knows.

`step` draws rewards; exact evaluation uses `expected_step`, in which every arm pays its mean.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, Struct, expect

Mode = Literal["fixed", "random"]
RewardMode = Literal["general", "zero_sum"]
SENDER, RECEIVER = 0, 1


class Message(Struct):
    """State of an episode. All [] int32."""

    best: Array  # the best arm, which the Sender observes
    message: Array  # the message, -1 before it is sent
    turn: Array  # 0: Sender, 1: Receiver, 2: finished


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class DeceptiveMessages:
    """Deceptive messages: seat 0 is the Sender, seat 1 the Receiver; both have K actions, messages and arms.

    Args:
      mode: "fixed": the best arm is always the same; "random": it is uniform over the arms other than the target.
      reward_mode: "general": the Sender earns 1 if the target is pulled; "zero_sum": it loses what the Receiver earns.
      arms: K.
      means: mean payoffs in [0, 1]. "fixed": one number per arm (default: evenly spaced from 0.8 to 0.2). "random": of
        the
        best arm, of the other arms and of the target (default: 0.8, 0.4, 0.2).
      target: the arm that the Sender wants pulled; negative numbers count from the last arm.
    """

    mode: Mode = "fixed"
    reward_mode: RewardMode = "general"
    arms: int = 4
    means: tuple[float, ...] = ()
    target: int = -1

    name = "deceptive_messages"
    num_seats = 2
    max_steps = 2
    simultaneous = False
    continuous = False
    player_of_seat = (0, 1)
    population_of_player = (0, 1)
    player_names = ("sender", "receiver")

    def __post_init__(self) -> None:
        for field, value, known in (("mode", self.mode, Mode), ("reward_mode", self.reward_mode, RewardMode)):
            names = get_args(known)
            expect(value in names, f"{field} must be one of {', '.join(names)}, got {value!r}.")
        enough = type(self.arms) is int and self.arms >= 2
        expect(enough, f"arms must be an integer of at least 2, got {self.arms!r}.")
        inside = type(self.target) is int and -self.arms <= self.target < self.arms
        expect(inside, f"target must be one of the {self.arms} arms, 0 to {self.arms - 1}, got {self.target!r}.")
        # Resolve defaults, so that explicit and default arguments give equal games with equal hashes.
        object.__setattr__(self, "target", self.target % self.arms)
        object.__setattr__(self, "means", self._resolve_means())

    def _resolve_means(self) -> tuple[float, ...]:
        if self.mode == "random":
            means = self._parse_means((0.8, 0.4, 0.2), "three, of the best arm, the other arms and the target")
            expect(means[0] > max(means[1:]), f"means must be highest for the first, the best arm, got {means}.")
            return means
        even = tuple(round(0.8 - 0.6 * arm / (self.arms - 1), 6) for arm in range(self.arms))
        means = self._parse_means(even, f"one per arm, {self.arms}")
        expect(means.count(max(means)) == 1, f"means must have a unique maximum, got {means}.")
        expect(
            means.index(max(means)) != self.target,
            f"target must not be the best arm, got {self.target} with means {means}. Choose another target or other "
            "means.",
        )
        return means

    def _parse_means(self, default: tuple[float, ...], expected: str) -> tuple[float, ...]:
        try:
            means = tuple(float(mean) for mean in self.means) or default
        except (TypeError, ValueError):
            raise ValueError(f"means must be numbers ({expected}), got {self.means!r}.") from None
        fits = len(means) == len(default) and 0.0 <= min(means) <= max(means) <= 1.0
        expect(fits, f"means must be numbers from 0 to 1 ({expected}), got {self.means!r}.")
        return means

    @property
    def num_actions(self) -> int:
        return self.arms

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """One-hot of the best arm (Sender) or of the message (Receiver; zeros before), then of the seat."""
        return (self.arms + 2,)

    @property
    def return_bounds(self) -> tuple[float, float]:
        return (-1.0, 1.0) if self.zero_sum else (0.0, 1.0)

    @property
    def zero_sum(self) -> bool:
        return self.reward_mode == "zero_sum"

    @property
    def best_arms(self) -> tuple[int, ...]:
        """The arms that may be the best one, with equal probability."""
        if self.mode == "fixed":
            return (max(range(self.arms), key=self.means.__getitem__),)
        return tuple(arm for arm in range(self.arms) if arm != self.target)

    def arm_means(self, best: Array) -> Array:
        """Returns the mean payoffs [K] of the arms when `best` is the best one."""
        if self.mode == "fixed":
            return jnp.asarray(self.means, jnp.float32)
        high, other, target = self.means
        arm = jnp.arange(self.arms)
        return jnp.where(arm == best, high, jnp.where(arm == self.target, target, other)).astype(jnp.float32)

    def init(self, key: Array) -> GameState:
        """Draws the best arm in mode `random`. key: consumed."""
        choice = jax.random.randint(key, (), 0, len(self.best_arms)) if len(self.best_arms) > 1 else 0
        return self._start(jnp.asarray(self.best_arms, jnp.int32)[choice])

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the message or the arm, actions [2] int32, and draws the payoff. key: consumed."""
        mean = self._mean_paid(state, actions)
        return self._step(state, actions, (jax.random.uniform(key) < mean).astype(jnp.float32))

    def expected_step(self, state: GameState, actions: Array) -> GameState:
        """Plays a step with the mean payoff of the arm, for exact evaluation."""
        return self._step(state, actions, self._mean_paid(state, actions))

    def deals(self) -> tuple[GameState, Array]:
        """Returns one initial state per possible best arm, [N], and their probabilities, [N]."""
        count = len(self.best_arms)
        return jax.vmap(self._start)(jnp.asarray(self.best_arms, jnp.int32)), jnp.full(count, 1.0 / count, jnp.float32)

    def choices(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Returns P(target | message) for every message, also off the path of play."""
        seen = np.concatenate([np.eye(self.arms), np.tile([0.0, 1.0], (self.arms, 1))], axis=1)
        return {
            f"target_after_{message}": (np.array([RECEIVER]), seen[message][None], np.array([self.target]))
            for message in range(self.arms)
        }

    def _mean_paid(self, state: GameState, actions: Array) -> Array:
        return jnp.sum(jnp.where(jnp.arange(self.arms) == actions[RECEIVER], self.arm_means(state.inner.best), 0.0))

    def _start(self, best: Array) -> GameState:
        return self._game_state(Message(best, jnp.int32(-1), jnp.int32(0)), jnp.zeros(2, jnp.float32))

    def _step(self, state: GameState, actions: Array, paid: Array) -> GameState:
        inner: Message = state.inner
        pulled = inner.turn == 1
        message = jnp.where(inner.turn == 0, actions[SENDER], inner.message)
        deceived = -paid if self.zero_sum else (actions[RECEIVER] == self.target).astype(jnp.float32)
        reward = jnp.where(pulled, jnp.stack([deceived, paid]), 0.0)
        return self._game_state(Message(inner.best, message, jnp.minimum(inner.turn + 1, 2)), reward)

    def _game_state(self, inner: Message, reward: Array) -> GameState:
        shown = jnp.stack([inner.best, inner.message])  # -1 shows nothing
        arms, seats = jnp.arange(self.arms), jnp.arange(2)
        bits: list[Any] = [shown[:, None] == arms[None, :], seats[:, None] == seats[None, :]]
        to_move = seats == inner.turn
        return GameState(
            inner=inner,
            observation=jnp.concatenate(bits, axis=1).astype(jnp.float32),
            legal=jnp.broadcast_to(to_move[:, None], (2, self.arms)),
            to_move=to_move,
            reward=reward,
            terminated=inner.turn == 2,
            truncated=jnp.zeros((), jnp.bool_),
        )
