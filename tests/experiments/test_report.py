"""The report page: what it gathers, what it says, that it is one well-formed file."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments import report
from experiments import run as entry
from experiments.reporting import html
from experiments.reporting.claims import Claim
from experiments.reporting.describing import costs
from experiments.reporting.gathering import Size, Source, gather
from experiments.reporting.ledger import make_ledger, markdown
from experiments.reporting.page import page
from experiments.reporting.quantities import Column
from experiments.reporting.rules import Bound
from experiments.reporting.sections import About
from experiments.reporting.stated import read_stated, stated_numbers, write_stated
from gems_jax.viz.tables import TextTable

VOID = {"meta", "img", "br", "hr", "input", "link"}
PIXEL = bytes.fromhex("89504e470d0a1a0a")


class Reader(HTMLParser):
    """Balanced tags, pictures with texts, unique ids, links that lead somewhere."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        assert len(found) == len(attributes), f"an attribute twice in <{tag}>"
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if tag == "img":
            self.pictures.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data


def row(arm: str, column: str, mean: float, half: float = 0.1, iteration: int = 4, seeds: int = 3) -> dict:
    interval = {"mean": mean, "low": mean - half, "high": mean + half}
    return {"arm": arm, "column": column, "iteration": iteration, **interval, "seeds": seeds}


def summary(
    name: str = "toys", command: str = "python -m experiments.run toys", when: str = "2026-01-02", **more
) -> dict:
    table = TextTable(("", "iteration", "loud"), (("gap <b>", "4", "0.25 ± 0.1"), ("a group", "", "")), (0,), "3 seeds")
    return {
        "name": name,
        "title": "Toys & <games>",
        "convention": "gap",
        "command": command,
        "commit": "abc",
        "dirty": False,
        "finished": when,
        "processor": "one",
        "cpus": 2,
        "device": {"count": 1, "kind": "cpu"},
        "python": "3.11",
        "versions": {"jax": "0.10"},
        "table": {"header": table.header, "rows": table.rows, "sections": table.sections, "caption": table.caption},
        "checks": ["check holds: gap is at most 1", "check FAILED: nothing"],
        "figures": ["figures/gap.png"],
        "replays": ["replays/game.svg"],
        "pictures": {"clouds": {"files": [], "numbers": {"loud": {"seed 0": {"silhouette": 0.125}}}}},
        "seeds": [0, 1, 2],
        "arms": {
            "loud": {"game": "toy", "method": "toy", "iterations": 4, "config": {"noise": 0.5, "net": {"width": 8}}}
        },
        "numbers": [
            row("loud", "gap", 0.25),
            row("loud", "seconds", 12.5),
            row("loud", "total_env_steps", 2000.0),
            row("loud", "abr_gap", 0.0625),
        ],
        **more,
    }


def write(root: Path, record: dict, stamp: str) -> Path:
    folder = root / record["name"] / stamp
    (folder / "figures").mkdir(parents=True)
    (folder / "replays").mkdir()
    (folder / "figures" / "gap.png").write_bytes(PIXEL)
    (folder / "replays" / "game.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "summary.csv").write_text("arm,mean\nloud,0.25\n")
    (folder / "summary.json").write_text(json.dumps(record))
    return folder


CLAIMS = {
    "Toys": (
        Claim("t", "it is <small>", "fig:toy", "0.2", Bound(Column("toys", "loud", "gap"), at_most=0.1), "mind `it`"),
        Claim("u", "unknown", "fig:none", "1", Bound(Column("others", "*", "gap"), at_most=1.0)),
    )
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, summary(), "20260102-000000")
    return tmp_path


def text_of(root: Path) -> str:
    sources = gather(root)
    about = {"toys": About("Which toy is <loud>?", ("A note with `code`.",))}
    return page(sources, make_ledger(CLAIMS, sources), about)


def test_the_page_is_well_formed_and_has_the_numbers(root: Path) -> None:
    text = text_of(root)
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open and text.startswith("<!DOCTYPE html>")
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
    assert len(reader.pictures) == 2 and all((p["alt"] or "").strip() for p in reader.pictures)
    for words in (
        "Toys & <games>", "Which toy is <loud>?", "0.25 ± 0.1", "gap is at most 1", "12.5", "2k", "noise", "net.width",
        "python -m experiments.run toys", "abc", "0.125", "0.0625", "Full size", "it is <small>", "not held",
        "others was not run: run python -m experiments.run others",
    ):  # fmt: skip
        assert words in reader.text, words


def test_the_page_opens_with_the_results_of_the_run(root: Path) -> None:
    """The run's own section comes first, in the text and among the links; the claims follow."""
    text = text_of(root)
    assert 0 < text.index('<section id="run-toys"') < text.index('<section id="claims"')
    assert text.index('href="#run-toys"') < text.index('href="#claims"')


def test_the_page_needs_nothing_from_elsewhere(root: Path) -> None:
    text = text_of(root)
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert len(addresses) > 4 and all(address.startswith(("data:", "#")) for address in addresses)
    assert len(addresses) == len(re.findall(r"\b(?:src|href|srcset|action|poster)\s*=", text))
    assert "@import" not in text and "url(" not in text
    assert "http:" not in text and "https:" not in text
    downloads = re.findall(r'href="data:text/csv;base64,[^"]+" download="([^"]+)"', text)
    assert downloads == ["toys.csv"]


def test_the_page_is_the_same_every_time(root: Path) -> None:
    assert text_of(root) == text_of(root)


def test_text_is_escaped_and_code_is_marked() -> None:
    assert html.words("a `<b>` & c") == "a <code>&lt;b&gt;</code> &amp; c"
    assert html.element("p", "x", data_kind='"<') == '<p data-kind="&quot;&lt;">x</p>'


def test_full_size_comes_before_quick_and_then_the_newest(tmp_path: Path) -> None:
    write(tmp_path, summary(when="2026-01-03", command="python -m experiments.run toys --quick"), "c")
    assert gather(tmp_path).experiments["toys"].is_reduced
    write(tmp_path, summary(when="2026-01-01"), "a")
    write(tmp_path, summary(when="2026-01-02"), "b")
    write(tmp_path, summary(when="2026-01-04", command="python -m experiments.run toys --arms loud"), "d")
    chosen = gather(tmp_path).experiments["toys"]
    assert chosen.folder == tmp_path / "toys" / "b" and chosen.size == "full size"


def test_what_is_no_experiment_is_left_out(root: Path) -> None:
    (root / "sweep" / "x").mkdir(parents=True)
    (root / "sweep" / "x" / "summary.json").write_text("[]")
    (root / "broken" / "x").mkdir(parents=True)
    (root / "broken" / "x" / "summary.json").write_text("{")
    assert list(gather(root).experiments) == ["toys"]


def test_what_is_shorter_than_its_spec_is_no_full_size(tmp_path: Path) -> None:
    """25 of 1,000 iterations by the newest command, and a shorter spec that the older run fulfills."""
    write(tmp_path, summary(when="2026-01-03", command="python -m experiments.run toys --iterations 4"), "new")
    write(tmp_path, summary(when="2026-01-01"), "old")
    chosen = gather(tmp_path).experiments["toys"]
    assert chosen.folder == tmp_path / "toys" / "old" and chosen.size == "full size"
    chosen = gather(tmp_path, None, lambda found: Size({"loud": 1000}, 3)).experiments["toys"]
    assert chosen.size == "reduced" and chosen.shortfalls("loud") == ["4 of 1,000 iterations"]
    assert "reduced size was run of: toys" in page(gather(tmp_path, None, lambda found: Size({"loud": 1000}, 3)), {})
    some = gather(tmp_path, None, lambda found: Size({"loud": 4, "quiet": 4}, 3)).experiments["toys"]
    assert some.size == "some arms"


def test_stated_numbers_fill_in_and_a_quick_run_does_not_replace_them(tmp_path: Path) -> None:
    docs, runs = tmp_path / "docs", tmp_path / "runs"
    write_stated(docs, stated_numbers(summary(), ["gap"]))
    write(runs, summary(when="2026-02-01", command="python -m experiments.run toys --quick"), "q")
    chosen = gather(runs, docs).experiments["toys"]
    assert chosen.folder is None and chosen.at("loud", "gap").mean == 0.25 and chosen.at("loud", "abr_gap") is None
    assert gather(runs, docs).folders["toys"].is_reduced  # and is on the page all the same
    assert chosen.budget("loud") == "4 iterations, 3 seeds, 2k env steps per seed"
    write(runs, summary(when="2026-02-02"), "full")
    assert gather(runs, docs).experiments["toys"].folder == runs / "toys" / "full"


def test_stated_numbers_keep_six_digits_and_read_back(tmp_path: Path) -> None:
    numbers = [row("loud", "gap", 1 / 3), {"index": "eb", "regret": 2 / 3}]
    arms = {"loud": {"config": {"net": {"width": 8}}}, "quiet": {}}
    path = write_stated(tmp_path, {"name": "toys", "arms": arms, "numbers": numbers})
    assert path.read_text().count("\n") <= 12
    assert read_stated(tmp_path)["toys"]["arms"] == arms
    found = read_stated(tmp_path)["toys"]["numbers"]
    assert found[0]["mean"] == 0.333333 and found[1] == {"index": "eb", "regret": 0.666667}
    write_stated(tmp_path, {"name": "bench", "entries": [{"benchmark": "growth"}]})
    assert read_stated(tmp_path)["bench"]["entries"] == [{"benchmark": "growth"}]


def test_one_seed_has_the_interval_of_its_episodes() -> None:
    numbers = [row("a", "win", 0.5, seeds=1) | {"low": None, "high": None}, row("a", "win_interval", 0.03, seeds=1)]
    found = Source("toys", summary(numbers=numbers)).at("a", "win")
    assert found.low == pytest.approx(0.47) and found.high == pytest.approx(0.53)


def test_costs_are_listed_by_arm() -> None:
    table = costs(Source("toys", summary()))
    assert table.rows == (("loud", "4", "3", "", "2k", "12.5", "", "", ""),)


def test_the_ledger_as_markdown_is_one_table_with_escaped_bars(root: Path) -> None:
    text = markdown(make_ledger(CLAIMS, gather(root)))
    assert "2 claims: 1 not held, 1 not measured." in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 4 and all(line.replace("\\|", "").count("|") == 8 for line in lines)
    assert "loud 0.25 ± 0.1" in lines[2] and "**not held**" in lines[2]


def test_a_written_ledger_is_replaced_and_counted_in_the_index(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged by docs/results alone: what is below runs/ and not stated has no part in it."""
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(report, "CLAIMS", CLAIMS)
    index, claims = report.write_ledger(docs), docs / "results" / "claims.md"
    once = index.read_text(), claims.read_text()
    assert "2 claims: 2 not measured." in once[1] and "[The paper's claims](results/claims.md): 2 claims" in once[0]
    report.write_ledger(docs)
    assert (index.read_text(), claims.read_text()) == once
    write_stated(docs / "results", stated_numbers(summary(), ["gap"]))
    assert "2 claims, 1 not held, 1 not measured." in report.write_ledger(docs).read_text()
    assert "2 claims: 1 not held, 1 not measured." in claims.read_text()


def test_a_page_that_cannot_be_written_costs_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    folder = root / "toys" / "20260102-000000"
    monkeypatch.setattr(report, "CLAIMS", CLAIMS)
    entry.refresh_report(folder, root)
    assert f"all results on one page: {root}/report/index.html" in capsys.readouterr().out
    monkeypatch.setattr(report, "write_report", lambda root: 1 / 0)
    entry.refresh_report(folder, root)
    assert "the report could not be written: ZeroDivisionError" in capsys.readouterr().err
    entry.refresh_report(folder, root / "elsewhere")
    assert capsys.readouterr() == ("", "")


def test_every_experiment_has_a_question() -> None:
    for name in entry.known():
        assert report.about(name).question, name


def test_pictures_keep_their_place_and_wide_ones_have_all_of_it(tmp_path: Path) -> None:
    made = {
        "wide.png": bytes(16) + (1768).to_bytes(4, "big") + (806).to_bytes(4, "big"),
        "small.png": bytes(16) + (600).to_bytes(4, "big") + (400).to_bytes(4, "big"),
        "game.gif": b"GIF89a" + (360).to_bytes(2, "little") + (300).to_bytes(2, "little"),
    }
    drawn = {}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
        drawn[name] = html.picture(tmp_path / name, "alt", "caption")
    assert 'class="wide"' in drawn["wide.png"] and 'width="1768" height="806"' in drawn["wide.png"]
    assert 'class="wide"' not in drawn["small.png"] and 'width="360" height="300"' in drawn["game.gif"]
