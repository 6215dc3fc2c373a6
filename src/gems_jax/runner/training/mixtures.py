"""Records the mixture of a run over its iterations in `mixtures.csv`, for `gems view`.

A line is `iteration,population,masses`, with the masses of all slots separated by spaces. Lines are written after the
compiled calls of a run, about `SNAPSHOTS` in all. Which iterations these are depends on the speed of the machine, so
the file is no part of what a resumed run reproduces bit for bit. Solvers whose state has no `sigma` write none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gems_jax.runner.errors import RunError, report_write_errors
from gems_jax.runner.files import replace_text
from gems_jax.runner.integrity.schema import read_text
from gems_jax.types import PyTree

NAME = "mixtures.csv"
SNAPSHOTS = 200  # about the number of iterations that a run records
MAX_SLOTS = 4096  # of all populations; larger mixtures are not recorded
_HEADER = "iteration,population,masses\n"


class Mixtures(NamedTuple):
    """Recorded mixtures of one seed."""

    iterations: np.ndarray  # [n] int, ascending
    masses: np.ndarray  # [n, P, K]; 0 for slots that did not exist yet


class MixtureRecorder:
    """Appends the mixtures of all seeds to their folders.

    Args:
      folders: folders of the seeds.
      done: iteration from which the run continues; later lines are removed.
      iterations: planned number of iterations.
    """

    def __init__(self, folders: Sequence[Path], done: int, iterations: int):
        self._paths = [folder / NAME for folder in folders]
        self._spacing, self._next, self._last = max(iterations // SNAPSHOTS, 1), done, iterations
        for path in self._paths:
            _keep_lines(path, done)

    def record(self, iteration: int, state: PyTree) -> None:
        """Appends the mixture of every seed, unless the last one was recorded a moment ago.

        Args:
          iteration: iteration that the state is of.
          state: states of all seeds, stacked or one after the other.
        """
        if iteration < min(self._next, self._last):
            return
        sigma: list[Any] = [
            getattr(one, "sigma", None) for one in (state if isinstance(state, tuple | list) else [state])
        ]
        if any(one is None or np.ndim(one) < 2 for one in sigma):
            return
        rows = np.asarray(sigma[0]) if np.ndim(sigma[0]) == 3 else [np.asarray(one) for one in sigma]
        if len(rows) != len(self._paths) or rows[0].size > MAX_SLOTS:
            return
        self._next = iteration + self._spacing
        for path, masses in zip(self._paths, rows, strict=True):
            lines = [
                f"{iteration},{index},{' '.join(f'{mass:.5g}' for mass in row)}\n" for index, row in enumerate(masses)
            ]
            with report_write_errors(path), open(path, "a", encoding="utf-8") as file:
                file.write("".join([*[_HEADER] * (file.tell() == 0), *lines]))


def read_mixtures(folder: Path | str) -> Mixtures | None:
    """Reads the recorded mixtures of one seed; None if there are none.

    Args:
      folder: folder of the seed.

    Raises:
      RunError: if the file is not text.
    """
    try:
        lines = read_text(Path(folder) / NAME).splitlines()[1:]
    except FileNotFoundError:
        return None
    found: dict[int, dict[int, list[float]]] = {}
    for line in lines:
        parsed = _parse(line)
        if parsed is not None:
            found.setdefault(parsed[0], {})[parsed[1]] = parsed[2]
    count = max((len(rows) for rows in found.values()), default=0)
    whole = {iteration: rows for iteration, rows in sorted(found.items()) if sorted(rows) == list(range(count))}
    if not whole:
        return None
    slots = max(len(row) for rows in whole.values() for row in rows.values())
    masses = [[rows[index] + [0.0] * (slots - len(rows[index])) for index in range(count)] for rows in whole.values()]
    return Mixtures(np.asarray(list(whole)), np.asarray(masses))


def _parse(line: str) -> tuple[int, int, list[float]] | None:
    """Parses a line; None for one that is partial or damaged."""
    try:
        iteration, population, masses = line.split(",")
        row = [float(mass) for mass in masses.split()]
        return (int(iteration), int(population), row) if row and np.isfinite(row).all() else None
    except ValueError:
        return None


def _keep_lines(path: Path, done: int) -> None:
    """Removes lines after an iteration, and partial ones."""
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        return
    except RunError:
        lines = []
    kept = [line for line in lines if (parsed := _parse(line)) is not None and parsed[0] <= done]
    replace_text(path, _HEADER + "".join(f"{line}\n" for line in kept))
