"""Claims of the paper and their verdicts, by stated rules from measured numbers.

`DEFINITIONS` defines the verdicts, and the ledger prints it; `inequality` implements it.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Protocol

from experiments.reporting.gathering import Sources, command_of
from experiments.reporting.quantities import Found, Missing
from gems_jax.evaluate.statistics import Interval


class Verdict(enum.StrEnum):
    """Verdicts from best to worst, defined in `DEFINITIONS`."""

    HELD = "held"
    CONDITION = "held with a condition"
    UNDECIDED = "not decided"
    NOT = "not held"
    UNKNOWN = "not measured"


DEFINITIONS = {
    Verdict.HELD: "the number and its whole 95 % interval are on the claimed side, at the full size of the experiment. "
    "Equality counts neither as lower nor as higher.",
    Verdict.CONDITION: "the same, but at a reduced size (fewer iterations or seeds than the experiment's spec, or "
    "other settings), from one seed, with other settings than the paper's, or in part; the row names the condition.",
    Verdict.UNDECIDED: "the interval contains the bound, or there is no interval, as with one or two seeds. The row "
    "names the side of the mean. Seconds of one run are not decided within 15 % of the bound.",
    Verdict.NOT: "the number and its whole interval are on the other side, or two numbers are equal although one is "
    "claimed to be lower or higher.",
    Verdict.UNKNOWN: "no experiment that was run has the number.",
}


@dataclasses.dataclass(frozen=True)
class Judged:
    """Verdict of a rule with the numbers it used."""

    verdict: Verdict
    ours: str
    condition: str = ""
    used: tuple[Found, ...] = ()


class Rule(Protocol):
    """A rule that judges a claim.

    `words` describes the rule for readers, `columns` lists the columns of experiments that it reads.
    """

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
    """Judges a claim. If a number is missing, the verdict is `not measured`, with the command that measures it."""
    try:
        judged = claim.rule.judge(sources)
    except Missing as missing:
        command = claim.command or command_of(missing.experiment)
        return Entry(claim, Verdict.UNKNOWN, "", f"{missing}: run `{command}`", "", (command,))
    except ArithmeticError as error:  # numbers such as NaN: report it in this entry only
        return Entry(claim, Verdict.UNKNOWN, "", f"the numbers cannot be judged: {error}", "", (claim.command,))
    limits = conditions(judged.used)
    verdict = Verdict.CONDITION if limits and judged.verdict is Verdict.HELD else judged.verdict
    condition = join(judged.condition, *limits)
    commands = dict.fromkeys(found.source.command if found.source else command_of("bench") for found in judged.used)
    own = (claim.command,) if claim.command else tuple(commands)
    return Entry(claim, verdict, judged.ours, condition, budgets(judged.used), own)


def judge_all(claims: Sequence[Claim], sources: Sources) -> list[Entry]:
    return [judge(claim, sources) for claim in claims]


def conditions(used: Sequence[Found]) -> list[str]:
    """Lists the limits of a measurement: a reduced size, or a single seed. Empty for a full one."""
    short: dict[str, dict[str, None]] = {}
    for found in used:
        if found.source is not None:
            short.setdefault(found.experiment, {}).update(dict.fromkeys(found.source.shortfalls(found.arm)))
    texts = [f"reduced size of {name}: {', '.join(why)}" for name, why in short.items() if why]
    single = any(
        found.source is not None and found.arm and found.source.seeds(found.arm) == 1 and found.has_interval
        for found in used
    )
    return texts + ["one seed: its interval is over episodes"] * single


def inequality(margin: Interval, strict: bool = False) -> tuple[Verdict, str]:
    """Judges a margin that is claimed to be at most 0, or below 0.

    Args:
        margin: number minus bound, with its 95 % interval; NaN ends mean that it has none.
        strict: whether a margin of exactly 0 breaks the claim ("is lower") or keeps it ("is at most").

    Returns:
        One of HELD, UNDECIDED and NOT, and a remark.

    Raises:
        ArithmeticError: the margin is not a number.
    """
    if math.isnan(margin.mean):
        raise ArithmeticError("one of them is not a number")
    side = "on the claimed side" if margin.mean < 0 or (margin.mean == 0 and not strict) else "not on the claimed side"
    if math.isnan(margin.low) or math.isnan(margin.high):
        return Verdict.UNDECIDED, f"there is no interval; the mean is {side}"
    if margin.high < 0 or (margin.high == 0 and not strict):
        return Verdict.HELD, ""
    if margin.low > 0:
        return Verdict.NOT, ""
    if margin.low == margin.high:  # a strict claim, and no noise
        return Verdict.NOT, "equal"
    return Verdict.UNDECIDED, f"within noise; the mean is {side}"


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=list(Verdict).index)


def budgets(used: Sequence[Found]) -> str:
    """Lists the sizes at which the numbers were measured; more than three are counted."""
    sizes: dict[str, list[str]] = {}
    for found in used:
        if found.budget:
            sizes.setdefault(found.budget, []).append(found.label)
    if len(sizes) > 3:
        return next(iter(sizes)) + f"; and {len(sizes) - 1} other sizes"
    return "; ".join(sizes)


def join(*parts: str) -> str:
    return "; ".join(dict.fromkeys(part for part in parts if part))


def number(value: float) -> str:
    """Formats a number with four digits."""
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
    """Formats `0.1355 ± 0.0402`, or [low, high] if the mean is not in the middle."""
    if math.isnan(found.low) or found.low == found.high:
        return number(found.mean)
    centred = abs(found.high + found.low - 2 * found.mean) <= 0.02 * (found.high - found.low)
    if centred:
        return f"{number(found.mean)} ± {number(found.half_width)}"
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"
