"""Errors of runs, each with a message of one line and an exit code.

The command line prints the message without a traceback, and exits with the code.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path


class RunError(RuntimeError):
    """Base class of errors about a run, its folder or its files."""

    exit_code = 1


class NoRunError(RunError):
    """Raised if the run, file or checkpoint to load does not exist."""

    exit_code = 2


class RunExistsError(RunError):
    """Raised if the folder already contains a run: runs are never overwritten."""

    exit_code = 2


class RunBusyError(RunError):
    """Raised if another process is writing this run."""


class CheckpointError(RunError):
    """Raised if a checkpoint is damaged, missing, or was not written by gems_jax."""


class ConfigMismatchError(RunError):
    """Raised if a checkpoint belongs to a run with another configuration."""

    exit_code = 2


class DiskFullError(RunError):
    """Raised if the disk is full; the last good checkpoint is untouched."""


class NonFiniteError(RunError):
    """Raised if NaN or infinity appears in a logged quantity, or NaN in the state."""

    exit_code = 3


class UntrustedGameError(RunError):
    """A file names a user-defined game without `trust=True`, or the named code is not a game."""

    exit_code = 2


class MissingExtraError(RunError, ImportError):
    """Raised if an optional package is not installed; the message has the install command."""

    exit_code = 2


def is_disk_full(error: BaseException) -> bool:
    """Checks for ENOSPC, EDQUOT, and the messages that orbax raises on a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    text = str(error)
    return "RESOURCE_EXHAUSTED" in text or "No space left on device" in text or "Disk quota exceeded" in text


def describe_free_space(path: Path) -> str:
    """Formats the free space, `12.3 MB free`, of the nearest folder that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return f"{shutil.disk_usage(path).free / 1e6:.1f} MB free"


@contextlib.contextmanager
def report_write_errors(path: Path, note: str = "") -> Iterator[None]:
    """Converts failed writes below `path` into DiskFullError or RunError; `note` is appended to the message."""
    try:
        yield
    except (OSError, ValueError) as error:
        if is_disk_full(error):
            raise DiskFullError(f"disk full while writing {path} ({describe_free_space(path)}){note}") from error
        if isinstance(error, OSError):
            raise RunError(f"cannot write {path}: {error.strerror or error}{note}") from error
        raise
