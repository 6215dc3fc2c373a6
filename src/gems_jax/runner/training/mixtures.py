"""Records the mixture of a run over its iterations in `mixtures.csv`, for `gems view`.

A line is `iteration,population,masses`, with the masses of all slots separated by spaces. Lines are written after the
compiled calls of a run, about `SNAPSHOTS` in all. Which iterations these are depends on the speed of the machine, so
the file is no part of what a resumed run reproduces bit for bit. Solvers whose state has no `sigma` write none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
        rows = _read_sigma(state)
        if len(rows) != len(self._paths) or rows[0].size > MAX_SLOTS:
            return
        self._next = iteration + self._spacing
        for path, masses in zip(self._paths, rows, strict=True):
            _append(path, iteration, masses)


def _read_sigma(state: PyTree) -> list[np.ndarray]:
    """Reads the mixture [P, K] of every seed from their states; nothing if the solver has none."""
    states = list(state) if isinstance(state, tuple | list) else [state]
    if not all(hasattr(one, "sigma") for one in states):
        return []
    sigma = [np.asarray(one.sigma) for one in states]
    rows = list(sigma[0]) if len(sigma) == 1 and sigma[0].ndim == 3 else sigma
    return rows if rows[0].ndim == 2 else []


def _append(path: Path, iteration: int, masses: np.ndarray) -> None:
    texts = (" ".join(f"{mass:.5g}" for mass in row) for row in masses)
    lines = [f"{iteration},{index},{text}\n" for index, text in enumerate(texts)]
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
        lines = read_text(Path(folder) / NAME).splitlines()
    except FileNotFoundError:
        return None
    found: dict[int, dict[int, list[float]]] = {}
    for iteration, population, masses in filter(None, map(_parse, lines)):
        found.setdefault(iteration, {})[population] = masses
    return _join(found)


def _join(found: dict[int, dict[int, list[float]]]) -> Mixtures | None:
    """Joins the masses by iteration and population; iterations that lack a population are left out."""
    count = max(map(len, found.values()), default=0)
    whole = {iteration: rows for iteration, rows in sorted(found.items()) if sorted(rows) == list(range(count))}
    if not whole:
        return None
    slots = max(len(row) for rows in whole.values() for row in rows.values())
    masses = np.zeros((len(whole), count, slots))
    for place, rows in enumerate(whole.values()):
        for population, row in rows.items():
            masses[place, population, : len(row)] = row
    return Mixtures(np.asarray(list(whole)), masses)


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
    if not path.exists():
        return
    lines = [line for line in _read_lines(path) if _is_until(line, done)]
    replace_text(path, "\n".join([_HEADER.strip(), *lines, ""]))


def _read_lines(path: Path) -> list[str]:
    """Reads the lines of a file; none of one that is not text."""
    try:
        return read_text(path).splitlines()
    except RunError:
        return []


def _is_until(line: str, done: int) -> bool:
    parsed = _parse(line)
    return parsed is not None and parsed[0] <= done
