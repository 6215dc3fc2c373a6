"""What an environment is to a bench: facts that never change, `reset` and `step`, arrays per seat."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Recipe = dict[str, Any]  # plain JSON: {"kind": ..., "id": ..., "options": {...}}; what a worker makes an environment by


class EnvironmentFailure(RuntimeError):
    """A Python environment, or the process that it runs in, failed. The message names it, the seed and the step."""


class Facts(NamedTuple):
    """What can be known of an environment before it is played."""

    num_seats: int
    num_actions: int  # of the seat that has most; for continuous ones the dimension of an action
    observation_shape: tuple[int, ...]
    simultaneous: bool
    continuous: bool
    max_steps: int = 0  # 0: it does not say
    return_bounds: tuple[float, float] | None = None
    zero_sum: bool | None = None
    seat_names: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A position: the fields of `GameState`, as NumPy arrays."""

    observation: np.ndarray  # [S, *observation_shape] float32
    legal: np.ndarray  # [S, A] bool
    to_move: np.ndarray  # [S] bool
    reward: np.ndarray  # [S] float32, earned by the last step
    terminated: bool = False
    truncated: bool = False


class Environment(Protocol):
    """Python-side game. Reset with the same seed and stepped by the same actions, it does the same."""

    @property
    def facts(self) -> Facts: ...
    def reset(self, seed: int) -> Seen: ...
    def step(self, actions: np.ndarray) -> Seen:
        """actions: [S] int, or [S, A] float in (-1, 1); those of seats that are not to move mean nothing."""
        ...


_KINDS = {"pettingzoo": "gems_jax.host.pettingzoo", "openspiel": "gems_jax.host.openspiel"}


def make_environment(recipe: Mapping[str, Any]) -> Environment:
    """The environment of a recipe."""
    module = importlib.import_module(_KINDS[recipe["kind"]])
    return getattr(module, f"make_{recipe['kind']}")(recipe["id"], **recipe["options"])


def with_seats(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """What every seat sees, [S, *shape] float32: flat observations padded with zeros, and the seat's one-hot behind.

    Boards (three axes) are taken as they are: they show the side that is to move.
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


def seen_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that `with_seats` gives observations of these shapes."""
    if len(set(shapes)) == 1 and len(shapes[0]) == 3:
        return shapes[0]
    return (max(int(np.prod(shape)) for shape in shapes) + len(shapes),)
