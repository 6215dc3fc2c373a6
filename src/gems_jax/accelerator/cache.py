"""The persistent compilation cache: a second start of the same program compiles nothing.

A cache entry is machine code that JAX loads and runs, so the folder belongs to one user and is never shared: it is
created with mode 0700, and a folder in the temporary directory that somebody else owns is refused. Each kind of
processor has its own, because a home folder may be mounted on machines with different instruction sets.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from pathlib import Path

import jax


def cache_root() -> Path:
    """Returns `$XDG_CACHE_HOME/gems_jax`, or `~/.cache/gems_jax`, or a private folder in the temporary directory."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
        root = base / "gems_jax"
        _make_private(root)
    except (OSError, RuntimeError):  # no home folder, or a read-only one
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        root = Path(tempfile.gettempdir()) / f"gems_jax-{user}"
        _make_private(root)
    return root


def compilation_cache_dir() -> Path:
    """Returns the folder for this machine's kind of processor, inside `cache_root()`."""
    folder = cache_root() / f"xla-{_processor()}"
    _make_private(folder)
    return folder


def enable_compilation_cache(folder: Path | str | None = None) -> Path | None:
    """Enables the cache for this process and returns its folder, or None where there is no safe folder.

    A folder chosen by the user (`JAX_COMPILATION_CACHE_DIR`, or an earlier `jax.config.update`) is left as it is.
    Every compilation is cached, however short: a solver is many small programs.
    """
    chosen = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if folder is None and chosen:
        path = Path(chosen)
    else:
        try:
            path = Path(folder) if folder is not None else compilation_cache_dir()
            _make_private(path)
        except (OSError, RuntimeError):
            return None
        jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def _make_private(folder: Path) -> None:
    """Create `folder` for this user alone; raises PermissionError where it cannot be written or is not ours."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} is not writable")


def _processor() -> str:
    """A short name of the instruction set: machine code for one processor may not run on another."""
    features = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("flags", "features")):
                features = line
                break
    except OSError:
        pass
    return f"{platform.machine() or 'cpu'}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
