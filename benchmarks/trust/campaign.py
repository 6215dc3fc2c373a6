"""Stored results of the campaigns, and their totals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.timing import commit
from benchmarks.trust import kills

TITLES = {
    "kills": "random SIGKILL, resumed to identical rows and state",
    "damage": "damaged files that are noticed, in one line",
    "lines": "fuzzed command lines without a traceback",
    "hostile": "hostile files that are refused, in one line",
    "mutation": "faults planted in the core that the tests find",
    "checks": "checks of files and lines that are removed, which the tests find",
}
PASSED = {"damage": "detected", "lines": "clean", "hostile": "refused", "mutation": "found", "checks": "found"}
Record = dict[str, Any]
_commit = cache(commit)


class Campaign:
    """Results of one campaign, stored as they come."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.path = folder / f"{name}-s{seed}.jsonl"
        text = self.path.read_text() if self.path.exists() else ""
        self.records: dict[str, Record] = {}
        for line in text.splitlines():
            self._keep(json.loads(line))

    def _keep(self, record: Record) -> None:
        self.records[f"{record.get('kind', '')}#{record['number']}"] = record

    def add(self, records: Iterable[Record]) -> None:
        """Appends results, with the commit that gave them, to the file."""
        with open(self.path, "a", encoding="utf-8") as file:
            for record in records:
                record = {**record, "commit": _commit()}
                self._keep(record)
                file.write(json.dumps(record) + "\n")

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """Lists the numbers that have no result."""
        there = {record["number"] for record in self.records.values()}
        return [number for number in numbers if number not in there]


def totals(folder: Path, seed: int) -> Record:
    """Sums up the campaigns of a seed: {campaign: {"tried", "passed", "commits"}}, and what failed."""
    found = {name: list(Campaign(folder, name, seed).records.values()) for name in TITLES}
    table: dict[str, Record] = {
        name: {"tried": len(found[name]), "passed": sum(record[key] for record in found[name])}
        for name, key in PASSED.items()
    }
    own = [record for record in found["kills"] if "kills" in record]
    table["kills"] = {
        "tried": sum(record["kills"] for record in own),
        "passed": sum(record["survived"] for record in own),
        "runs": {kind: sum(record["kind"] == kind for record in own) for kind in kills.KINDS},
        "with a trace": sum(record["traces"] for record in own),
    }
    failures = [record for name, key in PASSED.items() for record in found[name] if not record[key]]
    failures += [
        record for record in found["kills"] if record.get("survived") != record.get("kills") or "error" in record
    ]
    commits = {name: sorted({record.get("commit", "unknown") for record in found[name]}) for name in TITLES}
    return {"campaigns": {name: {**table[name], "commits": commits[name]} for name in TITLES}, "failures": failures}
