"""Claims of the paper and what came of them: a verdict by a stated rule, from numbers that are read, never typed in.

- held: the number is on the claimed side of the bound, and so is the whole of its 95 % interval.
- held with a condition: in the mean only; or with other settings, or at a smaller size, or in part, as the row says.
- not held: the mean is on the other side. Where its interval reaches over the bound, the row says that, too.
- not measured: nothing that was run has the number.

An interval is over seeds (Student t), or over the measured episodes where there is one seed. Differences have Welch's.
Times, bytes and counts are of one run and have none.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Protocol

from gems_jax.run.report.gathering import Sources, command_of
from gems_jax.run.report.quantities import Found, Missing
from gems_jax.run.statistics import Interval


class Verdict(enum.StrEnum):
    """From the best to the worst."""

    HELD = "held"
    CONDITION = "held with a condition"
    NOT = "not held"
    UNKNOWN = "not measured"


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a rule makes of the numbers."""

    verdict: Verdict
    ours: str
    condition: str = ""
    used: tuple[Found, ...] = ()


class Rule(Protocol):
    """words: what it asks, for the reader. columns: what it reads of experiments."""

    @property
    def words(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    def judge(self, sources: Sources) -> Judged: ...


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be checked."""

    key: str
    quote: str  # the paper's words, short
    where: str  # section, figure, table or equation, by its label
    paper: str  # the paper's figure
    rule: Rule
    note: str = ""  # what a reader must know to read the verdict
    command: str = ""  # instead of that of the experiments that the rule reads


@dataclasses.dataclass(frozen=True)
class Entry:
    """A line of the ledger."""

    claim: Claim
    verdict: Verdict
    ours: str
    condition: str
    budget: str
    commands: tuple[str, ...]


def judge(claim: Claim, sources: Sources) -> Entry:
    """The line of a claim. A rule that lacks a number makes it `not measured`, with the command that would do it."""
    try:
        judged = claim.rule.judge(sources)
    except Missing as missing:
        command = claim.command or command_of(missing.experiment)
        return Entry(claim, Verdict.UNKNOWN, "", f"{missing}: run `{command}`", "", (command,))
    except ArithmeticError as error:  # odd numbers: this line says so, and the others stay
        return Entry(claim, Verdict.UNKNOWN, "", f"the numbers cannot be judged: {error}", "", (claim.command,))
    verdict, condition = judged.verdict, judged.condition
    quick = sorted({found.experiment for found in judged.used if found.source is not None and found.source.is_quick})
    if quick:
        condition = join(condition, f"only the quick size of {' and '.join(quick)} was run")
        verdict = Verdict.CONDITION if verdict is Verdict.HELD else verdict
    commands = dict.fromkeys(found.source.command if found.source else command_of("bench") for found in judged.used)
    own = (claim.command,) if claim.command else tuple(commands)
    return Entry(claim, verdict, judged.ours, condition, budgets(judged.used), own)


def judge_all(claims: Sequence[Claim], sources: Sources) -> list[Entry]:
    return [judge(claim, sources) for claim in claims]


def inequality(margin: Interval) -> tuple[Verdict, str]:
    """Of a margin that is claimed to be at most 0: the verdict, and the condition in words."""
    if not margin.mean <= 0:  # not a number does not hold
        reaches = margin.low <= 0  # False without an interval
        return Verdict.NOT, "the interval reaches over the bound" if reaches else ""
    if math.isnan(margin.high):
        return Verdict.CONDITION, "in the mean: there is no interval"
    return (Verdict.HELD, "") if margin.high <= 0 else (Verdict.CONDITION, "in the mean: the interval reaches over it")


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=list(Verdict).index)


def budgets(used: Sequence[Found]) -> str:
    """At what size the numbers were measured; many arms are told by their number."""
    told: dict[str, list[str]] = {}
    for found in used:
        if found.budget:
            told.setdefault(found.budget, []).append(found.label)
    if len(told) > 3:
        return next(iter(told)) + f"; and {len(told) - 1} other sizes"
    return "; ".join(told)


def join(*parts: str) -> str:
    return "; ".join(dict.fromkeys(part for part in parts if part))


def number(value: float) -> str:
    """Four digits, however large."""
    if not math.isfinite(value):
        return "never" if value > 0 else str(value)
    return (
        f"{value:,.0f}"
        if abs(value) >= 1000
        else f"{value:.4g}"
        if abs(value) >= 0.001 or value == 0
        else f"{value:.1e}"
    )


def interval(found: Interval) -> str:
    """`0.1355 ± 0.0402`, or [low, high] where the mean is not in the middle."""
    if math.isnan(found.low) or found.low == found.high:
        return number(found.mean)
    centred = abs(found.high + found.low - 2 * found.mean) <= 0.02 * (found.high - found.low)
    if centred:
        return f"{number(found.mean)} ± {number(found.half_width)}"
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"
