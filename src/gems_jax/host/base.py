"""The interface of a Python environment: constant facts, `reset` and `step`, arrays per seat."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Recipe = dict[  # JSON from which a worker makes an environment: {"kind": ..., "id": ..., "options": {...}}
    str, Any
]  # plain JSON from which a worker makes an environment: {"kind": ..., "id": ..., "options": {...}}


class EnvironmentFailure(RuntimeError):
    """Raised if a Python environment or its process failed. The message names it, the seed and the step."""


class Facts(NamedTuple):
    """Properties of an environment that are known before it is played."""

    num_seats: int
    num_actions: int  # largest number over the seats; for continuous actions their dimension
    observation_shape: tuple[int, ...]
    simultaneous: bool
    continuous: bool
    max_steps: int = 0  # 0: not declared
    return_bounds: tuple[float, float] | None = None
    zero_sum: bool | None = None
    seat_names: tuple[str, ...] = ()


class EnvironmentState(NamedTuple):
    """A position: the fields of `GameState`, as NumPy arrays."""

    observation: np.ndarray  # [S, *observation_shape] float32
    legal: np.ndarray  # [S, A] bool
    to_move: np.ndarray  # [S] bool
    reward: np.ndarray  # [S] float32, earned by the last step
    terminated: bool = False
    truncated: bool = False


class Environment(Protocol):
    """A game in Python, deterministic given the seed of `reset` and the actions."""

    @property
    def facts(self) -> Facts: ...
    def reset(self, seed: int) -> EnvironmentState: ...
    def step(self, actions: np.ndarray) -> EnvironmentState:
        """Plays actions [S] int, or [S, A] float in (-1, 1). Actions of seats not to move are ignored."""
        ...


_KINDS = {"pettingzoo": "gems_jax.host.pettingzoo", "openspiel": "gems_jax.host.openspiel"}


def make_environment(recipe: Mapping[str, Any]) -> Environment:
    """Makes the environment of a recipe."""
    module = importlib.import_module(_KINDS[recipe["kind"]])
    return getattr(module, f"make_{recipe['kind']}")(recipe["id"], **recipe["options"])


def stack_observations(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Stacks the observations of all seats.

    Flat observations are padded with zeros and followed by the one-hot of the seat. Boards (three axes) stay as they
    are: they show the side to move.

    Args:
      parts: one observation per seat.
      shape: shape of a row, see `stacked_shape`.

    Returns:
      [S, *shape] float32.
    """
    rows = np.zeros((len(parts), *shape), np.float32)
    if len(shape) == 3:
        for seat, part in enumerate(parts):
            rows[seat] = part
        return rows
    width = shape[0] - len(parts)
    for seat, part in enumerate(parts):
        flat = np.asarray(part, np.float32).reshape(-1)
        rows[seat, : len(flat)] = flat
        rows[seat, width + seat] = 1.0
    return rows


def stacked_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Returns the shape of the rows that `stack_observations` makes of observations of these shapes."""
    if len(set(shapes)) == 1 and len(shapes[0]) == 3:
        return shapes[0]
    return (max(int(np.prod(shape)) for shape in shapes) + len(shapes),)
