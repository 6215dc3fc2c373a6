"""Writers of metrics. `metrics.csv` is the source of truth; TensorBoard and Weights & Biases are optional mirrors.

A writer takes rows as `{column: [seeds, n] array}` in one call per chunk, on the host. Masked cells were not measured:
they are empty in metrics.csv, and the mirrors skip them. No account is needed.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
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
from gems_jax.runner.integrity.schema import LARGEST_TABLE, read_text, shorten, shorten_text
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
    """Writes `metrics.csv` of every seed's folder. Each chunk is flushed, and `flush` forces it to the disk.

    A running SHA-256 of each file costs no second reading when a checkpoint stores it.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._paths = [member / "metrics.csv" for member in run.members]
        self._columns: list[str] | None = None
        with contextlib.ExitStack() as stack:
            self._files, self._sums = [], []
            for path in self._paths:
                with report_write_errors(path):
                    self._files.append(stack.enter_context(open(path, "a", newline="", encoding="utf-8")))
                    self._sums.append(hashlib.sha256(path.read_bytes()))
            self._stack = stack.pop_all()

    def checksums(self) -> list[str]:
        """Returns the SHA-256 of what each file contains, in the order of the seeds."""
        return [each.hexdigest() for each in self._sums]

    def write(self, rows: Mapping[str, np.ndarray]) -> None:
        if self._columns is None:
            self._columns = list(rows)
            for seed in range(len(self._paths)):
                self._header(seed)
        for seed in range(len(self._paths)):
            columns = [format_numbers(rows[name][seed]) for name in self._columns]
            self._append(seed, _format_csv(zip(*columns, strict=True)))

    def flush(self) -> None:
        for path, file in zip(self._paths, self._files, strict=True):
            with report_write_errors(path):
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        with contextlib.suppress(OSError):  # `write` has already reported a full disk
            self._stack.close()

    def _append(self, seed: int, text: str) -> None:
        with report_write_errors(self._paths[seed]):
            self._files[seed].write(text)
            self._files[seed].flush()
        self._sums[seed].update(text.encode())

    def _header(self, seed: int) -> None:
        assert self._columns is not None
        path = self._paths[seed]
        present = path.read_text(encoding="utf-8").split("\n", 1)[0]
        if not present:
            self._append(seed, _format_csv([self._columns]))
        elif sorted(present.split(",")) == sorted(self._columns):
            self._columns = present.split(",")  # compiled loops sort their columns, Python loops do not
        else:
            raise RunError(f"columns of {path} differ: expected {','.join(self._columns)}, got {present}")


def checksum_text(text: str) -> str:
    """Computes the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def keep_rows(path: Path, iteration: int) -> tuple[int, str]:
    """Selects the rows of a CSV file up to an iteration.

    Args:
      path: the file; it may be missing.
      iteration: last iteration to keep.

    Returns:
      The last iteration that is there, and the text of the header and these rows, without a partial line.

    Raises:
      RunError: if the file is not text.
    """
    if not path.exists():
        return 0, ""
    lines = read_text(path, largest=LARGEST_TABLE).split("\n")[:-1]  # text after the last line end is a partial line
    count = min(_count_rows(lines), iteration)
    return count, "".join(f"{line}\n" for line in lines[: count + 1])


def truncate_csv(path: Path, iteration: int) -> int:
    """Truncates a CSV file to the rows up to `iteration`, drops partial lines, and returns its last iteration."""
    count, kept = keep_rows(path, iteration)
    if path.exists():
        replace_text(path, kept)
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
      RunError: if there is no such file, or if it is damaged.
    """
    path = Path(folder) / "metrics.csv"
    try:
        header, *lines = list(csv.reader(read_text(path, largest=LARGEST_TABLE).splitlines())) or [[]]
    except FileNotFoundError:
        raise RunError(f"{folder} has no metrics.csv yet") from None
    except csv.Error as error:
        raise RunError(f"{path} is damaged: {error}. Restore the file from a copy") from None
    if not header:
        return {}
    _check_header(path, header)
    if lines and len(lines[-1]) != len(header):
        del lines[-1]  # a partial line: the process was killed, or is writing it
    rows = [_parse_row(path, number, line, header, empty) for number, line in enumerate(lines, 1)]
    return dict(zip(header, np.asarray(rows, np.float64).reshape(-1, len(header)).T, strict=True))


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(set(header)) != len(header) or not all(name.isprintable() for name in header):
        raise RunError(f"{path} is damaged: expected different names of columns, got {shorten(header)}")


def _parse_row(path: Path, number: int, line: Sequence[str], header: Sequence[str], empty: float) -> list[float]:
    """Parses the cells of a row. Raises RunError, which names the first that is not a number."""
    if len(line) != len(header):
        raise RunError(f"{path} is damaged: row {number} has {len(line)} cells, expected {len(header)}")
    try:
        return [float(cell) if cell else empty for cell in line]
    except ValueError as error:
        raise RunError(f"{path} is damaged: row {number}: {shorten_text(str(error))}") from None


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
