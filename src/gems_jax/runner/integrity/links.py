"""Links and special files in a run folder, which could make a reader or writer leave the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gems_jax.runner.errors import RunError


def check_entries(folder: Path, error: type[RunError] = RunError) -> None:
    """Checks that a folder contains regular files, folders, and links that stay inside it.

    The folder itself may be a link. Nothing that a link refers to is opened.

    Args:
      folder: the folder, which is searched at all depths.
      error: class of the error.

    Raises:
      RunError: of the class `error`, for the first other entry.
    """
    try:
        fault = next(find_strays(folder), None)
    except OSError as found:
        raise error(f"cannot read {folder}: {found.strerror or found}") from None
    if fault:
        raise error(fault)


def find_strays(folder: Path) -> Iterator[str]:
    """Yields a sentence for every link that leaves the folder, and every entry that is neither file nor folder."""
    root, waiting = os.path.realpath(folder), [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if os.path.commonpath([root, target]) != root:
                        yield (
                            f"{entry.path} is a link that leaves the folder: expected a file inside {folder}, "
                            f"got {target}. Replace it by a copy if you trust it"
                        )
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                    yield f"{entry.path} is neither a file nor a folder. Remove it"
