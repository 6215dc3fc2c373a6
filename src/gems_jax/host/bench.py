"""A bench runs some of the environment instances, one record of shared memory each, and checks their results."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.host.base import Environment, EnvironmentFailure, EnvironmentState, Facts

NOTHING, RESET, STEP = 0, 1, 2  # orders of a record


def record_type(facts: Facts) -> np.dtype:
    """Returns the record of one instance: the order, and the position that answers it."""
    seats, actions = facts.num_seats, facts.num_actions
    action = ("action", "f4", (seats, actions)) if facts.continuous else ("action", "i4", (seats,))
    return np.dtype(
        [
            ("order", "u1"),
            ("seed", "u4"),
            ("step", "i4"),  # steps of the episode so far
            action,
            ("observation", "f4", (seats, *facts.observation_shape)),
            ("legal", "?", (seats, actions)),
            ("to_move", "?", (seats,)),
            ("reward", "f4", (seats,)),
            ("terminated", "?"),
            ("truncated", "?"),
        ],
        align=True,
    )


class Bench:
    """Some of the environment instances.

    Attributes:
      name: name of the game, for messages.
      facts: facts of the environment.
      max_steps: length at which episodes are truncated.
      make: makes a new environment.
    """

    def __init__(self, name: str, facts: Facts, max_steps: int, make: Callable[[], Environment]):
        self.name, self.facts, self.max_steps, self.make = name, facts, max_steps, make
        self.environments: dict[int, Environment] = {}
        self.shapes = {
            "observation": (facts.num_seats, *facts.observation_shape),
            "legal": (facts.num_seats, facts.num_actions),
            "to_move": (facts.num_seats,),
            "reward": (facts.num_seats,),
        }

    def serve(self, records: np.ndarray, lanes: Iterable[int], progress: Callable[[int], None]) -> None:
        """Executes the orders in some of the records.

        Args:
          records: shared memory, one record per instance.
          lanes: indices of the instances to serve.
          progress: called with the index of an instance before it is served.

        Raises:
          EnvironmentFailure: if an environment raises or returns an invalid position.
        """
        for lane in lanes:
            progress(lane)
            record = records[lane]
            seed, step = int(record["seed"]), 0 if record["order"] == RESET else int(record["step"]) + 1
            try:
                seen = self.play(lane, record)
            except Exception as error:
                description = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                raise self.failure(seed, step, f"raised {description}{_describe_line(error)}") from error
            self.write(record, seen, seed, step)

    def play(self, lane: int, record: Any) -> EnvironmentState:
        """Executes the order of one record."""
        if lane not in self.environments:
            self.environments[lane] = self.make()
        environment = self.environments[lane]
        if record["order"] == RESET:
            return environment.reset(int(record["seed"]))
        return environment.step(record["action"].copy())

    def failure(self, seed: int, step: int, what: str) -> EnvironmentFailure:
        """Makes the error for a step of an episode."""
        return EnvironmentFailure(f"{self.name}: {_describe_step(step)} of the episode with seed {seed} {what}")

    def write(self, record: Any, seen: EnvironmentState, seed: int, step: int) -> None:
        """Checks a position and writes it to its record."""
        for field in self.shapes:
            record[field] = self.validate(field, np.asarray(getattr(seen, field)), seed, step)
        terminated, truncated = bool(seen.terminated), bool(seen.truncated)
        if not terminated | truncated:
            self.check_movers(seen, seed, step)
        truncated |= step >= self.max_steps
        if terminated | truncated:
            record["to_move"], record["legal"] = False, False
        record["terminated"], record["truncated"] = terminated, truncated & ~np.bool_(terminated)
        record["step"], record["order"] = step, NOTHING

    def validate(self, field: str, value: np.ndarray, seed: int, step: int) -> np.ndarray:
        """Returns a field of a position if its shape is right and its numbers are finite; raises otherwise."""
        if value.shape != self.shapes[field]:
            what = f"gave {field} of shape {list(value.shape)}, expected {list(self.shapes[field])}"
            raise self.failure(seed, step, what)
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise self.failure(seed, step, f"gave {field} with NaN or infinity in it")
        return value

    def check_movers(self, seen: EnvironmentState, seed: int, step: int) -> None:
        """Raises unless a seat is to move and every such seat has a legal action."""
        can = seen.legal.any(axis=1)
        if not seen.to_move.any():
            raise self.failure(seed, step, "left nobody to move in an unfinished game")
        for seat in np.flatnonzero(seen.to_move & ~can):
            raise self.failure(seed, step, f"gave seat {seat} an action mask of zeros: no action is legal")


def _describe_step(step: int) -> str:
    return f"step {step}" if step else "the start"


def _describe_line(error: BaseException) -> str:
    """Formats the innermost line outside of this package."""
    here = Path(__file__).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != here]
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
