"""How a run is driven and measured: one record from the command line to the driver, and in config.json."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

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
    """How often a run is looked at, saved and measured, and on what it runs."""

    chunk: int = 10
    """Iterations between two looks at the run: progress, rows, checkpoints."""
    exact: bool = True
    """Measure every iteration exactly where the game can be walked."""
    evaluation_episodes: int = 256
    """Episodes that a mixture is measured by where it cannot be measured exactly (0: not at all)."""
    evaluation_every: int = 10
    """Iterations between two such measurements."""
    debug: bool = False
    """Check every operation for NaN (checkify), one iteration at a time, and show tracebacks. Slow."""
    checkpoint_seconds: float = 10.0
    """Least time between two checkpoints; 0 saves after every chunk."""
    keep: int = 3
    """How many of the last checkpoints are kept, besides the best."""
    seed_batch: int = 0
    """How many seeds are run together (0: as many as are fastest)."""
    mesh: bool = False
    """Share seeds, candidates and episodes out over all devices; results stay those of one device, up to rounding."""
    writers: tuple[str, ...] = ()
    """Where metrics go besides metrics.csv: tensorboard, wandb."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunOptions:
        """Reads the `options` of config.json; keys that are not of a run's options are left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        found = {name: value for name, value in record.items() if name in known}
        return cls(**{**found, "writers": tuple(found.get("writers", ()))})

    def validate(self) -> RunOptions:
        """Returns itself.

        Raises:
          ValueError: for the first option that is out of range; its name is the first word, where there is one.
        """
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}: got {getattr(self, name)}")
        _check_writers(self.writers)
        if self.mesh and self.debug:
            raise ValueError("debug looks at every operation on one device: leave --mesh out")
        return self

    @property
    def iterations_per_chunk(self) -> int:
        """One where every iteration is checked."""
        return 1 if self.debug else self.chunk


def _check_writers(writers: Sequence[str]) -> None:
    for writer in writers:
        if writer not in WRITER_MODULES:
            hint = did_you_mean(writer, WRITER_MODULES, cutoff=0.5)
            raise ValueError(f"unknown writer {writer!r}; {hint}known: {', '.join(WRITER_MODULES)}")
        if importlib.util.find_spec(WRITER_MODULES[writer]) is None:
            raise ValueError(f'writers {writer} needs {WRITER_MODULES[writer]}: pip install "gems_jax[{writer}]"')
