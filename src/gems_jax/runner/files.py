"""Atomic writes of small files, configs as plain data, and the lock of a run."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gems_jax.runner.errors import RunBusyError, report_write_errors


def resolve(value: Any) -> Any:
    """Converts a value to plain JSON data: configs to dicts, arrays to lists, infinities to strings for float()."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return [resolve(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    record = _record(value)
    return _name(value) if record is None else {str(key): resolve(item) for key, item in record.items()}


def _record(value: Any) -> Mapping[Any, Any] | None:
    """Returns the fields of a config, NamedTuple or dict by name; None for anything else."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return value._asdict()
    return value if isinstance(value, Mapping) else None


def _name(value: Any) -> Any:
    """Converts arrays to numbers or lists, and paths and functions to their names."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return resolve(np.asarray(value).tolist())
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', repr(value))}"
    raise TypeError(f"cannot write {type(value).__name__} to config.json: {value!r}")


def differing_field(there: Any, here: Any, prefix: str = "") -> tuple[str, Any, Any] | None:
    """Finds the first field in which two resolved configs differ.

    Args:
      there: one config, plain data.
      here: the other config.
      prefix: dotted name of both inside a larger config.

    Returns:
      (dotted name, value there, value here), or None if they are equal.
    """
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        return None if there == here else (prefix, there, here)
    dotted = f"{prefix}." if prefix else ""
    found = (differing_field(there.get(name), here.get(name), f"{dotted}{name}") for name in {**there, **here})
    return next(filter(None, found), None)


def write_json(path: Path, record: Any) -> None:
    """Writes a record as JSON, atomically."""
    replace_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Writes a text file atomically: after a crash it contains the old text or the new one."""
    with report_write_errors(path):
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def find_below(folder: Path, name: str, depth: int) -> Iterator[Path]:
    """Finds the files called `name` in the folders below another one.

    Args:
      folder: where to search; its own files are not listed.
      name: name of the files.
      depth: number of levels, at least 1.

    Yields:
      Paths of the files. Folders that cannot be read, or disappear during the search, are skipped.
    """
    try:
        below = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return
    for path in below:
        with contextlib.suppress(OSError):
            if (path / name).exists():
                yield path / name
        if depth > 1:
            yield from find_below(path, name, depth - 1)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes records with equal fields as CSV with a header, atomically."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_text(path, text.getvalue())


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Locks the run in `folder` for this process. The system releases the lock when the process ends."""
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        yield
        return
    path = folder / ".lock"
    with report_write_errors(path), contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "a+", encoding="utf-8"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise RunBusyError(f"{folder} is being written by process {file.read().strip() or '?'}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        held = stack.pop_all()
    with held:
        yield


def is_locked(folder: Path) -> bool:
    """Checks whether a process holds the lock of the run in `folder`."""
    try:
        import fcntl

        with open(folder / ".lock", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False
    return False
