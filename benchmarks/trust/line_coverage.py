"""Which lines of the package the default tests execute: `python -m benchmarks.trust.line_coverage` (`make coverage`).

The tests run once under coverage, and so does every Python process that they start: workers, commands, sweeps, forked
children. What a process that is killed by SIGKILL has executed is lost. docs/coverage.json gets the totals, and the
file of every part, with command, commit and machine; further words go to pytest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.trust.provenance import provenance

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "docs" / "coverage.json"
WORK = ROOT / "build" / "coverage"
PACKAGE = "src/gems_jax/"
LOW = 0.9  # files below are listed
TESTS = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q")
Record = dict[str, Any]


def run_tests(words: list[str]) -> int:
    """Runs the tests under coverage and returns the exit code of pytest. Data of all processes go to `WORK`."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    environment = {**os.environ, "COVERAGE_FILE": str(WORK / "data")}
    line = [sys.executable, "-m", "coverage", "run", "-m", "pytest", *TESTS, *words]
    return subprocess.run(line, cwd=ROOT, env=environment).returncode


def read_data() -> Record:
    """Combines the data of all processes, and returns coverage's own report as JSON."""
    environment, report = {**os.environ, "COVERAGE_FILE": str(WORK / "data")}, WORK / "report.json"
    for words in (["combine", "--quiet", str(WORK)], ["json", "--quiet", "-o", str(report)]):
        subprocess.run([sys.executable, "-m", "coverage", *words], cwd=ROOT, env=environment, check=True)
    return json.loads(report.read_text())


def part_of(path: str) -> str:
    """Returns the part of the package that a file belongs to: its first folder."""
    folder, slash, _ = path.partition(PACKAGE)[2].partition("/")
    return folder if slash else "top level"


def summarize(files: Mapping[str, Mapping[str, Any]]) -> Record:
    """Summarizes the report of coverage.

    Args:
      files: {path: {"summary": {"num_statements", "covered_lines"}, "missing_lines"}}, the entry "files" of its JSON.

    Returns:
      {"lines", "covered", "parts", "low"}: totals; [covered, lines] of every part; and of every file whose covered
      fraction is below `LOW` [covered, lines], the lowest fraction first.
    """
    counts = {path: _count(report["summary"]) for path, report in files.items() if PACKAGE in path}
    parts: dict[str, list[int]] = {}
    for path, (covered, lines) in counts.items():
        total = parts.setdefault(part_of(path), [0, 0])
        total[:] = [total[0] + covered, total[1] + lines]
    low = {path: count for path, count in counts.items() if count[1] and count[0] / count[1] < LOW}
    ordered = sorted(low, key=lambda path: low[path][0] / low[path][1])
    return {
        "lines": sum(lines for _, lines in counts.values()),
        "covered": sum(covered for covered, _ in counts.values()),
        "parts": {part: parts[part] for part in sorted(parts)},
        "low": {path.partition(PACKAGE)[2]: low[path] for path in ordered},
    }


def _count(summary: Mapping[str, int]) -> list[int]:
    return [summary["covered_lines"], summary["num_statements"]]


def main(words: list[str]) -> int:
    """Measures and publishes; returns the exit code of the tests."""
    record, start = provenance(), time.monotonic()
    code = run_tests(words)
    minutes = round((time.monotonic() - start) / 60.0, 1)
    found = summarize(read_data()["files"])
    record |= {"command": "make coverage", "minutes": minutes, "tests": "passed" if code == 0 else f"exit code {code}"}
    PUBLISHED.write_text(
        re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", json.dumps({**record, **found}, indent=2)) + "\n"
    )
    print(f"{found['covered']} of {found['lines']} lines, {found['covered'] / found['lines']:.1%}; {PUBLISHED}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
