"""The table of docs/trust.md, from docs/trust.json and the files of the measurements that have one of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.trust.campaign import TITLES, Record
from benchmarks.trust.findings import table as findings_table
from benchmarks.trust.provenance import provenance

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PUBLISHED, PAGE = DOCS / "trust.json", DOCS / "trust.md"
LIMITS = {"make test": 600, "make test-fast": 90}  # seconds on two cores


def read_published() -> Record:
    """Reads docs/trust.json, which has the totals of the campaigns."""
    return json.loads(PUBLISHED.read_text())


def merge(record: Record, published: Record) -> Record:
    """Takes the published totals of campaigns that were not run here.

    Args:
      record: the result of `campaign.totals`.
      published: the content of docs/trust.json.

    Returns:
      The totals of all campaigns; those of this machine with date and machine.
    """
    origin = {name: text for name, text in provenance().items() if name != "commit"}
    campaigns = {
        name: {**found, **origin} if found["tried"] else published["campaigns"].get(name, found)
        for name, found in record["campaigns"].items()
    }
    return {"command": "python -m benchmarks.trust", "campaigns": campaigns, "failures": record["failures"]}


def table(record: Record) -> str:
    """Formats the totals of the campaigns, and the measurements of docs/, as a Markdown table."""
    rows = ["| campaign | passed | tried |", "| --- | ---: | ---: |"]
    for name, title in TITLES.items():
        found = record["campaigns"].get(name, {"tried": 0})
        if found["tried"]:
            rows.append(f"| {title} | {found['passed']:,} | {found['tried']:,} |")
    return "\n".join([*rows, *_findings_row(), *_soak_rows(), *_suite_rows(), *_coverage_row()])


def read_docs(name: str) -> Any:
    """Reads a JSON file of docs/; None if there is none."""
    path = DOCS / name
    return json.loads(path.read_text()) if path.exists() else None


def _findings_row() -> list[str]:
    found = (read_docs("findings.json") or {"findings": ()})["findings"]
    passed, tried = (sum(one[field] for one in found) for field in ("passed", "tried"))
    return [f"| findings of the first attack that no longer reproduce, case by case | {passed} | {tried} |"] * bool(
        found
    )


def _soak_rows() -> list[str]:
    runs = (read_docs("soak.json") or {"runs": {}})["runs"].values()
    titles = [
        f"long run that stays flat: {run['title']}, {run['iterations']:,} iterations in {run['seconds'] / 60:.0f} min"
        for run in runs
    ]
    return [f"| {title} | {int(run['flat'])} | 1 |" for title, run in zip(titles, runs, strict=True)]


def _suite_rows() -> list[str]:
    runs = (read_docs("suite.json") or {"runs": {}})["runs"]
    return [
        f"| seconds of `{line}`, at most {LIMITS[line]:,} | {runs[line]['seconds']:,.0f} | |"
        for line in LIMITS
        if line in runs
    ]


def _coverage_row() -> list[str]:
    found = read_docs("coverage.json")
    if found is None:
        return []
    part = found["covered"] / found["lines"]
    return [
        f"| lines of the package that `make test` executes, {part:.1%} | {found['covered']:,} | {found['lines']:,} |"
    ]


def publish(record: Record) -> None:
    """Writes docs/trust.json and the tables of docs/trust.md."""
    PUBLISHED.write_text(json.dumps(record, indent=2) + "\n")
    PAGE.write_text(with_tables(PAGE.read_text(), record))


def with_tables(page: str, record: Record) -> str:
    """Replaces what is between the marks of the page: the table of all figures, and that of the findings."""
    found = (read_docs("findings.json") or {"findings": ()})["findings"]
    for mark, text in {"table": table(record), "findings": findings_table(found)}.items():
        marked = f"<!-- {mark} -->\n{text}\n<!-- /{mark} -->"
        page = re.sub(f"<!-- {mark} -->.*?<!-- /{mark} -->", lambda _, new=marked: new, page, flags=re.DOTALL)
    return page
