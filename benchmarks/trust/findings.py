"""The findings of the first attack, tried one by one as a user does: `python -m benchmarks.trust.findings`.

Each case is a line of the installed command `gems`, in a process of its own, on a fresh copy of a run that this
command trained. A case passes if the line ends within five minutes, with an exit code other than 70, no traceback,
and at most one line of error, and if a damaged or hostile input is refused by at least one of `eval` and `resume`.
Command, exit code and printed line of every case are stored. `checks.py` removes what mended each finding: its tests
then fail.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.trust import damage
from benchmarks.trust.children import Outcome, is_clean
from benchmarks.trust.kills import SMALL
from benchmarks.trust.provenance import provenance

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "docs" / "findings.json"
LIMIT = 300.0  # seconds of a line, on a busy machine
TRAIN = f"train biased_rps --iterations 3 --keep 2 --no-exact --evaluation-episodes 0 {SMALL}"
_DAMAGE, _START = "tests/runner/test_damage.py", "tests/cli/test_starting.py"
_ACCEPT = "tests/runner/test_stored_run.py::test_rows_that_were_changed_on_purpose_can_be_accepted"
_ONE_LINE, _SAYS = f"{_DAMAGE}::test_every_kind_of_damage_is_one_line", f"{_DAMAGE}::test_what_the_line_says"
_BEFORE = f"{_DAMAGE}::test_a_damaged_manifest_gives_way_to_the_checkpoint_before"
_NO_GAME = f"{_START}::test_what_is_not_a_game_is_refused_by_name"
Record = dict[str, Any]


class Finding(NamedTuple):
    """A finding: kinds of `benchmarks.trust.damage`, or lines of the command, that showed it, and its tests."""

    title: str
    tests: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def _config(field: str, *values: str) -> tuple[str, ...]:
    return tuple(f"config.json: {field} = {value}" for value in values)


def _manifest(*fields: str) -> tuple[str, ...]:
    return tuple(f"manifest.json: {field} = missing" for field in fields)


_NOT_GAMES = (
    "json:JSONDecoder", "unittest.mock:call", "collections:OrderedDict", "pathlib:Path", "os:path", "os:system",
    "gems_jax:train",
)  # fmt: skip
_PATHS = ("export", "eval", "resume", "replay", "play", "web", "view", "compare", "arena", "exploit", "profile",
          "doctor", "sweep")  # fmt: skip
FINDINGS = (
    Finding(
        "`iterations` negative, text, null, NaN; 2147483648 hung",
        (_ONE_LINE, _SAYS),
        _config("iterations", "-1", "'x'", "None", "nan", "2147483648"),
    ),
    Finding(
        "`seeds` is no list of different integers",
        (_ONE_LINE, _SAYS),
        _config("seeds", "'0'", "[0, 0]", "[None]", "[1.5]"),
    ),
    Finding("`options.chunk` is 0", (_ONE_LINE, _SAYS), _config("chunk", "0")),
    Finding("`options.keep` is 0 or text", (_ONE_LINE,), _config("keep", "0", "'3'")),
    Finding("`options.writers` is a number or text", (_ONE_LINE,), _config("writers", "3", "'wandb'", "['mlflow']")),
    Finding(
        "`options.checkpoint_seconds` is negative or text",
        (_ONE_LINE,),
        _config("checkpoint_seconds", "-1", "'soon'"),
    ),
    Finding(
        "`members` or `shared` of a wrong type",
        (_ONE_LINE,),
        _config("members", "3", "[None]", "None") + _config("shared", "3", "None", "[]"),
    ),
    Finding(
        "metrics.csv with a text or binary cell",
        (_SAYS, f"{_DAMAGE}::test_a_text_cell_is_one_line_for_readers_too"),
        ("metrics.csv: text cell", "metrics.csv: binary cell"),
    ),
    Finding(
        "manifest without identity, leaves, files or counters",
        (_ONE_LINE, _SAYS),
        _manifest("identity", "leaves", "files", "extra/counters"),
    ),
    Finding("accepted: two names of leaves swapped", (_BEFORE,), ("manifest.json: leaf names swapped",)),
    Finding("accepted: a leaf of unknown kind", (_BEFORE,), ("manifest.json: leaves/0/kind = 'pickle'",)),
    Finding(
        "accepted: a changed cell in metrics.csv",
        (_SAYS, _ACCEPT),
        ("metrics.csv: changed cell",),
    ),
    Finding(
        "accepted: a checkpoint folder that is a link elsewhere",
        (_ONE_LINE, _SAYS),
        ("link: checkpoint", "link: checkpoints"),
    ),
    Finding(
        "`gems train` of a `module:object` that is no game; `--debug` too",
        (_NO_GAME, "tests/runner/test_trust.py::test_only_games_are_called"),
        lines=tuple(f"train {name}{debug}" for name in _NOT_GAMES for debug in ("", " --debug")),
    ),
    Finding(
        "very long paths; `--debug` too",
        (f"{_START}::test_a_path_that_the_system_refuses",),
        lines=(
            *(f"{command} LONGER" for command in _PATHS),
            *("eval LONG", "export LONG --debug", "export kuhn --output LONGER"),
            *("train biased_rps --run-dir LONG", "train biased_rps --run-dir LONGER --debug"),
        ),
    ),
    Finding(
        "a kill in the first second of `gems train` left no trace",
        (
            f"{_START}::test_a_kill_before_jax_is_imported_leaves_a_trace",
            f"{_START}::test_a_killed_start_is_told_and_its_folder_is_free",
        ),
        lines=("train biased_rps --run-dir RUN, killed after one second",),
    ),
    Finding(
        "the text of an error was in the temporary folder under a guessable name",
        (f"{_START}::test_a_traceback_is_in_the_run_s_folder_or_in_a_private_one",),
        lines=("train biased_rps --run-dir RUN, with a planted defect", "eval kuhn, with a planted defect"),
    ),
)
SKIPPED = "checkpoint of iteration "  # the start of the line about a damaged checkpoint
WORDS = {"LONG": "x" * 300, "LONGER": "y" * 5000}
_ANY = 'value("anything", lambda given: True)'


def copy_run(run: Path, place: Path) -> Path:
    """Copies a run to an empty folder."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return Path(shutil.copytree(run, place / "run"))


def enter(words: list[str], folder: Path) -> Outcome:
    """Runs a line of the installed command in a process of its own; the code is 99 if it takes too long."""
    line, start = [str(Path(sys.executable).parent / "gems"), *words], time.monotonic()
    try:
        done = subprocess.run(line, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return Outcome(99, "", "took too long", time.monotonic() - start)
    return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def _record(words: list[str], outcome: Outcome, case: str = "") -> Record:
    shown = ["gems", *(f"{word[:8]}... ({len(word)} letters)" if len(word) > 200 else word for word in words)]
    skipped = [line for line in (outcome.err + outcome.out).splitlines() if line.startswith(SKIPPED)]
    line = "".join(skipped[:1] or outcome.err.splitlines() or outcome.out.splitlines()[-1:])[:400]
    return {"case": case, "command": " ".join(shown), "code": outcome.code, "line": line}


def try_kind(kind: str, run: Path, place: Path) -> Record:
    """Damages a copy of a run; `eval` and `resume` must end in at most one line, and one of them must refuse it."""
    records, passed = [], []
    for words in (["eval", "run"], ["resume", "run", "--no-figures"]):
        copy = copy_run(run, place)
        {**damage.KINDS, **damage.LINKS}[kind](copy)
        outcome = enter(words, place)
        records.append(_record(words, outcome, kind))
        passed.append(is_clean(outcome))
    # An earlier checkpoint may be used instead: then a line says so.
    noticed = any(record["code"] or record["line"].startswith(SKIPPED) for record in records)
    return {"passed": all(passed) and noticed, "lines": records}


def try_line(line: str, run: Path, place: Path) -> Record:
    """Enters a line, which must fail in one line of error."""
    if "killed after" in line:
        return try_kill(place)
    if "planted defect" in line:
        return try_defect(line.split(",")[0], place)
    words = [WORDS.get(word, word) for word in line.split()]
    copy_run(run, place)
    outcome = enter(words, place)
    return {"passed": is_clean(outcome) and outcome.code in (1, 2), "lines": [_record(words, outcome)]}


def try_kill(place: Path) -> Record:
    """Kills `gems train` after one second; the folder must tell that the run was started, and by which line."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = ["train", "biased_rps", "--run-dir", "run"]
    line = [str(Path(sys.executable).parent / "gems"), *words]
    process = subprocess.Popen(line, cwd=place, stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    said = enter(["resume", "run"], place)
    record = _record(["resume", "run"], said, "after `gems train biased_rps --run-dir run` was killed after 1 s")
    return {"passed": said.code == 1 and "gems train biased_rps --run-dir run" in said.err, "lines": [record]}


_DEFECT = """
import sys
from gems_jax.cli import main
from gems_jax.cli.commands import evaluate, train
def broken(*words, **options): raise ZeroDivisionError("planted")
train._train = evaluate.load_policy = broken
sys.exit(main.invoke(sys.argv[1:]))
"""


def try_defect(line: str, place: Path) -> Record:
    """Enters a line of a program with a defect; its traceback must be in the run, or in a folder of mode 0700."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = line.replace("RUN", "run").split()
    done = subprocess.run(
        [sys.executable, "-c", _DEFECT, *words], cwd=place, capture_output=True, text=True, timeout=LIMIT
    )
    file = place / done.stderr.strip().rpartition(" ")[2]
    private = file.parent == place / "run" or file.parent.stat().st_mode & 0o777 == 0o700
    outcome = Outcome(done.returncode, done.stdout, done.stderr, 0.0)
    return {"passed": done.returncode == 70 and file.is_file() and private, "lines": [_record(words, outcome)]}


def try_all(folder: Path, words: Sequence[str] = ()) -> Iterator[Record]:
    """Tries the cases of every finding.

    Args:
      folder: where the run is trained and copied.
      words: try only findings whose titles contain one of them; none for all.

    Yields:
      For each finding {"title", "tests", "tried", "passed", "cases"}; a case has what its lines printed.
    """
    run, place = folder / "run", folder / "place"
    if not (run / "checkpoints").exists():
        outcome = enter([*TRAIN.split(), "--run-dir", str(run)], folder)
        if outcome.code:
            raise SystemExit(f"the run to damage could not be trained: {outcome.err}")
    for finding in FINDINGS:
        if words and not any(word in finding.title for word in words):
            continue
        cases = [try_kind(kind, run, place) for kind in finding.kinds]
        cases += [try_line(line, run, place) for line in finding.lines]
        passed = sum(case["passed"] for case in cases)
        tests = list(finding.tests)
        found = {"title": finding.title, "tests": tests, "tried": len(cases), "passed": passed}
        yield {**found, **provenance(), "cases": cases}


def table(found: list[Record]) -> str:
    """Formats the findings as a Markdown table."""
    rows = ["| finding | cases | pass | tests |", "| --- | ---: | ---: | --- |"]
    for one in found:
        tests = ", ".join(f"`{test}`" for test in one["tests"])
        rows.append(f"| {one['title']} | {one['tried']} | {one['passed']} | {tests} |")
    return "\n".join(rows)


def publish(found: list[Record]) -> None:
    """Writes docs/findings.json; findings that were not tried keep their entry."""
    there = json.loads(PUBLISHED.read_text())["findings"] if PUBLISHED.exists() else []
    entries = {one["title"]: one for one in (*there, *found)}
    known = [entries[finding.title] for finding in FINDINGS if finding.title in entries]
    record = {"command": "python -m benchmarks.trust.findings --publish", "findings": known}
    PUBLISHED.write_text(json.dumps(record, indent=1) + "\n")


def main() -> int:
    """Tries the findings and prints every line; returns the number of cases that did not pass."""
    parser = argparse.ArgumentParser(description="The findings of the first attack, one by one.")
    parser.add_argument("--only", nargs="+", default=(), help="words of titles: try these findings")
    parser.add_argument("--publish", action="store_true", help="write docs/findings.json")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="gems-findings-") as folder:
        for one in try_all(Path(folder), arguments.only):
            found.append(one)
            for case in one["cases"]:
                for line in case["lines"]:
                    mark = "" if case["passed"] else "  FAILED"
                    print(f"{line['code']:3}  {line['command']}  [{line['case']}]  {line['line']}{mark}", flush=True)
    print(table(found))
    if arguments.publish:
        publish(found)
    return sum(one["tried"] - one["passed"] for one in found)


if __name__ == "__main__":
    sys.exit(min(main(), 99))
