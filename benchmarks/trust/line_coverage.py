"""Which lines of the package the default tests execute: `python -m benchmarks.trust.line_coverage` (`make coverage`).

The tests run once under coverage, and so does every Python process that they start: workers, commands, sweeps, forked
children. What a process that is killed by SIGKILL has executed is lost. The folders of tests run one after the other;
those that have passed at this commit are not run again, so that an interrupted measurement continues. The totals, the
figures of every part of the package and the files with the lowest go to docs/coverage.json, with command, commit and
machine. Further words go to pytest. Python 3.12 and later count lines at little cost; on 3.11 it takes several times
as long as the tests alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
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


def list_folders() -> list[str]:
    """Lists the folders of tests, and the files beside them."""
    entries = sorted((ROOT / "tests").iterdir())
    folders = [path for path in entries if path.is_dir() and any(path.glob("test_*.py"))]
    return [str(path.relative_to(ROOT)) for path in [*folders, *(ROOT / "tests").glob("test_*.py")]]


def run_tests(words: Sequence[str], marker: str) -> list[str]:
    """Runs the tests under coverage. Data of all processes go to `WORK`, which belongs to one commit.

    Args:
      words: arguments of pytest.
      marker: what identifies the measurement: the data of another one are removed.

    Returns:
      The folders with a failed test.
    """
    if not (WORK / marker).exists():
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / marker).touch()
    files = [name for name in list_folders() if name.endswith(".py")]
    groups = [[name] for name in list_folders() if not name.endswith(".py")] + [files]
    return [name for group in groups if not _run_group(group, words) for name in group]


def _run_group(names: list[str], words: Sequence[str]) -> bool:
    """Runs some folders or files and returns whether they passed; those that have passed are not run again."""
    label = Path(names[0]).stem
    done, data = WORK / f"{label}-passed", WORK / label
    if done.exists():
        return True
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    environment = {**os.environ, "COVERAGE_FILE": str(data / "data")}
    if sys.version_info >= (3, 12):
        environment["COVERAGE_CORE"] = "sysmon"
    line = [sys.executable, "-m", "coverage", "run", "-m", "pytest", *TESTS, *names, *words]
    print(" ".join(names), file=sys.stderr, flush=True)
    code = subprocess.run(line, cwd=ROOT, env=environment).returncode
    if code == 0:
        done.touch()
    return code == 0


def read_data() -> Record:
    """Combines the data of all processes, and returns coverage's own report as JSON."""
    environment, report = {**os.environ, "COVERAGE_FILE": str(WORK / "combined")}, WORK / "report.json"
    folders = [str(path) for path in WORK.iterdir() if path.is_dir()]
    for words in (["combine", "--quiet", "--keep", *folders], ["json", "--quiet", "-o", str(report)]):
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
    """Measures and publishes; returns 1 if a test failed."""
    record = provenance()
    failed = run_tests(words, f"commit-{record['commit']}")
    found = summarize(read_data()["files"])
    record |= {"command": "make coverage", "tests": f"failed in {', '.join(failed)}" if failed else "passed"}
    text = re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", json.dumps({**record, **found}, indent=2))
    PUBLISHED.write_text(text + "\n")
    print(f"{found['covered']} of {found['lines']} lines, {found['covered'] / found['lines']:.1%}; {PUBLISHED}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
