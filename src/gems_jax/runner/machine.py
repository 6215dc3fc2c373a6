"""What a run ran on: package versions, commit, device, memory. For `config.json`, metrics and `gems doctor`."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

CORE_PACKAGES = ("gems_jax", "jax", "jaxlib", "flax", "optax", "chex", "distrax", "pgx", "numpy", "scipy")


@functools.cache  # a search through every installed package, and each checkpoint asks for a dozen
def package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(packages: tuple[str, ...] = (*CORE_PACKAGES, "orbax-checkpoint", "jaxmarl")) -> dict[str, str]:
    """Installed versions; packages that are not installed are left out."""
    found = {name: package_version(name) for name in packages}
    return {name: version for name, version in found.items() if version}


def commit() -> dict[str, Any]:
    """Commit of the source tree this package runs from: {"commit": sha or None, "dirty": uncommitted changes?}."""
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    # An installed copy may lie inside somebody else's repository: that commit would say nothing about this code.
    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"commit": None, "dirty": None}
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", str(folder.parent)))}


def device() -> dict[str, Any]:
    first = jax.devices()[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": jax.device_count()}


def describe_machine() -> dict[str, Any]:
    """Everything above in one JSON-able record."""
    return {
        **commit(),
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "device": device(),
    }


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_circumstances() -> dict[str, Any]:
    """Records when, where and with what something was measured."""
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"created": now, **describe_machine(), "processor": processor()}


def memory_bytes() -> int:
    """Bytes in use on the first accelerator; on the CPU the resident size of this process."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_in_use" in stats:
        return int(stats["bytes_in_use"])
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if platform.system() == "Darwin" else peak * 1024
