"""Runs the campaigns of faults and hostile files: `python -m benchmarks.trust` (`make trust`).

Every case is made from its number and --seed. Its result is a line of runs/trust/<campaign>-s<seed>.jsonl, so that an
interrupted campaign continues where it was, and a larger count adds to it. --publish writes the totals to
docs/trust.json, and the table of docs/trust.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.trust import damage, files, kills, lines, mutation
from benchmarks.trust.children import answer, call, warm_up

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED, PAGE = ROOT / "docs" / "trust.json", ROOT / "docs" / "trust.md"
SOAK, SUITE = ROOT / "docs" / "soak.json", ROOT / "docs" / "suite.json"
LIMITS = {"make test": 600, "make test-fast": 90}  # seconds on two cores
LIMIT = 600.0  # seconds of a child with some cases
TITLES = {
    "kills": "random SIGKILL, resumed to identical rows and state",
    "damage": "damaged files that are noticed, in one line",
    "lines": "fuzzed command lines without a traceback",
    "hostile": "hostile files that are refused, in one line",
    "mutation": "faults planted in the core that the tests find",
}
PASSED = {"damage": "detected", "lines": "clean", "hostile": "refused", "mutation": "found"}
Record = dict[str, Any]


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
        """Appends results to the file."""
        with open(self.path, "a", encoding="utf-8") as file:
            for record in records:
                self._keep(record)
                file.write(json.dumps(record) + "\n")

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """Lists the numbers that have no result."""
        there = {record["number"] for record in self.records.values()}
        return [number for number in numbers if number not in there]


def run_cases(
    campaign: Campaign, wanted: Sequence[int], size: int, work: Callable[[list[int]], list[Record]], failed: str
) -> None:
    """Runs the missing cases in forked children, `size` in each. A child that dies fails its cases."""
    numbers = campaign.missing(wanted)
    for start in range(0, len(numbers), size):
        own = numbers[start : start + size]
        found = answer(lambda own=own: work(own), LIMIT)
        if found is None and len(own) > 1:  # find the one that kills the child
            found = [
                record for one in own for record in answer(lambda one=one: work([one]), LIMIT) or [_died(one, failed)]
            ]
        campaign.add(found or [_died(own[0], failed)])
        _say(f"{campaign.path.stem}: {len(campaign.records)} of {len(wanted)}")


def _died(number: int, failed: str) -> Record:
    return {"number": number, failed: False, "died": True}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_kills(folder: Path, count: int, seed: int, kinds: Iterable[str], lives: int) -> None:
    """Kills runs of every kind in turn, until `count` kills were made."""
    campaign, work = Campaign(folder, "kills", seed), folder / f"kills-s{seed}"
    work.mkdir(exist_ok=True)
    number = 0
    while sum(record.get("kills", 0) for record in campaign.records.values()) < count and number < count:
        for kind in kinds:
            if f"{kind}#{number}" not in campaign.records:
                shutil.rmtree(work / f"{kind}-{number}", ignore_errors=True)
                campaign.add([kills.kill_one(kind, number, seed, work, lives)])
                _say(f"kills: {list(campaign.records.values())[-1]}")
        number += 1


def run_mutation(folder: Path, seed: int, numbers: Sequence[int]) -> None:
    """Plants the faults that have no result, and runs their tests."""
    campaign = Campaign(folder, "mutation", seed)
    for number in campaign.missing(numbers):
        campaign.add([mutation.try_fault(number)])
        _say(f"mutation: {campaign.records[list(campaign.records)[-1]]}")


def make_run(folder: Path) -> Path:
    """Trains the small run that is damaged."""
    run = folder / "run"
    if not (run / "figures").exists() or not (run / "checkpoints").exists():
        shutil.rmtree(run, ignore_errors=True)
        words = [
            "train",
            "biased_rps",
            "--iterations",
            "3",
            "--keep",
            "2",
            "--no-exact",
            "--evaluation-episodes",
            "0",
            "--run-dir",
        ]
        line = [*words, str(run), *kills.SMALL.split()]
        found = answer(lambda: list(call(line, 500)), LIMIT)
        if found is None or found[0]:
            raise SystemExit(f"the run to damage could not be trained: {found}")
    return run


def totals(folder: Path, seed: int) -> Record:
    """Sums up the campaigns of a seed: {campaign: {"tried", "passed"}}, and what failed."""
    found = {name: list(Campaign(folder, name, seed).records.values()) for name in TITLES}
    table = {
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
    campaigns = {name: table[name] for name in TITLES}
    return {"campaigns": campaigns, "failures": failures, "soak": read_soak(), "suite": read_suite()}


def table(record: Record) -> str:
    """Formats the totals as a Markdown table."""
    rows = ["| campaign | passed | tried |", "| --- | ---: | ---: |"]
    for name, title in TITLES.items():
        found = record["campaigns"][name]
        rows.append(f"| {title} | {found['passed']:,} | {found['tried']:,} |")
    for run in record.get("soak", {}).values():
        title = f"long run that stays flat: {run['title']}, {run['iterations']:,} iterations in {run['minutes']} min"
        rows.append(f"| {title} | {int(run['flat'])} | 1 |")
    for line, seconds in record.get("suite", {}).items():
        rows.append(f"| seconds of `{line}`, at most {LIMITS[line]:,} | {seconds:,.0f} | |")
    return "\n".join(rows)


def read_soak() -> Record:
    """Summarizes docs/soak.json, if there is one: title, iterations, minutes and flatness of each run."""
    if not SOAK.exists():
        return {}
    runs = json.loads(SOAK.read_text())["runs"]
    fields = ("title", "iterations", "flat")
    return {
        name: {**{field: run[field] for field in fields}, "minutes": round(run["seconds"] / 60.0)}
        for name, run in runs.items()
    }


def read_suite() -> Record:
    """Reads the measured seconds of the default and of the quick selection of tests from docs/suite.json."""
    return {line: run["seconds"] for line, run in json.loads(SUITE.read_text())["runs"].items()}


def publish(record: Record) -> None:
    """Writes docs/trust.json and the table of docs/trust.md."""
    PUBLISHED.write_text(json.dumps(record, indent=2) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), record))


def with_table(page: str, record: Record) -> str:
    """Replaces the table between the marks of the page."""
    marked = f"<!-- table -->\n{table(record)}\n<!-- /table -->"
    return re.sub(r"<!-- table -->.*?<!-- /table -->", lambda _: marked, page, flags=re.DOTALL)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Campaigns of faults and hostile files.")
    parser.add_argument("--kills", type=int, default=100, help="number of kills [100]")
    parser.add_argument("--lives", type=int, default=8, help="kills of one run at most [8]")
    parser.add_argument("--lines", type=int, default=1000, help="number of command lines [1000]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the campaigns [0]")
    parser.add_argument("--quick", action="store_true", help="6 kills, 100 lines, every fifth kind of damage")
    parser.add_argument("--only", nargs="+", choices=list(TITLES), default=list(TITLES), help="campaigns to run")
    parser.add_argument("--kinds", nargs="+", choices=list(kills.KINDS), default=list(kills.KINDS), help="runs to kill")
    parser.add_argument("--folder", type=Path, default=Path("runs/trust"), help="folder of the results")
    parser.add_argument("--publish", action="store_true", help="write docs/trust.json and docs/trust.md")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the campaigns; returns 1 if a case failed."""
    arguments = parse(argv)
    folder, seed = arguments.folder.absolute(), arguments.seed
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "files").mkdir(exist_ok=True)
    warm_up()
    quick = arguments.quick
    if set(arguments.only) & {"damage", "hostile", "lines"}:
        run = make_run(folder)
    if "damage" in arguments.only:
        own = list(range(0, len(damage.KINDS), 5 if quick else 1))
        campaign = Campaign(folder, "damage", seed)
        run_cases(campaign, own, 10, lambda part: files.try_damage(part, run, folder / "files"), "detected")
    if "hostile" in arguments.only:
        campaign = Campaign(folder, "hostile", seed)
        own = list(range(len(files.HOSTILE)))
        run_cases(campaign, own, 10, lambda part: files.try_hostile(part, run, folder / "files"), "refused")
    if "lines" in arguments.only:
        campaign, count = Campaign(folder, "lines", seed), min(arguments.lines, 100) if quick else arguments.lines
        run_cases(campaign, range(count), 25, lambda part: _lines(part, seed, run), "clean")
    if "kills" in arguments.only:
        count = min(arguments.kills, 6) if quick else arguments.kills
        run_kills(folder, count, seed, arguments.kinds, arguments.lives)
    if "mutation" in arguments.only:
        run_mutation(folder, seed, range(0, len(mutation.FAULTS), 10 if quick else 1))
    return _report(folder, seed, arguments.publish)


def _lines(numbers: list[int], seed: int, run: Path) -> list[Record]:
    return [record for number in numbers for record in lines.try_lines(number, 1, seed, run)]


def _report(folder: Path, seed: int, publishes: bool) -> int:
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    record = {"seed": seed, "date": time.strftime("%Y-%m-%d"), "machine": machine, **totals(folder, seed)}
    (folder / f"trust-s{seed}.json").write_text(json.dumps(record, indent=2) + "\n")
    print(table(record))
    for failure in record["failures"]:
        print(json.dumps(failure)[:600])
    if publishes:
        publish(record)
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
