"""Where metrics go. `metrics.csv` is the source of truth; TensorBoard and Weights & Biases are optional mirrors.

A writer takes rows as `{column: [seeds, n] array}` in one call per chunk, on the host. Nothing here needs an account.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gems_jax.runner.directory import RunDirectory, read_config, slug
from gems_jax.runner.errors import MissingExtraError, RunError, writing
from gems_jax.runner.files import replace_text
from gems_jax.runner.options import WRITER_MODULES


class Writer(Protocol):
    def write(self, rows: Mapping[str, np.ndarray]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class CsvWriter:
    """`metrics.csv` of every seed's folder; each chunk is flushed, and `flush` makes sure it is on the disk."""

    def __init__(self, run: RunDirectory) -> None:
        self._paths = [member / "metrics.csv" for member in run.members]
        self._columns: list[str] | None = None
        with contextlib.ExitStack() as stack:
            self._files = []
            for path in self._paths:
                with writing(path):
                    self._files.append(stack.enter_context(open(path, "a", newline="", encoding="utf-8")))
            self._stack = stack.pop_all()

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        if self._columns is None:
            self._columns = list(rows)
            for path, file in zip(self._paths, self._files, strict=True):
                self._header(path, file)
        for seed, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            columns = [as_texts(rows[name][seed]) for name in self._columns]
            with writing(path):
                file.write(_lines(zip(*columns, strict=True)))
                file.flush()

    def flush(self) -> None:
        for path, file in zip(self._paths, self._files, strict=True):
            with writing(path):
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk was already told by `write`
            self._stack.close()

    def _header(self, path: Path, file: io.TextIOBase) -> None:
        assert self._columns is not None
        present = path.read_text(encoding="utf-8").split("\n", 1)[0]
        if not present:
            with writing(path):
                file.write(_lines([self._columns]))
        elif sorted(present.split(",")) == sorted(self._columns):
            self._columns = present.split(",")  # compiled loops sort their columns, others do not
        else:
            raise RunError(f"{path} has the columns {present}, this run writes {','.join(self._columns)}")


def truncate_csv(path: Path, iteration: int) -> int:
    """Cuts `path` back to the rows up to `iteration`, torn lines dropped; returns the last iteration that is there."""
    if not path.exists():
        return 0
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]  # what follows the last line end was torn off
    count = min(_count_rows(lines), iteration)
    replace_text(path, "".join(f"{line}\n" for line in lines[: count + 1]))
    return count


def _count_rows(lines: Sequence[str]) -> int:
    """How many whole rows, numbered from 1, follow the header."""
    for number, line in enumerate(lines[1:], 1):
        if line.count(",") != lines[0].count(",") or line.split(",", 1)[0] != str(number):
            return number - 1
    return max(len(lines) - 1, 0)


def read_metrics(folder: Path | str) -> dict[str, np.ndarray]:
    """Reads the columns of a run folder's metrics.csv as float64 arrays (iteration and counts are exact in it)."""
    try:
        with open(Path(folder) / "metrics.csv", newline="", encoding="utf-8") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except FileNotFoundError:
        raise RunError(f"{folder} has no metrics.csv yet") from None
    rows = [list(map(float, line)) for line in lines if len(line) == len(header)]
    return dict(zip(header, np.asarray(rows, np.float64).reshape(-1, len(header)).T, strict=True))


def as_texts(column: np.ndarray) -> list[str]:
    """Of every number the shortest text that reads back as the same one."""
    return list(map(str, column.astype(int) if column.dtype == bool else column))


class TensorBoardWriter:
    """Event files in `<seed's folder>/tensorboard/`, for any TensorBoard viewer."""

    def __init__(self, run: RunDirectory, iteration: int = 0) -> None:
        library = import_extra(WRITER_MODULES["tensorboard"], "tensorboard", "writing TensorBoard events")
        self._writers = [
            library.SummaryWriter(logdir=str(member / "tensorboard"), purge_step=iteration + 1)
            for member in run.members
        ]

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        for seed, writer in enumerate(self._writers):
            for n, iteration in enumerate(rows["iteration"][seed]):
                for name in rows:
                    if name != "iteration":
                        writer.add_scalar(name, float(rows[name][seed][n]), int(iteration))
            writer.flush()

    def flush(self) -> None: ...

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class WandbWriter:
    """One Weights & Biases run per seed, grouped; resumed under the same id. Follows WANDB_MODE (offline works)."""

    def __init__(self, run: RunDirectory, iteration: int = 0) -> None:
        library = import_extra(WRITER_MODULES["wandb"], "wandb", "logging to Weights & Biases")
        self._runs = []
        for member in run.members:
            record = read_config(member)
            self._runs.append(
                library.init(
                    project="gems_jax",
                    group=run.shared.name,
                    name=member.name,
                    id=slug(f"{record['game']}-{record['method']}-{record['created']}-s{record['seed']}"),
                    dir=str(member),
                    config=record,
                    resume="allow",
                    reinit="create_new",
                )
            )

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        for seed, run in enumerate(self._runs):
            for n, iteration in enumerate(rows["iteration"][seed]):
                run.log({name: float(rows[name][seed][n]) for name in rows}, step=int(iteration))

    def flush(self) -> None: ...

    def close(self) -> None:
        for run in self._runs:
            run.finish()


WRITERS: dict[str, Callable[[RunDirectory, int], Writer]] = {"tensorboard": TensorBoardWriter, "wandb": WandbWriter}


def make_writer(name: str, run: RunDirectory, iteration: int = 0) -> Writer:
    """An optional writer by name, for a run that continues after `iteration`."""
    if name not in WRITERS:
        raise ValueError(f"unknown writer {name!r}, known: {', '.join(sorted(WRITERS))}")
    return WRITERS[name](run, iteration)


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional package, or say exactly how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f'{purpose} needs {package}: pip install "gems_jax[{extra}]"') from error


def _lines(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
