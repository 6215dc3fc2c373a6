"""Plants the faults of `benchmarks.trust.faults` and `benchmarks.trust.checks` one at a time and runs their tests.

`python -m benchmarks.trust.mutation` plants all, and words after it select those whose names contain one. Each fault
goes into a temporary copy of the package, whose tests run with it in a forked child, up to the first failure. A fault
is found if a test fails. Tests that could not be collected, or ran out of time, find nothing.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.trust.checks import CHECKS
from benchmarks.trust.children import answer
from benchmarks.trust.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 3600.0  # seconds of the tests of one fault, on a busy machine
OWN = ("gems_jax", "benchmarks", "experiments")  # packages that a child imports from the copy
IMPORTS = ("jax", "optax", "flax", "chex", "distrax", "orbax.checkpoint", "scipy.stats", "scipy.optimize", "pytest")


def plant(fault: Fault, root: Path) -> None:
    """Changes the source below `root` by a fault.

    Args:
      fault: the fault.
      root: folder with src/gems_jax.

    Raises:
      ValueError: if the text to replace does not occur exactly once.
    """
    path = root / "src" / "gems_jax" / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise ValueError(
            f"{fault.name}: expected the text to replace once in {fault.file}, got it {text.count(fault.old)} times. "
            "Change the fault with the source."
        )
    path.write_text(text.replace(fault.old, fault.new))


def copy_sources(root: Path) -> None:
    """Copies what the tests need to a folder: the package without its trained policies, the tests, and the settings."""
    left_out = shutil.ignore_patterns("__pycache__", "checkpoints")
    for name in ("src", "tests", "benchmarks", "experiments"):
        shutil.copytree(ROOT / name, root / name, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", root)


class _Failures:
    """Notes the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid.removeprefix("tests/"))


def _run_here(root: Path, words: list[str]) -> list[Any]:
    """Runs pytest on a copy in this process, which ends after it: [exit code, names of failed tests]."""
    import pytest

    os.chdir(root)
    os.environ |= {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]
    sys.path[:0] = [str(root / "src"), str(root)]
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    failures = _Failures()
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *words], plugins=[failures])
    return [int(code), failures.names]


def run_tests(root: Path, fault: Fault) -> str:
    """Runs the tests of a fault on a copy, the most likely ones first.

    Args:
      root: the copy.
      fault: the fault that was planted in it.

    Returns:
      The name of the test that failed, "" if none did.
    """
    orders = [[*fault.tests, "-k", fault.first], [*fault.tests]] if fault.first else [[*fault.tests]]
    for words in orders:
        found = answer(lambda words=words: _run_here(root, words), LIMIT)
        if found and found[0] == 1 and found[1]:
            return found[1][0]
    return ""


def try_fault(number: int, faults: Sequence[Fault] = FAULTS) -> dict[str, Any]:
    """Plants one fault in a copy and runs its tests.

    Args:
      number: index of the fault.
      faults: the list that it is in.

    Returns:
      {"number", "kind", "found", "by"}: the name of the fault, and the test that failed.
    """
    fault = faults[number]
    for name in IMPORTS:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="gems-fault-") as folder:
        copy_sources(Path(folder))
        plant(fault, Path(folder))
        test = run_tests(Path(folder), fault)
    return {"number": number, "kind": fault.name, "found": bool(test), "by": test}


def main(words: list[str]) -> int:
    """Tries the faults whose names contain one of the words; returns the number that slipped through."""
    missed = 0
    every = (*FAULTS, *CHECKS)
    for number, fault in enumerate(every):
        if not words or any(word in fault.name for word in words):
            record = try_fault(number, every)
            missed += not record["found"]
            print(f"{'found ' if record['found'] else 'MISSED'}  {fault.name}  ({record['by']})", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
