"""What can go wrong with a run, each with one clear line and an exit code.

The command line prints the message and exits with the code; it never shows a traceback for one of these.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path


class RunError(RuntimeError):
    """Base of all: something about a run, its folder or its files that the message explains."""

    exit_code = 1


class RunExistsError(RunError):
    """The folder already holds a run: runs are never written over."""

    exit_code = 2


class RunBusyError(RunError):
    """Another process is writing this run at this moment."""


class CheckpointError(RunError):
    """A checkpoint is damaged, missing, or not one of ours."""


class ConfigMismatchError(RunError):
    """The checkpoint belongs to a run with another configuration."""

    exit_code = 2


class DiskFullError(RunError):
    """No space left; the last good checkpoint is untouched."""


class NonFiniteError(RunError):
    """NaN or infinity appeared in a logged quantity or in the state."""

    exit_code = 3


class UntrustedGameError(RunError):
    """A file names a game that is code of its own, and nobody has said to trust it; or that code is not a game."""

    exit_code = 2


class MissingExtraError(RunError, ImportError):
    """An optional package is not installed; the message has the install line."""

    exit_code = 2


def is_disk_full(error: BaseException) -> bool:
    """The operating system says ENOSPC or EDQUOT; orbax raises a ValueError with RESOURCE_EXHAUSTED in its text."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    text = str(error)
    return "RESOURCE_EXHAUSTED" in text or "No space left on device" in text or "Disk quota exceeded" in text


def describe_free_space(path: Path) -> str:
    """'12.3 MB free', measured on the nearest folder that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return f"{shutil.disk_usage(path).free / 1e6:.1f} MB free"


@contextlib.contextmanager
def writing(path: Path, note: str = "") -> Iterator[None]:
    """Turns a failed write below `path` into one clear line; `note` is added to it."""
    try:
        yield
    except (OSError, ValueError) as error:
        if is_disk_full(error):
            raise DiskFullError(f"disk full while writing {path} ({describe_free_space(path)}){note}") from error
        if isinstance(error, OSError):
            raise RunError(f"cannot write {path}: {error.strerror or error}{note}") from error
        raise
