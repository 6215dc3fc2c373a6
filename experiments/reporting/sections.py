"""Parts of the report: one section per experiment, the claims ledger, the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.reporting import html
from experiments.reporting.claims import Entry, Verdict, number
from experiments.reporting.describing import EXPLAINED, circumstances, costs, reasons, settings
from experiments.reporting.gathering import Source
from experiments.reporting.ledger import BASIS, MEANINGS, Ledger, everything, tally
from gems_jax.runner.directory import slug
from gems_jax.viz.tables import TextTable

REMARK = {
    Verdict.HELD: "Remark",
    Verdict.CONDITION: "Condition",
    Verdict.UNDECIDED: "Why not",
    Verdict.NOT: "Remark",
    Verdict.UNKNOWN: "Why not",
}
MAX_EMBEDDED = 3_000_000  # bytes of a replay or a CSV; larger ones are named
KIND = {
    Verdict.HELD: "held",
    Verdict.CONDITION: "condition",
    Verdict.UNDECIDED: "undecided",
    Verdict.NOT: "not",
    Verdict.UNKNOWN: "unknown",
}
CAPTIONS = {
    "exploitability": "Exploitability over iterations: means over seeds with 95 % bands, a logarithmic axis.",
    "nash_conv": "NashConv over iterations: means over seeds with 95 % bands, a logarithmic axis.",
    "cce_gap": "The gap of the joint play to a coarse correlated equilibrium, over iterations.",
    "outcomes": "Outcomes, one panel each: means over seeds with 95 % bands.",
    "error_budget": "Where the gap comes from: the error budget of each arm, terms stacked.",
    "forgetting": "What old anchors lost while the generator was trained, and how many policies the mixture has.",
    "resources": "What it cost: cumulative seconds and memory over iterations.",
    "against": "The headline at the end against what the arms differ in.",
    "ablation": "Every factor at its levels: the numbers at the end, the base beside them.",
    "shifting_meta": "Regret and share of right picks around the shift.",
    "ghosts": "An episode of every seed, a row for every method: where everybody was, the earlier the fainter.",
    "outcomes_of_sides": "Who wins in games between the policies of one iteration.",
}
# of pictures that are drawn for each arm, <kind>-<arm>
KINDS_OF_PICTURES = {
    "ghosts": "an episode of the first seed",
    "embeddings": "anchors as points, by what they do and by their codes: principal components",
    "boards": "a game of the first seed",
}


class About(NamedTuple):
    """Question of an experiment, and notes for readers of its results."""

    question: str = ""
    notes: tuple[str, ...] = ()


def claims(ledger: Ledger, notes: Sequence[str] = ()) -> str:
    """Renders the section of the claims; notes: sentences about the numbers that judge them."""
    entries = everything(ledger)
    buttons = [f'<button type="button" data-kind="all" aria-pressed="true">all {len(entries)}</button>']
    for verdict in Verdict:
        count = sum(entry.verdict is verdict for entry in entries)
        if count:
            buttons.append(
                f'<button type="button" data-kind="{KIND[verdict]}" aria-pressed="false">{verdict} {count}</button>'
            )
    parts = [
        html.element("h2", "The paper's claims"),
        html.paragraphs([f"{len(entries)} claims: {tally(entries)}."], "question"),
        html.paragraphs(notes, "facts"),
        html.folded("How verdicts are reached", html.paragraphs([*MEANINGS, BASIS])),
        html.element("div", "".join(buttons), class_="filter"),
    ]
    for title, group in ledger.items():
        parts += [html.element("h3", html.escape(title)), *(claim(entry) for entry in group)]
    return html.element("section", "".join(parts), id="claims")


def claim(entry: Entry) -> str:
    """Renders one claim: the verdict, the paper's quote, its figure and ours."""
    said, kind = entry.claim, KIND[entry.verdict]
    badge = html.element("span", html.escape(entry.verdict), class_=f"badge {kind}")
    top = html.element("div", badge + html.element("span", html.escape(said.where), class_="small"), class_="top")
    unknown = entry.verdict is Verdict.UNKNOWN
    rows = [("Paper", said.paper), ("Here", entry.ours), (REMARK[entry.verdict], entry.condition)]
    more = [("Measured at", entry.budget), ("Rule", said.rule.words), ("Note", said.note)]
    more += [("Command", ", ".join(f"`{command}`" for command in entry.commands))] * (not unknown)
    inner = top + html.element("blockquote", "“" + html.words(said.quote) + "”")
    inner += html.pairs((name, text) for name, text in rows if text)
    inner += html.folded("How it was judged", html.pairs((name, text) for name, text in more if text))
    return html.element("article", inner, class_="claim", id=f"claim-{said.key}", data_kind=kind)


def experiment(source: Source, about: About) -> str:
    """Renders the section of one experiment."""
    summary = source.summary
    parts = [html.element("h2", html.escape(summary["title"]))]
    parts += [
        html.paragraphs([about.question], "question") if about.question else "",
        html.paragraphs([_facts(source)]),
    ]
    if summary.get("convention"):
        parts.append(html.paragraphs([f"Convention: {summary['convention']}."], "small"))
    if "table" in summary:
        parts.append(html.table(TextTable(**summary["table"])))
    parts += [checks(summary.get("checks", ())), html.bullets(about.notes), figures(source), replays(source)]
    why = reasons(summary) if summary.get("arms") else None
    if why is not None:
        parts.append(html.folded("Why: causes at the last iteration", html.table(why) + html.paragraphs([EXPLAINED])))
    budget = costs(source)
    if budget is not None:
        parts.append(html.folded("Budget: episodes, steps, seconds, memory", html.table(budget)))
    parts += [_settings(summary), _numbers(summary.get("pictures") or {})]
    parts.append(html.folded("Command, commit, hardware, versions", html.pairs(circumstances(summary)) + _csv(source)))
    return html.element("section", "".join(parts), id=f"run-{slug(source.name)}")


def contents(shown: Sequence[Source]) -> str:
    """Renders the table of all experiments."""
    rows = []
    for source in shown:
        lines = source.summary.get("checks", ())
        held = sum(line.startswith("check holds") for line in lines)
        name = html.element("a", html.escape(source.summary["title"]), href=f"#run-{slug(source.name)}")
        seeds = len(source.summary.get("seeds") or [])
        cells = (source.size, str(seeds or ""), f"{held} of {len(lines)}" if lines else "", source.day)
        told = "".join(html.element("td", html.escape(cell)) for cell in cells)
        rows.append(html.element("tr", html.element("th", name, scope="row") + told))
    head = "".join(html.element("th", cell, scope="col") for cell in ("", "size", "seeds", "checks hold", "finished"))
    whole = html.element(
        "table", html.element("thead", html.element("tr", head)) + html.element("tbody", "".join(rows))
    )
    return html.element("div", whole, class_="scroll", tabindex="0", role="region", aria_label="contents")


def checks(lines: Sequence[str]) -> str:
    """Renders checks, each with a badge."""
    if not lines:
        return ""
    items = []
    for line in lines:
        head, _, text = line.partition(": ")
        kind, word = ("held", "holds") if head == "check holds" else ("not", "failed")
        items.append(html.element("li", html.element("span", word, class_=f"badge {kind}") + " " + html.words(text)))
    return html.element("h4", "Checks") + html.element("ul", "".join(items))


def figures(source: Source) -> str:
    if source.folder is None:
        return ""
    shown = [source.folder / name for name in source.summary.get("figures", ())]
    drawn = [html.picture(path, *_told(source, path)) for path in shown if path.is_file() and path.suffix in html.KINDS]
    return html.element("div", "".join(drawn), class_="figures") if drawn else ""


def replays(source: Source) -> str:
    """Renders animations that are small enough to be embedded."""
    if source.folder is None:
        return ""
    paths = [source.folder / name for name in source.summary.get("replays", ())]
    paths = [path for path in paths if path.is_file() and path.suffix in html.KINDS]
    small = [path for path in paths if path.stat().st_size <= MAX_EMBEDDED]
    left = [f"`{path}` is too large for this page." for path in paths if path not in small]
    drawn = [html.picture(path, *_told(source, path, "replay: ")) for path in small]
    title = html.element("h4", "Replays") if paths else ""
    return title + (html.element("div", "".join(drawn), class_="figures") if drawn else "") + html.paragraphs(left)


def benchmarks(entries: Mapping[str, Mapping[str, Any]], drawn: Sequence[Path] = ()) -> str:
    """Renders the newest figures of every benchmark, folded."""
    parts = [html.element("h2", "Benchmarks"), html.paragraphs(["Measured side by side by `make bench`."], "question")]
    pictures = [html.picture(path, path.stem, f"{path.stem} of the benchmarks") for path in drawn]
    parts.append(html.element("div", "".join(pictures), class_="figures") if pictures else "")
    for name, entry in entries.items():
        body = []
        for one in entry["figures"]:
            within = "" if one["low"] is None else f"[{number(one['low'])}, {number(one['high'])}]"
            body.append((one["name"], number(one["value"]), one["unit"], within))
        caption = f"{entry['date']}, commit {entry['commit']}, {entry['machine']['devices']}"
        data = TextTable(("", "value", "unit", "95 % interval"), tuple(body), (), caption)
        parts.append(html.folded(name, html.table(data)))
    return html.element("section", "".join(parts), id="benchmarks")


def _facts(source: Source) -> str:
    """Describes size, time and folder in one line."""
    where = f"`{source.folder}`" if source.folder is not None else "numbers of docs/results, no folder here"
    seeds = source.summary.get("seeds") or []
    counted = f", {len(seeds)} seed{'s' * (len(seeds) != 1)}" if seeds else ""
    return f"{source.size.capitalize()}{counted}, finished {source.day}; {where}"


def _told(source: Source, path: Path, kind: str = "") -> tuple[str, str]:
    """Returns the alternative text and the caption of a picture."""
    stem, (first, _, arm) = path.stem.replace("_", " "), path.stem.partition("-")
    of_arm = f"{arm.replace('_', ' ')}: {KINDS_OF_PICTURES[first]}." if first in KINDS_OF_PICTURES else f"{kind}{stem}"
    caption = CAPTIONS.get(path.stem) or of_arm
    arms = ", ".join(source.arms) if len(source.arms) <= 12 else f"{len(source.arms)} arms"
    return f"{source.summary['title']}: {kind}{stem}{f', {arms}' if arms else ''}", caption


def _settings(summary: Mapping[str, Any]) -> str:
    arms = [(label, settings(arm)) for label, arm in (summary.get("arms") or {}).items()]
    parts = []
    for label, rows in arms:
        inner = "".join(
            html.element("div", html.element("dt", html.escape(name)) + html.element("dd", html.escape(value)))
            for name, value in rows
        )
        parts.append(html.element("h4", html.escape(label)) + html.element("dl", inner, class_="settings"))
    return html.folded(f"Settings of {len(arms)} arm{'s' * (len(arms) != 1)}", "".join(parts)) if arms else ""


def _numbers(pictures: Mapping[str, Any]) -> str:
    """Renders the numbers of the pictures."""
    from experiments.reporting.quantities import flat

    rows = [
        (f"{name}: {what}", number(value)) for name, one in pictures.items() for what, value in flat(one.get("numbers"))
    ]
    rows += [(f"{name}", f"not drawn: {one['failed']}") for name, one in pictures.items() if "failed" in one]
    return html.folded("Numbers behind the pictures", html.pairs(rows)) if rows else ""


def _csv(source: Source) -> str:
    path = source.folder / "summary.csv" if source.folder is not None else None
    if path is None or not path.is_file():
        return ""
    if path.stat().st_size > MAX_EMBEDDED:
        return html.paragraphs([f"All numbers: `{path}`"])
    return html.element("p", "All numbers: " + html.download(path, f"{slug(source.name)}.csv"))
