"""Options of a run, from the command line to the driver and to config.json."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from gems_jax.runner.errors import RunError
from gems_jax.types import did_you_mean

WRITER_MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb"}  # packages that optional writers need
_LEAST = {
    "seed_batch": 0,
    "chunk": 1,
    "keep": 1,
    "evaluation_episodes": 0,
    "evaluation_every": 1,
    "checkpoint_seconds": 0,
}


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of chunks, checkpoints, measurements and devices."""

    chunk: int = 10
    """Maximum iterations per compiled call, which is shorter if it would take more than about a second."""
    exact: bool = True
    """Measure every iteration exactly if the game is enumerable."""
    evaluation_episodes: int = 256
    """Episodes per measurement if the mixture is not measured exactly (0: no measurement)."""
    evaluation_every: int = 10
    """Iterations between two measurements by episodes; the first and the last iteration are always measured."""
    debug: bool = False
    """Check every operation for NaN (checkify) and print tracebacks; slow."""
    checkpoint_seconds: float = 10.0
    """Minimum seconds between two checkpoints (0: save after every chunk)."""
    keep: int = 3
    """Number of latest checkpoints to retain; each contains the state of the best measured iteration as well."""
    seed_batch: int = 0
    """Seeds per batch (0: chosen for speed)."""
    mesh: bool = True
    """Distribute seeds, candidates and episodes over all devices; results equal those of one device up to rounding."""
    stored_programs: bool = True
    """Keep traced programs beside the compilation cache, and start from them without tracing."""
    writers: tuple[str, ...] = ()
    """Further outputs of metrics besides metrics.csv: tensorboard, wandb."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunOptions:
        """Makes options from the `options` of config.json; unknown keys are ignored. Raises RunError."""
        known = {field.name for field in dataclasses.fields(cls)}
        found = {name: value for name, value in record.items() if name in known}
        seconds = float(found.get("checkpoint_seconds", cls.checkpoint_seconds))  # infinity is stored as text
        options = cls(**{**found, "writers": tuple(found.get("writers", ())), "checkpoint_seconds": seconds})
        try:
            return options.validate()
        except ValueError as error:
            raise RunError(f"the options of this run do not fit this installation: {error}") from error

    def validate(self) -> RunOptions:
        """Checks the ranges of the options and returns itself.

        Raises:
          ValueError: for the first option that is out of range; the message begins with its name.
        """
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        _check_writers(self.writers)
        return self

    @property
    def iterations_per_chunk(self) -> int:
        """Iterations per chunk: 1 with `debug`, else `chunk`."""
        return 1 if self.debug else self.chunk


def _check_writers(writers: Sequence[str]) -> None:
    for writer in writers:
        if writer not in WRITER_MODULES:
            hint = did_you_mean(writer, WRITER_MODULES, cutoff=0.5)
            raise ValueError(f"unknown writer {writer!r}; {hint}known: {', '.join(WRITER_MODULES)}")
        if importlib.util.find_spec(WRITER_MODULES[writer]) is None:
            raise ValueError(f'writers {writer} needs {WRITER_MODULES[writer]}: pip install "gems_jax[{writer}]"')
