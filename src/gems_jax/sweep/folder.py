"""A sweep's folder, and how far it is.

sweep.json            what is swept, written before anything starts
points/0007/          an ordinary run directory with all seeds, there when it is finished
cells/003/            what cell 3 works on: work/ with checkpoints and rows, log.txt, status.json
summary.csv, summary.json, figures/parallel_coordinates.png
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from gems_jax.runner.errors import ConfigMismatchError, RunError, RunExistsError, writing
from gems_jax.runner.files import differing_field, resolve, write_json
from gems_jax.sweep.file import SweepFile, parse_sweep
from gems_jax.sweep.points import Cell

SCHEMA = 1
# What may be changed between two starts: everything else decides what the points are.
CHANGEABLE = ("run", "slurm", "ray", "metric", "highest")


@dataclasses.dataclass(frozen=True)
class SweepFolder:
    path: Path

    def point(self, number: int) -> Path:
        return self.path / "points" / f"{number:04d}"

    def cell(self, number: int) -> Path:
        return self.path / "cells" / f"{number:03d}"

    def done(self, cell: Cell) -> bool:
        """A point's folder appears when everything in it is written."""
        return all(self.point(number).exists() for number in cell.points)

    def status(self, cell: int) -> dict[str, Any]:
        """{"state": waiting | running | stopped | failed | done, "attempts": how often, "reason": why}."""
        try:
            return json.loads((self.cell(cell) / "status.json").read_text())
        except (OSError, ValueError):
            return {"state": "waiting", "attempts": 0, "reason": ""}

    def write_status(self, cell: int, state: str, attempts: int, reason: str = "") -> None:
        with writing(self.cell(cell)):
            self.cell(cell).mkdir(parents=True, exist_ok=True)
        write_json(self.cell(cell) / "status.json", {"state": state, "attempts": attempts, "reason": reason})


def open_folder(path: Path) -> tuple[SweepFolder, SweepFile]:
    """The sweep in a folder, to go on with."""
    try:
        record = json.loads((path / "sweep.json").read_text())
    except FileNotFoundError:
        raise RunError(f"{path} holds no sweep: it has no sweep.json") from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path / 'sweep.json'}: {error}") from None
    if record.get("schema") != SCHEMA:
        raise RunError(f"{path} has schema {record.get('schema')}, this version reads schema {SCHEMA}")
    return SweepFolder(path), parse_sweep(_plain(record["sweep"]), str(path))


def create_folder(path: Path, file: SweepFile, circumstances: dict[str, Any]) -> SweepFolder:
    """Makes a new folder with its sweep.json, or opens that of the same sweep, to go on with."""
    if (path / "sweep.json").exists():
        _check_same(path, file)
    elif path.exists() and any(path.iterdir()):
        raise RunExistsError(f"{path} is not empty and holds no sweep: choose another folder")
    with writing(path):
        for name in ("points", "cells", "figures"):
            (path / name).mkdir(parents=True, exist_ok=True)
    write_json(path / "sweep.json", {"schema": SCHEMA, "sweep": resolve(file), **circumstances})
    return SweepFolder(path)


def _check_same(path: Path, file: SweepFile) -> None:
    """ConfigMismatchError for another sweep than that in the folder."""
    records = [resolve(one) for one in (open_folder(path)[1], file)]
    fixed = [{name: value for name, value in record.items() if name not in CHANGEABLE} for record in records]
    differs = differing_field(fixed[0], fixed[1])
    if differs:
        raise ConfigMismatchError(
            f"{path} was started with {differs[0]} = {differs[1]!r}, and this is {differs[2]!r}: "
            "give the same sweep, or another --run-dir"
        )


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Infinities are written as texts: back to the numbers that a field takes. No sweep file has such texts itself."""
    words = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}

    def back(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: back(one) for name, one in value.items()}
        if isinstance(value, list):
            return [back(one) for one in value]
        return words.get(value, value) if isinstance(value, str) else value

    kept = {name: value for name, value in record.items() if name != "iterations" or value}
    return back(kept)
