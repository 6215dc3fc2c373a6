"""Package versions, commit, device and memory, for `config.json`, metrics and `gems doctor`."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

CORE_PACKAGES = ("gems_jax", "jax", "jaxlib", "flax", "optax", "chex", "distrax", "pgx", "numpy", "scipy")


@functools.cache  # slow: searches all installed packages, a dozen times per checkpoint
def package_version(name: str) -> str | None:
    """Returns the installed version of a package; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(packages: tuple[str, ...] = (*CORE_PACKAGES, "orbax-checkpoint", "jaxmarl")) -> dict[str, str]:
    """Returns the versions of the packages that are installed."""
    found = {name: package_version(name) for name in packages}
    return {name: version for name, version in found.items() if version}


def commit() -> dict[str, Any]:
    """Returns the commit of the source tree: {"commit": sha or None, "dirty": has uncommitted changes}."""
    folder = Path(__file__).resolve().parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    # An installed copy may be inside another repository, whose commit does not describe this code.
    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"commit": None, "dirty": None}
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", str(folder.parent)))}


def device() -> dict[str, Any]:
    """Returns platform and kind of the first device, and the number of devices."""
    import jax  # imported late: a folder is checked before

    first = jax.devices()[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": jax.device_count()}


def describe_machine() -> dict[str, Any]:
    """Collects commit, versions, platform and device in one JSON record."""
    return {
        **commit(),
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "device": device(),
    }


def processor() -> str:
    """Returns the name of the processor, or its architecture if the name is unknown."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_circumstances() -> dict[str, Any]:
    """Collects the time, the machine and the versions of a measurement."""
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"created": now, **describe_machine(), "processor": processor()}


def memory_bytes() -> int:
    """Returns the bytes in use on the first accelerator; on the CPU, the resident size of this process."""
    import jax

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
