"""Rules that judge claims (`claims.py`): bounds, which equality satisfies, and comparisons, which it does not.

`combining.py` joins rules, `costs.py` has rules about time and memory, `theory.py` rules that need no run.
"""

from __future__ import annotations

import dataclasses
import math

from scipy.stats import f as fisher

from experiments.reporting.claims import Judged, Verdict, inequality, interval, join, number, worst
from experiments.reporting.gathering import Sources
from experiments.reporting.quantities import Column, Found, Missing, Quantity
from gems_jax.evaluate.statistics import LEAST_SEEDS, Interval, student_factor

SHOWN = 4  # numbers in a cell; if there are more, only the extremes


@dataclasses.dataclass(frozen=True)
class Bound:
    """Every number found is at most, or at least, a bound; equality satisfies it.

    `exact` marks counts and computed numbers, which have no interval and need none.
    """

    of: Quantity
    at_most: float = math.inf
    at_least: float = -math.inf
    what: str = ""
    exact: bool = False

    @property
    def words(self) -> str:
        sides = [(self.at_least, "at least"), (self.at_most, "at most")]
        bounds = " and ".join(f"{word} {number(bound)}" for bound, word in sides if math.isfinite(bound))
        return f"{self.what or _what(self.of)} is {bounds}"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    def judge(self, sources: Sources) -> Judged:
        found = self.of.find(sources)
        judged = [self._one(one.interval) for one in found]
        verdict = worst([verdict for verdict, _ in judged])
        wrong = [one.label for one, (v, _) in zip(found, judged, strict=True) if v is Verdict.NOT]
        some = f"not for {_few(wrong)}" if wrong and len(wrong) < len(found) else ""
        told = f"{_named(self.of)}{listed(found)}"
        return Judged(verdict, told, join(some, _conditions(found, judged, verdict)), tuple(found))

    def _one(self, found: Interval) -> tuple[Verdict, str]:
        if self.exact:
            found = Interval(found.mean, found.mean, found.mean)
        sides = []
        if math.isfinite(self.at_most):
            sides.append(Interval(*(value - self.at_most for value in found)))
        if math.isfinite(self.at_least):
            sides.append(Interval(*(self.at_least - value for value in (found.mean, found.high, found.low))))
        judged = [inequality(side) for side in sides]
        return max(judged, key=lambda pair: list(Verdict).index(pair[0]))


@dataclasses.dataclass(frozen=True)
class Compare:
    """One number is lower (or higher) than every other one, beyond the interval of the difference (Welch).

    `exact` marks counts, which have no noise. With `slack`, the number may be worse than the others by that much.
    """

    of: Quantity
    others: Quantity
    lower: bool = True
    what: str = ""
    slack: float = 0.0
    exact: bool = False

    @property
    def words(self) -> str:
        return f"{self.what or _what(self.of)} is {self._side} than all others"

    @property
    def _side(self) -> str:
        if self.slack:
            return f"worse by at most {number(self.slack)}"
        return "lower" if self.lower else "higher"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.of.columns, *self.others.columns)

    def judge(self, sources: Sources) -> Judged:
        (mine, *more), others = self.of.find(sources), self.others.find(sources)
        if more:
            raise ValueError(f"{self.of} matches several numbers: expected one to compare")
        judged = [inequality(self._margin(mine, other), strict=not self.slack) for other in others]
        verdict = worst([verdict for verdict, _ in judged])
        held = sum(v is Verdict.HELD for v, _ in judged)
        counted = f"{self._side} than {held} of {len(others)}" if len(others) > 1 and held < len(others) else ""
        told = join(counted, _conditions(others, judged, verdict))
        return Judged(verdict, f"{_named(self.of)}{listed([mine])}; {listed(others)}", told, (mine, *others))

    def _margin(self, mine: Found, other: Found) -> Interval:
        """Computes by how much the number is on the wrong side."""
        margin = difference(mine, other)
        if self.exact:
            margin = Interval(margin.mean, margin.mean, margin.mean)
        if not self.lower:
            margin = Interval(-margin.mean, -margin.high, -margin.low)
        return Interval(*(value - self.slack for value in margin))


@dataclasses.dataclass(frozen=True)
class Times:
    """The ratio of two numbers is at most, or at least, a bound.

    If both have intervals, the ends of the ratio's interval are the smallest and largest ratio that they allow.
    """

    of: Quantity
    by: Quantity
    at_most: float = math.inf
    at_least: float = -math.inf
    what: str = ""

    @property
    def words(self) -> str:
        side = f"at most {number(self.at_most)}" if math.isfinite(self.at_most) else f"at least {number(self.at_least)}"
        return f"{self.what or _what(self.of) + ' by ' + _what(self.by)} is {side}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.of.columns, *self.by.columns)

    def judge(self, sources: Sources) -> Judged:
        (one,), (other,) = self.of.find(sources), self.by.find(sources)
        ratio = one.mean / other.mean
        ends = (ratio, ratio)
        if one.has_interval and other.has_interval and other.interval.low > 0:
            ends = (one.interval.low / other.interval.high, one.interval.high / other.interval.low)
        if math.isfinite(self.at_most):
            margin = Interval(*(value - self.at_most for value in (ratio, *ends)))
        else:
            margin = Interval(*(self.at_least - value for value in (ratio, *reversed(ends))))
        verdict, condition = inequality(margin)
        return Judged(verdict, f"{number(ratio)} times: {listed([one, other])}", condition, (one, other))


@dataclasses.dataclass(frozen=True)
class Same:
    """Two numbers differ by at most so much."""

    of: Quantity
    other: Quantity
    within: float

    @property
    def words(self) -> str:
        return f"{_what(self.of)} is the same in both, within {number(self.within)}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.of.columns, *self.other.columns)

    def judge(self, sources: Sources) -> Judged:
        (one,), (other,) = self.of.find(sources), self.other.find(sources)
        apart = abs(one.mean - other.mean) - self.within
        return Judged(inequality(Interval(apart, apart, apart))[0], listed([one, other]), "", (one, other))


@dataclasses.dataclass(frozen=True)
class Steadier:
    """The deviation over seeds is smaller, beyond the interval of the ratio (F)."""

    of: Quantity
    other: Quantity

    @property
    def words(self) -> str:
        return f"the deviation of {_what(self.of)} over seeds is smaller than the other's"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.of.columns, *self.other.columns)

    def judge(self, sources: Sources) -> Judged:
        (mine,), (other,) = self.of.find(sources), self.other.find(sources)
        if min(mine.seeds, other.seeds) < LEAST_SEEDS:
            raise Missing(mine.experiment, f"fewer than {LEAST_SEEDS} seeds of {mine.experiment} give no deviation")
        mean = deviation(mine) / deviation(other) if deviation(other) else math.inf if deviation(mine) else 1.0
        low, high = (
            mean / math.sqrt(float(fisher.ppf(level, mine.seeds - 1, other.seeds - 1))) for level in (0.975, 0.025)
        )
        margin = Interval(mean - 1, low - 1, high - 1)
        if deviation(mine) == deviation(other) == 0:
            margin = Interval(0.0, 0.0, 0.0)
        verdict, condition = inequality(margin, strict=True)
        told = f"deviations {number(deviation(mine))} and {number(deviation(other))}: {number(mean)} times"
        return Judged(verdict, f"{told} [{number(low)}, {number(high)}]", condition, (mine, other))


@dataclasses.dataclass(frozen=True)
class BestAmong:
    """The arm with the lowest number is one that the claim names."""

    of: Quantity  # all arms
    named: Quantity
    what: str  # description of the named arms

    @property
    def words(self) -> str:
        return f"the lowest {_what(self.of)} is that of {self.what}"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    def judge(self, sources: Sources) -> Judged:
        found = sorted(self.of.find(sources), key=lambda one: one.mean)
        named = {one.label for one in self.named.find(sources)}
        mine = [one for one in found if one.label in named]
        if not mine or len(mine) == len(found):
            raise Missing(found[0].experiment, f"not both kinds of arms in what was run of {found[0].experiment}")
        rank = found.index(mine[0]) + 1
        rival = next(one for one in found if one not in mine)
        verdict, condition = inequality(difference(mine[0], rival), strict=True)
        text = f"best of the named: {listed(mine[:1])}, rank {rank} of {len(found)}; best of the others: "
        return Judged(verdict, text + listed([rival]), condition, (mine[0], rival))


def difference(one: Found, other: Found) -> Interval:
    """Computes one - other with its 95 % interval by Welch, or without interval if either has none.

    If an arm has identical numbers at two iterations, the difference is 0 without noise.
    """
    mean = one.mean - other.mean
    if one.arm and (one.experiment, one.arm, one.interval) == (other.experiment, other.arm, other.interval):
        return Interval(0.0, 0.0, 0.0)
    (mine, my_freedom), (theirs, their_freedom) = one.standard_error, other.standard_error
    variance = mine**2 + theirs**2
    if math.isnan(variance):
        return Interval(mean, math.nan, math.nan)
    if variance == 0:
        return Interval(mean, mean, mean)
    spread = mine**4 / my_freedom + theirs**4 / their_freedom
    freedom = variance**2 / spread if spread > 0 else math.inf  # both from many episodes
    half = student_factor(freedom) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def deviation(found: Found) -> float:
    """Computes the standard deviation over seeds from the interval of the mean."""
    return found.standard_error[0] * math.sqrt(found.seeds)


def listed(found: list[Found]) -> str:
    """Lists labels with numbers; of many, only the smallest and the largest."""
    if len(found) > SHOWN:
        ordered = sorted(found, key=lambda one: one.mean)
        return f"{len(found)} numbers from {listed(ordered[:1])} to {listed(ordered[-1:])}"
    return ", ".join(f"{one.label} {interval(one.interval)}" for one in found)


def _conditions(found: list[Found], judged: list[tuple[Verdict, str]], verdict: Verdict) -> str:
    """Joins the remarks about the numbers that decide the verdict, with their labels unless it is all of them."""
    said: dict[str, list[str]] = {}
    for one, (own, condition) in zip(found, judged, strict=True):
        if own is verdict and condition:
            said.setdefault(condition, []).append(one.label)
    told = [text if len(who) == len(found) else f"{text} ({_few(who)})" for text, who in said.items()]
    return join(*told)


def _what(of: Quantity) -> str:
    found = getattr(of, "words", "") or getattr(of, "field", "") or getattr(of, "figure", "")
    return found.replace("_", " ") if isinstance(found, str) else " ".join(found)


def _named(of: Quantity) -> str:
    """Names a column, whose numbers are labelled by their arms."""
    return f"{of.words}: " if isinstance(of, Column) else ""


def _few(labels: list[str]) -> str:
    return ", ".join(labels[:SHOWN]) + (f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else "")
