"""Plants the faults of `benchmarks.trust.faults` one at a time and runs their tests.

`python -m benchmarks.trust.mutation` plants all, and words after it select those whose names contain one. Each fault
goes into a temporary copy of the package, whose tests run with it. A fault is found if a test fails. Tests that could
not be collected, or ran out of time, find nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.trust.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 900.0  # seconds of the tests of one fault
FAILED = 1  # exit code of pytest if tests failed; others mean that it could not run them


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


def run_tests(root: Path, tests: tuple[str, ...]) -> tuple[int | None, str]:
    """Runs test files of a copy up to the first failure.

    Returns:
      The exit code of pytest, None if it took too long, and the name of the test that failed.
    """
    line = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*line, *(f"tests/{test}" for test in tests)],
            cwd=root, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, ""
    failed = [text.split(" ")[1] for text in done.stdout.splitlines() if text.startswith(("FAILED ", "ERROR "))]
    return done.returncode, failed[0].removeprefix("tests/") if failed else done.stdout[-300:]


def check_tests() -> None:
    """Runs all tests of the faults on an unchanged copy, where they must pass.

    Raises:
      SystemExit: if one fails: it would then count as having found every fault.
    """
    with tempfile.TemporaryDirectory(prefix="gems-fault-") as folder:
        copy_sources(Path(folder))
        code, test = run_tests(Path(folder), tuple(sorted({test for fault in FAULTS for test in fault.tests})))
    if code:
        raise SystemExit(f"mutation: expected tests that pass on the unchanged source, got exit code {code}: {test}")


def try_fault(number: int) -> dict[str, Any]:
    """Plants one fault in a copy and runs its tests.

    Args:
      number: index of the fault.

    Returns:
      {"number", "kind", "found", "by"}: the name of the fault, and the test that failed.
    """
    fault = FAULTS[number]
    with tempfile.TemporaryDirectory(prefix="gems-fault-") as folder:
        copy_sources(Path(folder))
        plant(fault, Path(folder))
        code, test = run_tests(Path(folder), fault.tests)
    return {"number": number, "kind": fault.name, "found": code == FAILED, "by": test}


def main(words: list[str]) -> int:
    """Tries the faults whose names contain one of the words; returns the number that slipped through."""
    check_tests()
    missed = 0
    for number, fault in enumerate(FAULTS):
        if not words or any(word in fault.name for word in words):
            record = try_fault(number)
            missed += not record["found"]
            print(f"{'found ' if record['found'] else 'MISSED'}  {fault.name}  ({record['by'].strip()})", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
