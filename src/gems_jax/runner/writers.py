"""Writers of metrics. `metrics.csv` is the source of truth; TensorBoard and Weights & Biases are optional mirrors.

A writer takes rows as `{column: [seeds, n] array}` in one call per chunk, on the host. Masked cells were not measured:
they are empty in metrics.csv, and the mirrors skip them. No account is needed.
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
from gems_jax.runner.errors import MissingExtraError, RunError, report_write_errors
from gems_jax.runner.files import replace_text
from gems_jax.runner.options import WRITER_MODULES


class Writer(Protocol):
    """Writes the rows of a run."""

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        """Writes the rows of a chunk, {column: [seeds, n]}."""
        ...

    def flush(self) -> None:
        """Forces written rows to the disk."""
        ...

    def close(self) -> None:
        """Closes the files or connections."""
        ...


class CsvWriter:
    """Writes `metrics.csv` of every seed's folder. Each chunk is flushed, and `flush` forces it to the disk."""

    def __init__(self, run: RunDirectory) -> None:
        self._paths = [member / "metrics.csv" for member in run.members]
        self._columns: list[str] | None = None
        with contextlib.ExitStack() as stack:
            self._files = []
            for path in self._paths:
                with report_write_errors(path):
                    self._files.append(stack.enter_context(open(path, "a", newline="", encoding="utf-8")))
            self._stack = stack.pop_all()

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        if self._columns is None:
            self._columns = list(rows)
            for path, file in zip(self._paths, self._files, strict=True):
                self._header(path, file)
        for seed, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            columns = [format_numbers(rows[name][seed]) for name in self._columns]
            with report_write_errors(path):
                file.write(_format_csv(zip(*columns, strict=True)))
                file.flush()

    def flush(self) -> None:
        for path, file in zip(self._paths, self._files, strict=True):
            with report_write_errors(path):
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        with contextlib.suppress(OSError):  # `write` has already reported a full disk
            self._stack.close()

    def _header(self, path: Path, file: io.TextIOBase) -> None:
        assert self._columns is not None
        present = path.read_text(encoding="utf-8").split("\n", 1)[0]
        if not present:
            with report_write_errors(path):
                file.write(_format_csv([self._columns]))
        elif sorted(present.split(",")) == sorted(self._columns):
            self._columns = present.split(",")  # compiled loops sort their columns, Python loops do not
        else:
            raise RunError(f"columns of {path} differ: expected {','.join(self._columns)}, got {present}")


def truncate_csv(path: Path, iteration: int) -> int:
    """Truncates a CSV file to the rows up to `iteration`, drops partial lines, and returns its last iteration."""
    if not path.exists():
        return 0
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]  # text after the last line end is a partial line
    count = min(_count_rows(lines), iteration)
    replace_text(path, "".join(f"{line}\n" for line in lines[: count + 1]))
    return count


def _count_rows(lines: Sequence[str]) -> int:
    """Counts the complete rows, numbered from 1, after the header."""
    for number, line in enumerate(lines[1:], 1):
        if line.count(",") != lines[0].count(",") or line.split(",", 1)[0] != str(number):
            return number - 1
    return max(len(lines) - 1, 0)


def read_metrics(folder: Path | str, empty: float = np.nan) -> dict[str, np.ndarray]:
    """Reads the columns of a run folder's metrics.csv as float64 arrays, in which counts are exact.

    Args:
      folder: folder of a seed.
      empty: value of cells that were not measured.

    Returns:
      {column: [iterations]}.

    Raises:
      RunError: if there is no such file.
    """
    try:
        with open(Path(folder) / "metrics.csv", newline="", encoding="utf-8") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except FileNotFoundError:
        raise RunError(f"{folder} has no metrics.csv yet") from None
    rows = [[float(cell) if cell else empty for cell in line] for line in lines if len(line) == len(header)]
    return dict(zip(header, np.asarray(rows, np.float64).reshape(-1, len(header)).T, strict=True))


def format_numbers(column: np.ndarray) -> list[str]:
    """Formats each number as the shortest text that parses back to it, and masked cells as empty text."""
    texts = list(map(str, np.ma.getdata(column.astype(int) if column.dtype == bool else column)))
    return ["" if hidden else text for text, hidden in zip(texts, np.ma.getmaskarray(column), strict=True)]


class TensorBoardWriter:
    """Writes event files to `<seed's folder>/tensorboard/`."""

    def __init__(self, run: RunDirectory, iteration: int = 0) -> None:
        library = import_extra(WRITER_MODULES["tensorboard"], "tensorboard", "writing TensorBoard events")
        self._writers = [
            library.SummaryWriter(logdir=str(member / "tensorboard"), purge_step=iteration + 1)
            for member in run.members
        ]

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        for seed, writer in enumerate(self._writers):
            for n, iteration in enumerate(rows["iteration"][seed]):
                for name, value in _measured_cells(rows, seed, n).items():
                    if name != "iteration":
                        writer.add_scalar(name, value, int(iteration))
            writer.flush()

    def flush(self) -> None: ...

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class WandbWriter:
    """Logs one Weights & Biases run per seed, grouped, with a stable id for resuming. Follows WANDB_MODE."""

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
                run.log(_measured_cells(rows, seed, n), step=int(iteration))

    def flush(self) -> None: ...

    def close(self) -> None:
        for run in self._runs:
            run.finish()


def _measured_cells(rows: Mapping[str, np.ndarray], seed: int, n: int) -> dict[str, float]:
    """Selects the cells of one row that were measured."""
    return {name: float(values[seed, n]) for name, values in rows.items() if values[seed, n] is not np.ma.masked}


WRITERS: dict[str, Callable[[RunDirectory, int], Writer]] = {"tensorboard": TensorBoardWriter, "wandb": WandbWriter}


def make_writer(name: str, run: RunDirectory, iteration: int = 0) -> Writer:
    """Makes an optional writer by name, for a run that continues after `iteration`. Raises ValueError."""
    if name not in WRITERS:
        raise ValueError(f"unknown writer {name!r}; known: {', '.join(sorted(WRITERS))}")
    return WRITERS[name](run, iteration)


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Imports an optional package.

    Args:
      module: the module to import.
      extra: the extra of gems_jax that installs it.
      purpose: what needs it, the subject of the message.

    Raises:
      MissingExtraError: if it is not installed, with the install command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(f'{purpose} needs {package}: pip install "gems_jax[{extra}]"') from error


def _format_csv(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
