"""Files of stored programs, beside the compilation cache: private, bounded, and safe to delete at any time.

A stored program is code that JAX compiles and runs, so it is trusted like the compilation cache: the folder has mode
0700, and a folder or file of another user is refused. `GEMS_JAX_STORED_PROGRAMS=off` switches the store off, and so
does switching off JAX's compilation cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gems_jax.accelerator.cache import cache_is_wanted, cache_root, make_private

VARIABLE = "GEMS_JAX_STORED_PROGRAMS"
MOST_BYTES = 512 * 2**20  # of all stored programs together
_MAGIC = b"gems_jax program 1\n"
_SUFFIX = ".program"


class ProgramFile(NamedTuple):
    """A record of plain data, and the serialized program that it describes."""

    record: dict[str, Any]
    program: bytes


def program_folder() -> Path | None:
    """Returns the folder of stored programs; None if they are switched off or no folder is safe."""
    off = os.environ.get(VARIABLE, "on") == "off" or not cache_is_wanted() or jax.process_count() > 1
    if off:
        return None
    try:
        folder = cache_root() / "programs"
        make_private(folder)
    except (OSError, RuntimeError):
        return None
    return folder


def read_program(name: str) -> ProgramFile | None:
    """Reads a stored program.

    Args:
      name: name of the program, hexadecimal digits and a word.

    Returns:
      The program; None if there is none, or if it is damaged or belongs to another user.
    """
    folder = program_folder()
    if folder is None:
        return None
    path = folder / f"{name}{_SUFFIX}"
    try:
        # A link could lead to a file of somebody else.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            if not _is_ours(file.fileno()) or file.readline() != _MAGIC:
                return None
            checksum, rest = file.readline().strip(), file.read()
    except OSError:
        return None
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    header, _, program = rest.partition(b"\n")
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest are those that nobody has used for longest
    return ProgramFile(json.loads(header), program)


def write_program(name: str, stored: ProgramFile) -> Path | None:
    """Writes a program atomically, and deletes those that were unused for longest where all exceed `MOST_BYTES`.

    Args:
      name: name of the program.
      stored: the program.

    Returns:
      The file; None if nothing was written.
    """
    folder = program_folder()
    if folder is None:
        return None
    rest = json.dumps(stored.record).encode() + b"\n" + stored.program
    path, temporary = folder / f"{name}{_SUFFIX}", ""
    try:
        handle, temporary = tempfile.mkstemp(dir=folder)  # of mode 0600
        with open(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
        os.replace(temporary, path)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return None
    delete_oldest(folder, MOST_BYTES, path)
    return path


def list_programs() -> dict[Path, int]:
    """Lists the stored programs with their bytes."""
    folder = program_folder()
    return {} if folder is None else {path: path.stat().st_size for path in sorted(folder.glob(f"*{_SUFFIX}"))}


def delete_program(name: str) -> None:
    """Deletes a stored program that cannot be used."""
    folder = program_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            (folder / f"{name}{_SUFFIX}").unlink()


def delete_oldest(folder: Path, most: int, newest: Path) -> None:
    """Deletes the files that were unused for longest until the folder holds at most `most` bytes.

    Args:
      folder: folder of stored programs.
      most: bytes to keep.
      newest: a file that stays.
    """
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total > most and path != newest:
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def _is_ours(handle: int) -> bool:
    """Checks that a file is a plain one of this user which no other may write."""
    found = os.fstat(handle)
    owned = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return owned and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o022
