"""The record of the quick selection: `make test-fast` runs what it does not name."""

import ast
import json
from pathlib import Path

import pytest

import quick
import suite_record
from quick import BUDGET, LIMIT, RECORD, file_of, read_record, seconds_of_files

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]


def functions_of(path: Path) -> set[str]:
    """Names of the test functions of a file."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_recorded_tests_exist() -> None:
    slow, _ = read_record()
    found = {path: functions_of(ROOT / path) for path in map(file_of, slow) if (ROOT / path).exists()}
    gone = [name for name in slow if name.partition("::")[2] not in found.get(file_of(name), ())]
    assert not gone, "of tests that are gone: expected none. Run `make test ARGS=--record-durations`"


def test_the_record_names_slow_tests_only_and_in_order() -> None:
    slow, _ = read_record()
    assert list(slow) == sorted(slow) and min(slow.values()) > LIMIT / 2  # seconds are rounded
    assert RECORD.stat().st_size < 100_000


def test_the_quick_selection_fits_its_budget() -> None:
    """The seconds of the last full run with `--record-durations`."""
    _, seconds = read_record()
    assert 0.0 < seconds <= BUDGET


def test_seconds_of_files_are_sums_over_their_tests() -> None:
    assert seconds_of_files({"a.py::one": 1.0, "b.py::one": 4.0, "a.py::two": 2.0}) == {"a.py": 3.0, "b.py": 4.0}


def test_a_whole_run_is_recorded_beside_the_other(tmp_path: Path) -> None:
    line, record = suite_record.describe_run(True, 3, 0.7)
    assert line == "make test-fast" and record["tests"] == 3 and record["commit"] and record["machine"]
    assert 0.0 < record["seconds"] < 1e6 and record["processor_seconds"] == 1 and len(record["load_average"]) == 3
    path = tmp_path / "suite.json"
    for name in ("make test", line):
        suite_record.write_entry(path, name, record)
    assert json.loads(path.read_text()) == {"runs": {"make test": record, line: record}}


@pytest.mark.parametrize("words", [["test_own.py"], ["-k", "cheap"], ["-m", "slow"]])
def test_a_part_is_not_recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(suite_record, "SUITE", pytester.path / "suite.json")
    pytester.makepyfile(test_own="def test_cheap(): ...")
    pytester.makeini("[pytest]\ntestpaths = .\nmarkers = slow\naddopts = -m 'not slow'")
    pytester.inline_run("--record-suite", "-p", "no:cacheprovider", *words, plugins=[quick])
    assert not suite_record.SUITE.exists()
    pytester.inline_run("--record-suite", "-p", "no:cacheprovider", plugins=[quick]).assertoutcome(passed=1)
    assert json.loads(suite_record.SUITE.read_text())["runs"]["make test"]["tests"] == 1


OWN = """
import pytest


@pytest.fixture(scope="module")
def dear():
    return sum(number * number for number in range(4_000_000))


def test_first(dear): ...


def test_second(dear): ...


def test_cheap(): ...
"""


def test_a_shared_fixture_counts_for_every_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out of the quick selection are both that use it, not only the one that came first."""
    record = pytester.path / "durations.json"
    record.write_text('{"quick": 0.0, "slow": {"test_other.py::test_gone": 1.0}}')
    monkeypatch.setattr(quick, "RECORD", record)
    monkeypatch.setattr(quick, "LIMIT", 0.05)
    monkeypatch.setattr(quick, "_spent", {})
    pytester.makepyfile(test_own=OWN)
    pytester.inline_run("--record-durations", "-p", "no:cacheprovider", plugins=[quick]).assertoutcome(passed=3)
    slow, _ = read_record()
    assert set(slow) == {"test_other.py::test_gone", "test_own.py::test_first", "test_own.py::test_second"}
    found = pytester.inline_run("--quick", "-p", "no:cacheprovider", plugins=[quick])
    found.assertoutcome(passed=1)
