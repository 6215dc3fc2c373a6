"""runs/report/index.html: one file with everything in it. No network, no fonts, no scripts from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.reporting import html, sections
from experiments.reporting.gathering import Source, Sources
from experiments.reporting.ledger import Ledger
from experiments.reporting.sections import About
from experiments.reporting.style import SCRIPT, STYLE
from gems_jax.runner.directory import slug
from gems_jax.runner.errors import report_write_errors
from gems_jax.runner.files import replace_text

TITLE = "gems_jax: results and claims"


def page(
    sources: Sources,
    ledger: Ledger,
    about: Mapping[str, About] | None = None,
    order: Sequence[str] = (),
    drawn: Sequence[Path] = (),
) -> str:
    """Makes the whole page: the results first, then the claims.

    Args:
      sources: experiments, studies and benchmarks.
      ledger: the judged claims.
      about: questions and notes by experiment.
      order: names of the first experiments; others follow.
      drawn: pictures of the benchmarks.

    Returns:
      The HTML text.
    """
    known = dict(sources.folders)
    names = [*(name for name in order if name in known), *(name for name in known if name not in order)]
    shown = [known[name] for name in names]
    links = [(f"run-{slug(source.name)}", source.name.replace("_", " ")) for source in shown]
    links += [("claims", "claims")] * bool(ledger)
    links += [("benchmarks", "benchmarks")] * bool(sources.benchmarks)
    nav = "".join(html.element("a", html.escape(text), href=f"#{target}") for target, text in links)
    button = '<button type="button" id="theme" hidden>Dark</button>'
    bar = html.element(
        "header", html.element("div", html.element("nav", nav, aria_label="sections") + button), class_="bar"
    )
    body = [html.element("h1", html.escape(TITLE)), overview(sources, ledger, shown)]
    body += [sections.experiment(source, (about or {}).get(source.name, About())) for source in shown]
    if ledger:
        body.append(sections.claims(ledger, origin_of_claims(sources)))
    if sources.benchmarks:
        body.append(sections.benchmarks(sources.benchmarks, drawn))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(TITLE)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{bar}\n"
        f"{html.element('main', chr(10).join(body))}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def overview(sources: Sources, ledger: Ledger, shown: Sequence[Source]) -> str:
    """Summarizes the page in a few lines: what was run, and where the claims are."""
    newest = max((source.day for source in shown), default="")
    count = "1 experiment" if len(shown) == 1 else f"{len(shown)} experiments and studies"
    of = "of" if len(shown) == 1 else "the newest of"
    lines = [f"{count}{f', {of} {newest}' if newest else ''}."]
    reduced = [source.name for source in shown if source.is_reduced]
    if reduced:
        lines.append(f"Only a reduced size was run of: {', '.join(reduced)}.")
    told = html.paragraphs(lines, "facts")
    if ledger:
        link = html.element("a", "The paper's claims", href="#claims")
        told += html.element("p", f"{link} come after the results.", class_="facts")
    return told + (sections.contents(shown) if shown else "")


def origin_of_claims(sources: Sources) -> list[str]:
    """Names the experiments whose claims are judged by published numbers, in a sentence."""
    stated = [source.name for source in sources.experiments.values() if source.folder is None]
    return [f"Claims are judged by the numbers in docs/results for: {', '.join(stated)}."] * bool(stated)


def write_page(path: Path, text: str) -> Path:
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    return path
