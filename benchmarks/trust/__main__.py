"""Everything behind the table of docs/trust.md: `python -m benchmarks.trust` (`make trust`).

The campaigns of faults and hostile files, then the measurements that have a command of their own: findings, soak,
coverage, seconds of the tests. Every case of a campaign is made from its number and --seed. Its result is a line of
runs/trust/<campaign>-s<seed>.jsonl, so that an interrupted campaign continues where it was, and a larger count adds to
it. A measurement that has ended is not repeated in the same folder. --publish writes the totals to docs/trust.json and
the table of docs/trust.md; --table writes the table alone, from the files in docs/.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.trust import damage, files, kills, lines, mutation, report
from benchmarks.trust.campaign import TITLES, Campaign, Record, totals
from benchmarks.trust.children import answer, call, warm_up
from benchmarks.trust.faults import Fault

LIMIT = 600.0  # seconds of a child with some cases
# What has a command, and a file in docs/, of its own: it runs once in a folder of results.
MEASUREMENTS = {
    "findings": ["{python} -m benchmarks.trust.findings --publish"],
    "soak": ["{python} -m benchmarks.soak --publish"],
    "coverage": ["make coverage"],
    "suite": ["make test ARGS=--record-suite", "make test-fast ARGS=--record-suite"],
}
EVERY = [*TITLES, *MEASUREMENTS]


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


def run_mutation(folder: Path, seed: int, name: str, faults: Sequence[Fault], step: int) -> None:
    """Plants every `step`-th fault that has no result, and runs its tests."""
    campaign = Campaign(folder, name, seed)
    for number in campaign.missing(range(0, len(faults), step)):
        campaign.add([mutation.try_fault(number, faults)])
        _say(f"{name}: {campaign.records[list(campaign.records)[-1]]}")


def run_measurement(folder: Path, name: str) -> None:
    """Runs the commands of a measurement that has not ended in this folder yet."""
    done = folder / f"{name}-done"
    for line in () if done.exists() else MEASUREMENTS[name]:
        _say(f"{name}: {line}")
        code = subprocess.run(line.format(python=sys.executable).split(), cwd=report.ROOT).returncode
        if code:
            _say(f"{name}: exit code {code}")
            return
    done.touch()


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


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Campaigns of faults and hostile files.")
    parser.add_argument("--kills", type=int, default=100, help="number of kills [100]")
    parser.add_argument("--lives", type=int, default=8, help="kills of one run at most [8]")
    parser.add_argument("--lines", type=int, default=1000, help="number of command lines [1000]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the campaigns [0]")
    parser.add_argument("--quick", action="store_true", help="6 kills, 100 lines, every fifth kind of damage")
    parser.add_argument("--only", nargs="+", choices=EVERY, default=EVERY, help="campaigns and measurements to run")
    parser.add_argument("--kinds", nargs="+", choices=list(kills.KINDS), default=list(kills.KINDS), help="runs to kill")
    parser.add_argument("--folder", type=Path, default=Path("runs/trust"), help="folder of the results")
    parser.add_argument("--publish", action="store_true", help="write docs/trust.json and docs/trust.md")
    parser.add_argument("--table", action="store_true", help="write the table from the files in docs/; run nothing")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the campaigns; returns 1 if a case failed."""
    arguments = parse(argv)
    if arguments.table:
        report.publish(report.read_published())
        return 0
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
    for name, faults in {"mutation": mutation.FAULTS, "checks": mutation.CHECKS}.items():
        if name in arguments.only:
            run_mutation(folder, seed, name, faults, 10 if quick else 1)
    for name in [] if quick else MEASUREMENTS:
        if name in arguments.only:
            run_measurement(folder, name)
    return _report(folder, seed, arguments.publish)


def _lines(numbers: list[int], seed: int, run: Path) -> list[Record]:
    return [record for number in numbers for record in lines.try_lines(number, 1, seed, run)]


def _report(folder: Path, seed: int, publishes: bool) -> int:
    record = report.merge(totals(folder, seed), report.read_published())
    (folder / f"trust-s{seed}.json").write_text(json.dumps(record, indent=2) + "\n")
    print(report.table(record))
    for failure in record["failures"]:
        print(json.dumps(failure)[:600])
    if publishes:
        report.publish(record)
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
