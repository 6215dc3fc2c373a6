"""The persistent compilation cache: a second start of the same program compiles nothing.

A cache entry is machine code that JAX loads and runs, so the folder belongs to one user and is never shared: it is
created with mode 0700, and a folder in the temporary directory that another user owns is refused. Each kind of
processor has its own folder, because a home folder may be mounted on machines with different instruction sets.

The first use of a public name of `gems_jax` calls `use_default_cache`. `disable_compilation_cache()` opts out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache


def cache_root() -> Path:
    """Returns `$XDG_CACHE_HOME/gems_jax`, or `~/.cache/gems_jax`, or a private folder in the temporary directory."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
        root = base / "gems_jax"
        make_private(root)
    except (OSError, RuntimeError):  # no home folder, or a read-only one
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        root = Path(tempfile.gettempdir()) / f"gems_jax-{user}"
        make_private(root)
    return root


def compilation_cache_dir() -> Path:
    """Returns the folder for this machine's kind of processor, inside `cache_root()`."""
    folder = cache_root() / f"xla-{_processor()}"
    make_private(folder)
    return folder


def enable_compilation_cache(folder: Path | str | None = None) -> Path | None:
    """Enables the persistent compilation cache for this process.

    The first use of a public name of `gems_jax` does this already, unless JAX has been configured otherwise. Call it to
    choose a folder, or to lower the thresholds of your own cache: every compilation is cached, however short, because a
    solver is many small programs.

    Args:
      folder: folder of the cache. By default the one that the user has chosen (`JAX_COMPILATION_CACHE_DIR`, or an
        earlier `jax.config.update`), else `compilation_cache_dir()`.

    Returns:
      The folder, or None if there is no safe folder.
    """
    chosen = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    try:
        path = Path(folder or chosen or compilation_cache_dir())
        if str(path) != chosen:
            make_private(path)
    except (OSError, RuntimeError):
        return None
    _CHOICE.opted_out = False
    if str(path) != chosen:
        _update("jax_compilation_cache_dir", str(path))
    _update("jax_persistent_cache_min_compile_time_secs", 0.0)
    _update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def disable_compilation_cache() -> None:
    """Disables the compilation cache that `gems_jax` enabled, for the rest of this process.

    Restores the settings of JAX that the cache changed: a cache that the user has configured stays. The environment
    variable `JAX_ENABLE_COMPILATION_CACHE=false` disables all caches.
    """
    for name, value in _CHOICE.before.items():
        jax.config.update(name, value)
    _CHOICE.before.clear()
    _CHOICE.opted_out = True
    reset_cache()  # JAX keeps an open cache otherwise


def cache_is_wanted() -> bool:
    """Returns whether programs may be kept on disk: the user has not opted out, and JAX's cache is not disabled."""
    return not _CHOICE.opted_out and jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]


def use_default_cache() -> None:
    """Enables the cache for a program that has not chosen one; leaves every choice of the user alone."""
    configured = jax.config.jax_compilation_cache_dir is not None or _CHOICE.before  # type: ignore[attr-defined]
    if not (configured or _CHOICE.opted_out) and jax.config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        enable_compilation_cache()


@dataclasses.dataclass
class _Choice:
    """Choices of this process: whether the user has opted out, and the settings of JAX before they were changed."""

    opted_out: bool = False
    before: dict[str, Any] = dataclasses.field(default_factory=dict)


_CHOICE = _Choice()


def _update(name: str, value: Any) -> None:
    """Changes a setting of JAX and remembers the original one."""
    _CHOICE.before.setdefault(name, getattr(jax.config, name))
    if name == "jax_compilation_cache_dir":
        reset_cache()  # JAX opens the new folder with its next compilation
    jax.config.update(name, value)


def make_private(folder: Path) -> None:
    """Creates `folder` for this user alone; raises PermissionError if it is not writable or owned by another user."""
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
