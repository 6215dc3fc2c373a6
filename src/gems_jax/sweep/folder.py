"""Folder of a sweep, and its progress.

sweep.json            the sweep, written before anything starts
points/0007/          an ordinary run directory with all seeds; appears when it is finished
cells/003/            files of cell 3: work/ with checkpoints and rows, log.txt, status.json
summary.csv, summary.json, figures/parallel_coordinates.png
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from gems_jax.runner.errors import ConfigMismatchError, RunError, RunExistsError, report_write_errors
from gems_jax.runner.files import differing_field, resolve, write_json
from gems_jax.runner.integrity.records import CELL, SWEEP
from gems_jax.runner.integrity.schema import read_json, shorten
from gems_jax.sweep.file import SweepFile, parse_sweep
from gems_jax.sweep.points import Cell

SCHEMA = 1
# Fields that may change between two starts; all others determine the points.
CHANGEABLE = ("run", "slurm", "ray", "metric", "highest")


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    """Paths and status files of a sweep."""

    path: Path

    def point(self, number: int) -> Path:
        """Returns the run directory of a point."""
        return self.path / "points" / f"{number:04d}"

    def cell(self, number: int) -> Path:
        """Returns the folder of a cell's files."""
        return self.path / "cells" / f"{number:03d}"

    def done(self, cell: Cell) -> bool:
        """Checks whether a cell is finished: the folders of its points exist, which appear when they are complete."""
        return all(self.point(number).exists() for number in cell.points)

    def status(self, cell: int) -> dict[str, Any]:
        """Reads {"state": waiting | running | stopped | failed | done, "attempts": number, "reason": text}."""
        try:
            return read_json(self.cell(cell) / "status.json", CELL)
        except (OSError, RunError):
            return {"state": "waiting", "attempts": 0, "reason": ""}

    def write_status(self, cell: int, state: str, attempts: int, reason: str = "") -> None:
        """Writes the status of a cell (see `status`)."""
        with report_write_errors(self.cell(cell)):
            self.cell(cell).mkdir(parents=True, exist_ok=True)
        write_json(self.cell(cell) / "status.json", {"state": state, "attempts": attempts, "reason": reason})


def open_folder(path: Path) -> tuple[SweepFolder, SweepFile]:
    """Opens the sweep in a folder, to resume it. Raises RunError if there is none."""
    try:
        record = read_json(path / "sweep.json", SWEEP)
    except FileNotFoundError:
        raise RunError(f"{path} is not the folder of a sweep: it has no sweep.json") from None
    if record.get("schema") != SCHEMA:
        raise RunError(f"{path} has schema {shorten(record.get('schema'))}, this version reads schema {SCHEMA}")
    return SweepFolder(path), parse_sweep(_restore_infinities(record["sweep"]), str(path))


def create_folder(path: Path, file: SweepFile, circumstances: dict[str, Any]) -> SweepFolder:
    """Creates a folder with its sweep.json, or opens an existing folder of the same sweep.

    Args:
      path: the folder.
      file: the sweep.
      circumstances: record of machine and time for sweep.json.

    Raises:
      ConfigMismatchError: if the folder contains another sweep.
      RunExistsError: if it is not empty and contains no sweep.
    """
    if (path / "sweep.json").exists():
        _check_same(path, file)
    elif path.exists() and any(path.iterdir()):
        raise RunExistsError(f"{path} is not empty and contains no sweep: choose another folder")
    with report_write_errors(path):
        for name in ("points", "cells", "figures"):
            (path / name).mkdir(parents=True, exist_ok=True)
    write_json(path / "sweep.json", {"schema": SCHEMA, "sweep": resolve(file), **circumstances})
    return SweepFolder(path)


def _check_same(path: Path, file: SweepFile) -> None:
    """Raises ConfigMismatchError if the folder contains another sweep."""
    records = [resolve(one) for one in (open_folder(path)[1], file)]
    fixed = [{name: value for name, value in record.items() if name not in CHANGEABLE} for record in records]
    differs = differing_field(fixed[0], fixed[1])
    if differs:
        raise ConfigMismatchError(
            f"{path} contains another sweep: expected {differs[0]} = {differs[1]!r}, got {differs[2]!r}. "
            "Use the same sweep, or another --run-dir"
        )


def _restore_infinities(record: dict[str, Any]) -> dict[str, Any]:
    """Converts the strings that stand for infinities and NaN back to floats."""
    numbers = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}

    def restore(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: restore(one) for name, one in value.items()}
        if isinstance(value, list):
            return [restore(one) for one in value]
        return numbers.get(value, value) if isinstance(value, str) else value

    given = {name: value for name, value in record.items() if name != "iterations" or value}
    return restore(given)
