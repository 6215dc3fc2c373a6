"""Where a published figure comes from: commit, date and machine."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version

from benchmarks.timing import commit, processor


def provenance() -> dict[str, str]:
    """Describes commit, date and machine of a measurement, in the fields of the JSON files in docs/."""
    machine = f"{os.cpu_count()} cores ({processor()}), {platform.system()} {platform.machine()}"
    versions = f"Python {platform.python_version()}, jax {version('jax')}"
    return {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": f"{machine}, {versions}"}
