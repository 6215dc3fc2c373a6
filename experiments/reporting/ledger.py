"""The claims ledger: claims by theme with their verdicts, and the same as markdown for docs/results.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from experiments.reporting.claims import DEFINITIONS, Claim, Entry, Verdict, judge_all
from experiments.reporting.gathering import Sources

Ledger = Mapping[str, Sequence[Entry]]  # by theme

SECTION = "claims"
HEADER = ("the paper says", "where", "its figure", "ours", "measured at", "verdict", "by running")
BASIS = (
    "Intervals are over seeds (Student t; differences by Welch), or over the measured episodes where there is one "
    "seed or where the seeds are all alike; bytes and counts are of one run. Time is per environment step, all seeds "
    "together, compilation apart. Carried bytes are all arrays that a seed takes from iteration to iteration; resident "
    "memory is of the process, with XLA and the arms before in it, so its growth is compared."
)
MEANINGS = tuple(f"{verdict.capitalize()}: {text}" for verdict, text in DEFINITIONS.items())


def make_ledger(claims: Mapping[str, Sequence[Claim]], sources: Sources) -> Ledger:
    return {theme: judge_all(group, sources) for theme, group in claims.items()}


def everything(ledger: Ledger) -> list[Entry]:
    return [entry for group in ledger.values() for entry in group]


def tally(entries: Sequence[Entry]) -> str:
    """`12 held, 7 held with a condition, ...`."""
    counts = Counter(entry.verdict for entry in entries)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def markdown(ledger: Ledger) -> str:
    """The section of docs/results.md."""
    entries = everything(ledger)
    lines = ["## The paper's claims", "", f"{len(entries)} claims: {tally(entries)}.", ""]
    lines += [*(f"- {meaning}" for meaning in MEANINGS), "", BASIS, ""]
    for theme, group in ledger.items():
        lines += [f"### {theme}", "", _row(HEADER), _row(["---"] * len(HEADER)), *map(_line, group), ""]
        lines += [*_notes(group), ""]
    return "\n".join(lines)


def _notes(group: Sequence[Entry]) -> list[str]:
    """Every note once, with the beginnings of the claims that it is about."""
    about: dict[str, list[str]] = {}
    for entry in group:
        if entry.claim.note:
            about.setdefault(entry.claim.note, []).append(" ".join(entry.claim.quote.split()[:5]))
    return [
        f"- {'; '.join(dict.fromkeys(f'“{quote} …”' for quote in quotes))}: {note}" for note, quotes in about.items()
    ]


def _line(entry: Entry) -> str:
    claim = entry.claim
    verdict = f"**{entry.verdict}**" + (f": {entry.condition}" if entry.condition else "")
    told = entry.commands if entry.verdict is not Verdict.UNKNOWN else ()  # there the verdict names it
    commands = ", ".join(f"`{command}`" for command in told)
    return _row((f"\u201c{claim.quote}\u201d", claim.where, claim.paper, entry.ours, entry.budget, verdict, commands))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
