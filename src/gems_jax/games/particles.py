"""Particle worlds of MPE: `simple_tag` (three pursuers, an evader, two obstacles) and `simple_spread`.

The physics is that of mpe2 (PettingZoo) and JaxMARL; tests compare it with both, step by step. The code is specialized
to these worlds: contacts are a fixed list of pairs, nothing is gathered, and the noise that JaxMARL multiplies by zero
is not drawn. On one core it is 4 to 8 times as fast as JaxMARL, and neither library is needed to play. JaxMARL's own
worlds are `jaxmarl:MPE_simple_tag_v3` and so on.

Differences:
- An episode has exactly `max_steps` steps and is then truncated (as in mpe2; JaxMARL runs one step more).
- Obstacles of tag start within 0.9 of the center, as in mpe2 (JaxMARL: 1.0).
- Observations end with the one-hot of the seat; the evader's is padded with zeros in front of it. The messages of
  spread are left out: they are always zero in the originals.
- A continuous action is a point of (-1, 1)^5, mapped onto the originals' (0, 1)^5.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.games.sides import Sided, check_sides
from gems_jax.types import Array, GameState, Struct, expect

DT = 0.1
DAMPING = 0.25
CONTACT_FORCE = 100.0
CONTACT_MARGIN = 1e-3
USUAL_STEPS = 25  # episode length of the declared typical returns


class Particles(Struct):
    """State of a world. Agents come first, then landmarks, which never move."""

    position: Array  # [E, 2]
    velocity: Array  # [S, 2]
    time: Array  # [] int32


class Body(NamedTuple):
    """Kind and geometry of an agent or a landmark."""

    kind: str  # pursuer, evader, obstacle; agent, landmark
    radius: float
    collides: bool
    start: float = 1.0  # initial coordinates are uniform within this distance of 0


class _Motor(NamedTuple):
    accel: float
    max_speed: float  # inf for none


def _norm(vectors: Array) -> Array:
    return jnp.sqrt(jnp.sum(vectors**2, axis=-1))


@dataclass(frozen=True)
class ParticleGame(Sided):
    """Base of the particle worlds: bodies, motion, contacts, the time limit.

    Args:
      teams: see `Sided`.
      shared: see `Sided`.
      continuous: actions are points of (-1, 1)^5 (nothing, left, right, down, up) instead of one of five.
      max_steps: length of every episode.
    """

    teams: bool = True
    shared: bool = False
    continuous: bool = False
    max_steps: int = USUAL_STEPS

    num_actions = 5
    simultaneous = True
    zero_sum = False
    typical_bounds = True

    def __post_init__(self) -> None:
        check_sides(self.name, self.teams, self.shared)
        sound = isinstance(self.max_steps, int) and self.max_steps >= 1
        expect(sound, f"{self.name}: max_steps must be an integer of at least 1, got {self.max_steps!r}")

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def bodies(self) -> tuple[Body, ...]:
        """Agents and landmarks, [E]."""

    @property
    @abstractmethod
    def _motors(self) -> tuple[_Motor, ...]:
        """Motors of the agents, [S]."""

    @property
    @abstractmethod
    def _usual_returns(self) -> tuple[float, float]:
        """Interval of nearly all returns of a player in an episode of USUAL_STEPS."""

    @abstractmethod
    def _observe_seat(self, world: Particles, seat: int) -> list[Array]:
        """Returns the parts of a seat's observation, of equal total length for all seats."""

    @abstractmethod
    def _rewards(self, position: Array) -> Array:
        """Returns the rewards [S]."""

    @property
    def return_bounds(self) -> tuple[float, float]:
        """Typical returns, proportional to the length of an episode; not strict."""
        low, high = self._usual_returns
        return low * self.max_steps / USUAL_STEPS, high * self.max_steps / USUAL_STEPS

    def init(self, key: Array) -> GameState:
        """Draws positions. key: consumed."""
        reach = np.asarray([[body.start] * 2 for body in self.bodies], np.float32)
        position = jax.random.uniform(key, reach.shape, minval=-1.0, maxval=1.0) * reach
        return self._game_state(Particles(position, jnp.zeros((self.num_seats, 2)), jnp.int32(0)))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Moves all agents. actions: [S] int32, or [S, 5] in (-1, 1) if continuous. key: unused."""
        del key
        old: Particles = state.inner
        moved = self._move(old, actions)
        world = jax.tree.map(lambda new, was: jnp.where(state.done, was, new), moved, old)
        return self._game_state(world, jnp.where(state.done, 0.0, self._rewards(world.position)))

    def _move(self, world: Particles, actions: Array) -> Particles:
        """Moves positions by the old velocity; damps, accelerates and limits the velocity."""
        seats = self.num_seats
        accel, top = (np.asarray(column, np.float32)[:, None] for column in zip(*self._motors, strict=True))
        force = self._thrust(actions) * accel + self._contacts(world.position)
        velocity = world.velocity * (1.0 - DAMPING) + force * DT
        if np.isfinite(top).all():
            speed = _norm(velocity)[:, None]
            fast = speed > top
            velocity = jnp.where(fast, velocity / jnp.where(fast, speed, 1.0) * top, velocity)
        agents = world.position[:seats] + world.velocity * DT
        return Particles(jnp.concatenate([agents, world.position[seats:]]), velocity, world.time + 1)

    def _thrust(self, actions: Array) -> Array:
        """Returns the control force [S, 2], each coordinate in [-1, 1]."""
        if self.continuous:
            fraction = (jnp.clip(actions, -1.0, 1.0) + 1.0) / 2.0
        else:
            fraction = (actions[:, None] == jnp.arange(5)[None, :]).astype(jnp.float32)
        return jnp.stack([fraction[:, 2] - fraction[:, 1], fraction[:, 4] - fraction[:, 3]], axis=1)

    def _contacts(self, position: Array) -> Array:
        """Returns the forces [S, 2] of soft contacts between all pairs of colliding bodies."""
        bodies, seats = self.bodies, self.num_seats
        solid = [number for number, body in enumerate(bodies) if body.collides]
        pairs = [pair for pair in itertools.combinations(solid, 2) if pair[0] < seats]
        offset = jnp.stack([position[a] - position[b] for a, b in pairs])  # [pairs, 2]
        reach = np.asarray([bodies[a].radius + bodies[b].radius for a, b in pairs], np.float32)
        distance = _norm(offset)
        depth = jnp.logaddexp(0.0, (reach - distance) / CONTACT_MARGIN) * CONTACT_MARGIN
        # Two bodies at the same position repel in no direction: no force, where the originals give NaN.
        push = offset * (CONTACT_FORCE * depth / jnp.where(distance > 0, distance, 1.0))[:, None]
        total = [jnp.zeros(2)] * len(bodies)
        for row, (a, b) in enumerate(pairs):
            total[a], total[b] = total[a] + push[row], total[b] - push[row]
        return jnp.stack(total[:seats])

    def _game_state(self, world: Particles, reward: Array | None = None) -> GameState:
        seats = self.num_seats
        over = world.time >= self.max_steps
        to_move = jnp.broadcast_to(~over, (seats,))
        eye = np.eye(seats, dtype=np.float32)
        rows = [jnp.concatenate([*self._observe_seat(world, seat), eye[seat]]) for seat in range(seats)]
        return GameState(
            inner=world,
            observation=jnp.stack(rows),
            legal=jnp.broadcast_to(~over, (seats, self.num_actions)),
            to_move=to_move,
            reward=jnp.zeros(seats) if reward is None else reward,
            terminated=jnp.bool_(False),
            truncated=over,
        )

    def _relative_features(self, world: Particles, seat: int) -> list[Array]:
        """Own velocity and position, then relative positions of landmarks and of the other agents."""
        rest = [*range(self.num_seats, len(self.bodies)), *(other for other in range(self.num_seats) if other != seat)]
        own = world.position[seat]
        return [world.velocity[seat], own, *(world.position[other] - own for other in rest)]


@jax.tree_util.register_static
@dataclass(frozen=True)
class SimpleTag(ParticleGame):
    """Three pursuers (seats 0 to 2) hunt one faster evader (seat 3) around two obstacles.

    Every touch pays each pursuer 10 and costs the evader 10, who also pays for leaving the square (-1, 1)^2. By default
    there are two teams, as the paper's anchor counts imply (202 = 2 + 2 x 100). With teams=False there are four
    players; shared=True then draws the pursuers from one population.
    """

    name = "simple_tag"
    sides = (0, 0, 0, 1)
    side_names = (("pursuer", "pursuers"), ("evader", "evader"))
    bodies = (
        *(Body("pursuer", 0.075, True),) * 3,
        Body("evader", 0.05, True),
        *(Body("obstacle", 0.2, True, 0.9),) * 2,
    )
    _motors = (_Motor(3.0, 1.0),) * 3 + (_Motor(4.0, 1.3),)
    _usual_returns = (-100.0, 100.0)

    def _observe_seat(self, world: Particles, seat: int) -> list[Array]:
        return [*self._relative_features(world, seat), world.velocity[3] if seat < 3 else jnp.zeros(2)]

    def _rewards(self, position: Array) -> Array:
        reach = self.bodies[0].radius + self.bodies[3].radius
        touches = jnp.sum(_norm(position[:3] - position[3][None, :]) < reach)
        out = jnp.abs(position[3])
        beyond = jnp.where(out < 1.0, (out - 0.9) * 10.0, jnp.minimum(jnp.exp(2.0 * out - 2.0), 10.0))
        fine = jnp.sum(jnp.where(out < 0.9, 0.0, beyond))
        return 10.0 * touches * np.asarray([1, 1, 1, -1], np.float32) - fine * np.asarray([0, 0, 0, 1], np.float32)


@jax.tree_util.register_static
@dataclass(frozen=True)
class SimpleSpread(ParticleGame):
    """Agents cover as many landmarks and should not touch each other.

    Every agent earns half of minus the landmarks' distances to their nearest agents, and pays a half per agent touched.
    By default there is one team: one policy, which observes the seat, plays all seats, and |Z_T| = k_0 + T. With
    teams=False every agent is a player with its own population, |Z_T| = 3 (k_0 + T), or all share one (shared=True).
    The paper prints 202 anchors at T = 100, which is the count of two players. No reading with three agents gives it;
    `agents=2, teams=False` does.

    Args:
      agents: number of agents and of landmarks.
    """

    agents: int = 3

    name = "simple_spread"

    def __post_init__(self) -> None:
        super().__post_init__()
        enough = isinstance(self.agents, int) and self.agents >= 2
        expect(enough, f"simple_spread: agents must be an integer of at least 2, got {self.agents!r}")

    @property
    def sides(self) -> tuple[int, ...]:
        return (0,) * self.agents

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (Body("agent", 0.15, True),) * self.agents + (Body("landmark", 0.05, False),) * self.agents

    @property
    def _motors(self) -> tuple[_Motor, ...]:
        return (_Motor(5.0, np.inf),) * self.agents

    @property
    def _usual_returns(self) -> tuple[float, float]:
        return (-20.0 * self.agents, 0.0)

    def _observe_seat(self, world: Particles, seat: int) -> list[Array]:
        return self._relative_features(world, seat)

    def _rewards(self, position: Array) -> Array:
        count = self.agents
        agents, landmarks = position[:count], position[count:]
        nearest = jnp.min(_norm(agents[:, None, :] - landmarks[None, :, :]), axis=0)
        touching = _norm(agents[:, None, :] - agents[None, :, :]) < 2 * self.bodies[0].radius
        touches = jnp.sum(touching & ~np.eye(count, dtype=bool), axis=1)
        return -0.5 * jnp.sum(nearest) - 0.5 * touches
