"""`pytest --record-suite`: writes the seconds of a whole run of the tests to docs/suite.json.

`make test ARGS=--record-suite` and `make test-fast ARGS=--record-suite` each write their own entry, if all tests were
selected and passed. The seconds are those of the process, from its start. The load average says whether the machine
was otherwise idle: two test processes alone have a load of about two.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trust.provenance import provenance

SUITE = Path(__file__).parents[2] / "docs" / "suite.json"
_imported = time.monotonic()


def seconds_since_start() -> float:
    """Seconds of this process; without the file system /proc, those since this module was imported."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(Path("/proc/uptime").read_text().split()[0]) - started
    except OSError:
        return time.monotonic() - _imported


def is_whole(config: pytest.Config) -> bool:
    """Checks that a run selects what `make test` or `make test-fast` does."""
    everything = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    return everything and not config.option.keyword and config.option.markexpr == "not slow"


def describe_run(quick: bool, passed: int, processor_seconds: float) -> tuple[str, dict[str, Any]]:
    """Describes the run that ends now: the make target, and its entry of docs/suite.json."""
    line = "make test-fast" if quick else "make test"
    record = {
        "seconds": round(seconds_since_start(), 1),
        "tests": passed,
        "processor_seconds": round(processor_seconds),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "command": f"{line} ARGS=--record-suite",
        **provenance(),
    }
    return line, record


def write_entry(path: Path, line: str, record: dict[str, Any]) -> None:
    """Writes the entry of one make target and keeps the others."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else {}
    path.write_text(json.dumps({"runs": {**runs, line: record}}, indent=2) + "\n")
