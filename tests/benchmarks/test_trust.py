"""The campaigns of faults: their cases, their bookkeeping, and the published table."""

import ast
import json
import random
import re
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.trust import campaign as stored
from benchmarks.trust import children, damage, files, findings, kills, line_coverage, lines, mutation, report
from gems_jax.runner.directory import RunDirectory

PUBLISHED_FROM_THE_START = ("kills", "damage", "lines", "hostile", "mutation")
SOME = {name: {"passed": 3, "tried": 1000} for name in stored.TITLES}


def test_a_campaign_continues_where_it_was(tmp_path: Path) -> None:
    campaign = stored.Campaign(tmp_path, "lines", 7)
    campaign.add([{"number": 0, "clean": True}, {"number": 2, "clean": False}])
    again = stored.Campaign(tmp_path, "lines", 7)
    assert again.missing(range(4)) == [1, 3] and stored.Campaign(tmp_path, "lines", 8).missing(range(2)) == [0, 1]
    found = stored.totals(tmp_path, 7)
    (commit,) = found["campaigns"]["lines"].pop("commits")
    assert found["campaigns"]["lines"] == {"tried": 2, "passed": 1} and commit
    assert found["campaigns"]["kills"]["tried"] == 0
    assert found["failures"] == [{"number": 2, "clean": False, "commit": commit}]


def test_campaigns_that_were_not_run_keep_what_was_published(tmp_path: Path) -> None:
    stored.Campaign(tmp_path, "lines", 7).add([{"number": 0, "clean": True}])
    merged = report.merge(stored.totals(tmp_path, 7), {"campaigns": {"kills": {"tried": 8, "passed": 7}}})["campaigns"]
    assert merged["kills"] == {"tried": 8, "passed": 7} and merged["damage"]["tried"] == 0
    assert merged["lines"]["passed"] == 1 and merged["lines"]["machine"]


def test_the_page_has_the_tables_of_the_stored_figures() -> None:
    record = report.read_published()
    page = report.PAGE.read_text()
    assert report.with_tables(page, record) == page and "| ---: |" in page
    assert report.with_tables(page, {"campaigns": SOME}) != page
    assert set(PUBLISHED_FROM_THE_START) <= set(record["campaigns"]) <= set(stored.TITLES)
    for found in record["campaigns"].values():
        assert 0 < found["passed"] <= found["tried"] and found["machine"]


def test_every_finding_has_cases_and_tests_that_exist() -> None:
    """Every kind of damage is known, every test is in its file, and the stored figures are those of this list."""
    kinds = {**damage.KINDS, **damage.LINKS}
    for finding in findings.FINDINGS:
        assert finding.kinds or finding.lines
        assert set(finding.kinds) <= set(kinds), finding.title
        for test in finding.tests:
            file, _, name = test.partition("::")
            assert name in functions_of(report.ROOT / file), test
    published = json.loads(findings.PUBLISHED.read_text())["findings"]
    assert [one["title"] for one in published] == [finding.title for finding in findings.FINDINGS]
    assert [one["tests"] for one in published] == [list(finding.tests) for finding in findings.FINDINGS]
    assert all(one["passed"] == one["tried"] == len(one["cases"]) for one in published)


def test_lines_are_counted_by_part() -> None:
    def one(covered: int, lines: int) -> dict:
        return {"summary": {"covered_lines": covered, "num_statements": lines}}

    package = "src/gems_jax/"
    found = line_coverage.summarize(
        {
            package + "a.py": one(3, 4),
            package + "b/c.py": one(9, 10),
            package + "b/d.py": one(0, 2),
            "else.py": one(0, 9),
        }
    )
    assert (found["covered"], found["lines"]) == (12, 16)
    assert found["parts"] == {"b": [9, 12], "top level": [3, 4]} and list(found["low"]) == ["b/d.py", "a.py"]


def test_there_are_enough_kinds() -> None:
    assert len(damage.KINDS) >= 40 and len({kind.split(":")[0] for kind in damage.KINDS}) >= 5
    assert len(files.HOSTILE) >= 40 and set(kills.KINDS) == {"train", "python", "sweep"}


@pytest.mark.parametrize(
    ("code", "out", "err", "clean"),
    [
        (0, "fine", "", True),
        (2, "", "gems eval: no run\n", True),
        (1, "", "checkpoint of iteration 2 cannot be used: x\ngems eval: no intact checkpoint\n", True),
        (70, "", "gems eval: unexpected\n", False),
        (1, "", "one\ntwo\n", False),
        (1, "", "", False),
        (1, "", "gems: \x1b[31m\n", False),
        (0, "Traceback (most recent call last)", "", False),
    ],
)
def test_what_counts_as_clean(code: int, out: str, err: str, clean: bool) -> None:
    assert children.is_clean(children.Outcome(code, out, err, 0.1)) == clean


def test_lines_are_made_from_number_and_seed(tmp_path: Path) -> None:
    made = [lines._words(random.Random(f"{seed} 3"), tmp_path) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    assert all(isinstance(word, str) for word in made[0])


# --- planted faults


def test_faults_can_be_planted(tmp_path: Path) -> None:
    """Each text occurs once in the source, the changed file is Python, and the tests that should fail exist."""
    every = (*mutation.FAULTS, *mutation.CHECKS)
    assert len(mutation.FAULTS) >= 30 and len({fault.name for fault in every}) == len(every)
    for fault in every:
        path = tmp_path / "src" / "gems_jax" / fault.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((report.ROOT / "src" / "gems_jax" / fault.file).read_text())
        mutation.plant(fault, tmp_path)
        ast.parse(path.read_text())
        names = [name for test in fault.tests for name in functions_of(report.ROOT / test)]
        assert not fault.first or any(word in name for word in fault.first.split(" or ") for name in names), fault.name


def test_a_fault_is_not_planted_in_other_sources(tmp_path: Path) -> None:
    fault = mutation.FAULTS[0]
    path = tmp_path / "src" / "gems_jax" / fault.file
    path.parent.mkdir(parents=True)
    path.write_text(2 * fault.old)
    with pytest.raises(ValueError, match="expected the text to replace once in meta/omwu.py, got it 2 times"):
        mutation.plant(fault, tmp_path)


# --- long runs


def samples(**growing: float) -> list[soak.Sample]:
    """Forty samples of a run whose fields grow by a part of themselves from first to last."""
    base = {"memory_mb": 500.0, "open_files": 8.0, "checkpoint_bytes": 2e4, "bytes_per_row": 150.0, "sigma_error": 1e-7}
    return [
        {
            "seconds": 5.0 * n,
            "iteration": 10 * n,
            **{k: v * (1 + growing.get(k, 0.0) * n / 39) for k, v in base.items()},
        }
        for n in range(40)
    ]


def test_what_counts_as_flat() -> None:
    found = soak.summarize(samples())
    assert found["flat"] and found["iterations"] == 390 and found["memory_mb"]["growth"] == 0.0
    assert soak.summarize(samples(bytes_per_row=0.01))["flat"] and soak.summarize(samples(memory_mb=-0.5))["flat"]
    for field, growth in {"memory_mb": 0.2, "open_files": 0.2, "checkpoint_bytes": 0.1, "sigma_error": 1e3}.items():
        assert not soak.summarize(samples(**{field: growth}))["flat"], field


def test_mixtures_of_a_checkpoint_are_measured(matrix_run: RunDirectory) -> None:
    assert soak.sigma_error(matrix_run.checkpoints / "00000001") < 1e-6


# --- determinism


def functions_of(path: Path) -> set[str]:
    """Names of the test functions of a file."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_claim_of_determinism_has_a_test() -> None:
    table = report.PAGE.read_text().partition("<!-- determinism -->")[2].partition("<!-- /determinism -->")[0]
    claims = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(claims) >= 10
    for claim in claims:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", claim)
        assert named, claim
        for file, name in named:
            assert name in functions_of(report.ROOT / file), f"{file}::{name}"
