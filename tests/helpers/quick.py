"""The quick selection of the tests: `pytest --quick` leaves out those that are recorded as slow.

`pytest --record-durations` writes the record, tests/data/durations.json: seconds of every test function that takes a
noticeable time, by name without parameters. A test that is not in the record runs.
"""

import json
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(__file__).parents[1] / "data" / "durations.json"
LIMIT = 0.25  # seconds that a function of the quick selection may take, over all its parameters
_spent: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run tests that are recorded as quick")
    parser.addoption("--record-durations", action="store_true", help=f"write {RECORD.name} after the run")


def name_of(nodeid: str) -> str:
    """The name of a test without its parameters."""
    return nodeid.partition("[")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    slow = json.loads(RECORD.read_text())
    left_out = [item for item in items if slow.get(name_of(item.nodeid), 0.0) > LIMIT]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = name_of(report.nodeid)
    _spent[name] = _spent.get(name, 0.0) + report.duration


def pytest_sessionfinish(session: Any) -> None:
    config = session.config
    if not config.getoption("--record-durations") or hasattr(config, "workerinput"):
        return
    noticed = {name: round(seconds, 2) for name, seconds in _spent.items() if seconds > LIMIT}
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    others = {name: seconds for name, seconds in known.items() if name not in _spent}
    RECORD.write_text(json.dumps({**others, **noticed}, indent=0, sort_keys=True) + "\n")
