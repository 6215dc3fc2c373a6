"""Every page of the site exists, is in the navigation once, and its links and equations lead somewhere."""

import ast
import re
import types
from pathlib import Path

import pytest

import gems_jax
from gems_jax.runner.errors import RunError
from tests import tree_report
from website import build, play
from website.docstrings import fence_examples
from website.navigation import ROOT, pages, sections
from website.reference import GROUPS, homes, module_path, reference_pages
from website.stage import (
    indent_lists,
    is_internal,
    linked_file,
    linked_names,
    links_of,
    python_name,
    replace_links,
    stage_page,
)

SOURCES = {page.source: page for page in pages() if page.source}


def headings(path: Path) -> set[str]:
    """The anchors that GitHub and the site make of the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(source: str) -> list[str]:
    """Lists the links of a page that lead nowhere."""
    broken = []
    for label, target in links_of((ROOT / source).read_text()):
        path, _, anchor = target.partition("#")
        file = source if target.startswith("#") else linked_file(source, path)
        if target.startswith("#") or is_internal(target):
            missing = not (ROOT / file).exists()
            lost = not missing and bool(anchor) and anchor not in headings(ROOT / file)
            name = python_name(label, file)
            unknown = name is not None and not missing and not defines(file, name.rpartition(".")[2])
            broken += [f"{label}({target})"] * (missing or lost or unknown)
    return broken


def defines(file: str, name: str) -> bool:
    tree = ast.parse((ROOT / file).read_text())
    return any(getattr(node, "name", None) == name for node in tree.body)


def test_every_page_has_a_source_and_a_place():
    assert [source for source in SOURCES if not (ROOT / source).exists()] == []
    paths = [page.path for page in pages()]
    assert len(set(paths)) == len(paths)
    documents = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert documents <= set(SOURCES)
    assert next(iter(sections())) == "Home" and len(sections()) <= 7


@pytest.mark.parametrize("source", SOURCES)
def test_links_lead_somewhere(source):
    assert not broken_links(source)


def test_broken_links_are_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("def f(): ...\n")
    (tmp_path / "a.md").write_text(
        "# A b!\n[x](a.md#a-b) [`f`](a.py) [w](https://x.y)\n```\n[no](link.md)\n```\n[x](b.md) [x](#no) [`g`](a.py)\n"
    )
    assert broken_links("a.md") == ["[x](b.md)", "[x](#no)", "[`g`](a.py)"]


def test_equations_lead_to_their_functions():
    """A label stands in the same paragraph as a link to a module that names it; no equation of the code is missing."""
    text = (ROOT / "docs" / "concepts.md").read_text()
    found = set()
    for paragraph in text.split("\n\n"):
        files = [linked_file("docs/concepts.md", target) for _, target in links_of(paragraph) if target.endswith(".py")]
        for label in re.findall(r"eq:[\w-]+", paragraph):
            assert any(label in (ROOT / file).read_text() for file in files), label
            found.add(label)
    assert {label for label in tree_report.EQUATIONS if label.startswith("eq:")} <= found
    assert len(found) >= 10


def test_the_reference_has_every_public_name():
    names = [name for group in GROUPS for name in group.names]
    assert sorted(names) == sorted(gems_jax.__all__)
    written = dict(reference_pages())
    assert set(written) == {page.path for page in pages() if not page.source}
    for full in {*homes().values(), *linked_names()}:
        module, _, name = full.rpartition(".")
        if full in homes().values():
            assert re.search(rf"^(?:class|def) {name}\b|^{name}\b.* = ", module_path(module).read_text(), re.MULTILINE)
        assert any(f"::: {full}\n" in text or f"`{name}`" in text for text in written.values()), full


def test_pages_are_staged(tmp_path):
    for source in ("docs/concepts.md", "README.md", "docs/results/kuhn.md"):
        pytest.importorskip("latex2mathml") if source.endswith("concepts.md") else None
        stage_page(SOURCES[source], tmp_path)
    concepts = (tmp_path / "concepts.md").read_text()
    assert "[`omwu_update`][gems_jax.meta.omwu.omwu_update]" in concepts and "```math" not in concepts
    assert concepts.count("<math ") > 30 and "$`" not in concepts
    home = (tmp_path / "index.md").read_text()
    assert "(figures/growth.png)" in home and (tmp_path / "figures" / "growth.png").exists()
    assert "[The library](library.md)" in home
    assert "(../figures/kuhn_exploitability.png)" in (tmp_path / "results" / "kuhn.md").read_text()


def test_links_in_code_stay():
    text = "[a](b.md)\n```\n[a](b.md)\n```\n[c](d.md)"
    assert replace_links(text, lambda label, target: target.upper()) == "B.MD\n```\n[a](b.md)\n```\nD.MD"


def test_lists_are_indented():
    assert indent_lists("- a\n  b\n- c\n\ntext") == "- a\n    b\n- c\n\ntext"
    assert indent_lists("- a\n\n  b\n- c") == "- a\n\n    b\n\n- c"
    assert indent_lists("text:\n- a") == "text:\n\n- a"
    assert indent_lists("```\n- a\n  b\n```") == "```\n- a\n  b\n```"


def test_examples_become_code():
    assert fence_examples("Adds.\n\n>>> f(1)\n2\n\nArgs:") == "Adds.\n\n```pycon\n>>> f(1)\n2\n```\n\nArgs:"
    assert fence_examples(">>> f()") == "```pycon\n>>> f()\n```"


def test_settings_name_the_pages():
    text = build.settings()
    assert str(ROOT) in text and '"concepts.md"' in text and "{root}" not in text


def test_play_pages_are_embedded(tmp_path, monkeypatch, capsys):
    (tmp_path / "play.md").write_text("# Play\n")
    monkeypatch.setattr(play.importlib.util, "find_spec", lambda name: None)
    assert play.write_play_pages(tmp_path) == [] and "not installed" in capsys.readouterr().out

    def write_play_page(policy, path):
        if policy == "leduc":
            raise RunError("no rules")
        path.write_text(policy)

    web = types.SimpleNamespace(write_play_page=write_play_page, load=lambda name: name)
    monkeypatch.setattr(play.importlib.util, "find_spec", lambda name: web)
    monkeypatch.setattr(play.importlib, "import_module", lambda name: web)
    assert tmp_path / "play" / "kuhn.html" in play.write_play_pages(tmp_path)
    text = (tmp_path / "play.md").read_text()
    assert 'src="play/kuhn.html"' in text and "leduc" not in text and "no rules" in capsys.readouterr().out


def test_pages_take_nothing_from_a_server(tmp_path):
    (tmp_path / "api").mkdir()
    page = '<script src="https://unpkg.com/iframe-worker/shim"></script><a href="https://jax.dev">a link may stay</a>'
    for name in ("index.html", "api/gems.html"):
        (tmp_path / name).write_text(page)
    build.keep_local(tmp_path)
    assert '<script src="assets/iframe-worker.js">' in (tmp_path / "index.html").read_text()
    assert '<script src="../assets/iframe-worker.js">' in (tmp_path / "api/gems.html").read_text()
    assert (build.HERE / "assets" / "iframe-worker.js").is_file()
    for remote in ('<img alt="a" src="http://b/c.png">', '<link rel="stylesheet" href="https://b/c.css">'):
        (tmp_path / "index.html").write_text(remote)
        with pytest.raises(RuntimeError, match="expected nothing from a server"):
            build.keep_local(tmp_path)


def test_formulas():
    formulas = pytest.importorskip("website.formulas", reason="latex2mathml of the extra docs is not installed")
    shown = formulas.to_mathml(r"\frac{a}{b}")
    assert "<mfrac>" in shown and 'aria-label="\\frac{a}{b}"' in shown
    assert formulas.render_formulas("x $`y`$ z").startswith("x <span><math ")
    with pytest.raises(ValueError, match="no MathML for"):
        formulas.to_mathml(r"\nosuchcommand x")


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("zensical", reason='the extra docs is not installed: pip install ".[docs]"')
    assert build.build(tmp_path) == 0
    site = tmp_path / "site"
    assert len(list(site.rglob("*.html"))) >= len(pages())
    fetched = re.compile(r'(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?)')
    assert not [path for path in site.rglob("*.html") if fetched.search(path.read_text())]
    page = tmp_path / "docs" / "library.md"
    page.write_text(page.read_text() + "\n[nowhere](nowhere.md) [`f`][gems_jax.nowhere]\n")
    assert build.render(tmp_path) != 0
