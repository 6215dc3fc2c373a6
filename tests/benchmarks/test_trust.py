"""The campaigns of faults: their cases, their bookkeeping, and the published table."""

import json
import random
from pathlib import Path

import pytest

from benchmarks.trust import __main__ as trust
from benchmarks.trust import children, damage, files, kills, lines

SOME = {name: {"passed": 3, "tried": 1000} for name in trust.TITLES}


def test_a_campaign_continues_where_it_was(tmp_path: Path) -> None:
    campaign = trust.Campaign(tmp_path, "lines", 7)
    campaign.add([{"number": 0, "clean": True}, {"number": 2, "clean": False}])
    again = trust.Campaign(tmp_path, "lines", 7)
    assert again.missing(range(4)) == [1, 3] and trust.Campaign(tmp_path, "lines", 8).missing(range(2)) == [0, 1]
    found = trust.totals(tmp_path, 7)
    assert found["campaigns"]["lines"] == {"tried": 2, "passed": 1}
    assert found["campaigns"]["kills"]["tried"] == 0 and found["failures"] == [{"number": 2, "clean": False}]


def test_the_page_has_the_table_of_the_stored_figures() -> None:
    record = json.loads(trust.PUBLISHED.read_text())
    page = trust.PAGE.read_text()
    assert trust.with_table(page, record) == page and "| ---: |" in page
    assert trust.with_table(page, {"campaigns": SOME}) != page
    assert set(record["campaigns"]) == set(trust.TITLES)


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
