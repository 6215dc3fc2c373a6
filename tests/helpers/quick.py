"""The quick selection of the tests: `pytest --quick` leaves out those that are recorded as slow.

The same record orders the files of a whole run, longest first, so that all test processes end at about the same time.

`pytest --record-durations` writes the record, tests/data/durations.json: the processor seconds of every test function
that takes more than `LIMIT`, by name without parameters, and the sum of the others, which are the quick selection. A
test that is not in the record runs. Seconds of the processor, with those of the processes that a test starts, depend
little on what else the machine does. `pytest --record-suite` writes docs/suite.json (`suite_record.py`).
"""

import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import suite_record

RECORD = Path(__file__).parents[1] / "data" / "durations.json"
LIMIT = 0.25  # seconds that a function of the quick selection may take, over all its parameters
BUDGET = 120.0  # seconds that the quick selection may take: a minute and a half of two processes, and their start
_spent: dict[str, float] = {}
_clock = [0.0]
_shared: dict[pytest.FixtureDef[Any], float] = {}  # seconds of the fixtures that more than one test may use
_total = [0.0]  # processor seconds of all reports, each fixture once
_new: set[pytest.FixtureDef[Any]] = set()  # those that were set up since the last report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run tests that are recorded as quick")
    parser.addoption("--record-durations", action="store_true", help=f"write {RECORD.name} after the run")
    parser.addoption("--record-suite", action="store_true", help="write docs/suite.json after the run, if all passed")


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def name_of(nodeid: str) -> str:
    """The name of a test without its parameters."""
    return nodeid.partition("[")[0]


def read_record() -> tuple[dict[str, float], float]:
    """Seconds of the tests that `--quick` leaves out, and the sum of those that it runs."""
    record = json.loads(RECORD.read_text())
    return record["slow"], record["quick"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out slow tests if asked to; where processes share the files, those that take long come first."""
    slow, _ = read_record()
    if config.getoption("--quick"):
        left_out = [item for item in items if name_of(item.nodeid) in slow]
        items[:] = [item for item in items if name_of(item.nodeid) not in slow]
        config.hook.pytest_deselected(items=left_out)
    elif hasattr(config, "workerinput"):
        seconds = seconds_of_files(slow)
        items.sort(key=lambda item: -seconds[file_of(item.nodeid)])  # stable: files stay together


def seconds_of_files(slow: dict[str, float]) -> Counter[str]:
    """The sum over the slow tests of each file."""
    seconds: Counter[str] = Counter()
    for name, spent in slow.items():
        seconds[file_of(name)] += spent
    return seconds


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection_finish(session: pytest.Session) -> None:
    _clock[0] = processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator:
    before = processor_seconds()
    value = yield
    if fixturedef.scope != "function":
        _shared[fixturedef] = processor_seconds() - before
        _new.add(fixturedef)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Generator:
    """Adds to a report the processor seconds since the one before; xdist sends them to the controlling process.

    A fixture that several tests share counts for each of them: whichever runs first has to wait for it.
    """
    report = yield
    before, _clock[0] = _clock[0], processor_seconds()
    report.processor_seconds = report.own_seconds = _clock[0] - before
    if call.when == "setup":
        used = {fixture for known in item._fixtureinfo.name2fixturedefs.values() for fixture in known}
        report.processor_seconds += sum(_shared.get(fixture, 0.0) for fixture in used - _new)
        _new.clear()
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = name_of(report.nodeid)
    _total[0] += getattr(report, "own_seconds", report.duration)
    _spent[name] = _spent.get(name, 0.0) + getattr(report, "processor_seconds", report.duration)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--record-suite") and exitstatus == 0 and suite_record.is_whole(config):
        passed = len(config.pluginmanager.get_plugin("terminalreporter").stats.get("passed", ()))
        found = suite_record.describe_run(config.getoption("--quick"), passed, _total[0])
        suite_record.write_entry(suite_record.SUITE, *found)
    if config.getoption("--record-durations"):
        _write_durations(config)


def _write_durations(config: pytest.Config) -> None:
    slow, quick = read_record()
    slow = {name: seconds for name, seconds in slow.items() if name not in _spent}  # those that were not run stay
    slow |= {name: round(seconds, 1) for name, seconds in _spent.items() if seconds > LIMIT}
    if config.args_source == pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword:
        quick = round(sum(seconds for seconds in _spent.values() if seconds <= LIMIT), 1)
    RECORD.write_text(json.dumps({"quick": quick, "slow": slow}, indent=0, sort_keys=True) + "\n")
