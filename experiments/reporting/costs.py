"""Rules about costs: how much faster or smaller a method is, and how its cost grows with iterations.

Time is compared per environment step. `seconds` are those of all seeds: in parallel if a method is one compiled
program, in sequence otherwise. There are two kinds of memory. `carried` is the size of all arrays that a seed passes
from iteration to iteration. `resident` is that of the process, including XLA and earlier arms, so only its growth is
compared.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from experiments.reporting.claims import Judged, Verdict, number
from experiments.reporting.gathering import Source, Sources
from experiments.reporting.quantities import CARRIED, Column, Found, Missing
from gems_jax.evaluate.statistics import Interval

LINEAR = 1.15  # powers up to this are called near-linear
NOISE = 1.15  # seconds of one run have no interval: ratios within this factor count as equal


@dataclasses.dataclass(frozen=True)
class Faster:
    """Ratio of the seconds per environment step of slow arms to those of a fast one; `up_to`: of the slowest arm."""

    experiment: str
    fast: str
    slow: str | tuple[str, ...]  # or patterns
    at_least: float
    up_to: bool = False
    iterations: int = 0

    @property
    def words(self) -> str:
        whom = "the slowest other one" if self.up_to else "every other one"
        return (
            f"{whom} takes at least {number(self.at_least)} times the seconds per environment step, excluding "
            "compilation"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return ("seconds", "total_env_steps", "compile_seconds")

    def judge(self, sources: Sources) -> Judged:
        fast, *more = self._of(self.fast, sources)
        slow = [found for found in self._of(self.slow, sources) if found.arm != fast.label]
        if more or not slow:
            raise Missing(self.experiment, f"no two arms to compare in what was run of {self.experiment}")
        apart = {one.label: one.mean / fast.mean for one in slow}
        within = {one.label: _rate(one, compiling=True) / _rate(fast, compiling=True) for one in slow}
        pick = max if self.up_to else min
        label = pick(apart, key=apart.__getitem__)
        verdict, *whole = [self._timed(pick(ratios.values())) for ratios in (apart, within) if not _unknown(ratios)]
        condition = "within the noise of seconds" if verdict is Verdict.UNDECIDED else ""
        if verdict is Verdict.HELD and any(one is not Verdict.HELD for one in whole):
            verdict, condition = Verdict.CONDITION, "excluding compilation"
        ours = ", ".join(
            f"{name} {number(ratio)} times" for name, ratio in sorted(apart.items(), key=lambda p: -p[1])[:4]
        )
        seconds = ", ".join(f"{one.label} {number(_seconds(one))} s" for one in (fast, *slow)[:5])
        compiled = "" if _unknown(within) else f"; with compilation {number(within[label])} times"
        return Judged(verdict, f"{ours} ({seconds} in all){compiled}", condition, (fast, *slow))

    def _timed(self, ratio: float) -> Verdict:
        if ratio >= self.at_least * NOISE:
            return Verdict.HELD
        return Verdict.NOT if ratio * NOISE <= self.at_least else Verdict.UNDECIDED

    def _of(self, arm: str | tuple[str, ...], sources: Sources) -> list[Found]:
        """Finds the seconds per environment step of one seed."""
        found = Column(self.experiment, arm, "seconds", iterations=self.iterations).find(sources)
        there = [one._replace(interval=Interval(_rate(one), math.nan, math.nan)) for one in found]
        there = [one for one in there if math.isfinite(one.mean) and one.mean > 0]
        if not there:
            raise Missing(
                self.experiment, f"no environment steps counted for {arm} in what was run of {self.experiment}"
            )
        return there


@dataclasses.dataclass(frozen=True)
class Smaller:
    """The large arm carries `at_least` times the bytes of the small one, and its process grows by the same factor."""

    experiment: str
    small: str
    large: str
    at_least: float
    iterations: int = 0

    @property
    def words(self) -> str:
        return f"the other carries at least {number(self.at_least)} times the bytes and its process grows as much"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*CARRIED, "memory_mb")

    def judge(self, sources: Sources) -> Judged:
        (small,), (large,) = (
            Column(self.experiment, arm, CARRIED, iterations=self.iterations).find(sources)
            for arm in (self.small, self.large)
        )
        ratio = large.mean / small.mean
        grown = [_growth(found, "memory_mb") for found in (small, large)]
        carried, resident = ratio >= self.at_least, grown[1] > 0 and grown[1] >= self.at_least * grown[0]
        verdict = Verdict.HELD if carried and resident else Verdict.CONDITION if carried or resident else Verdict.NOT
        condition = (
            "" if carried == resident else "for carried bytes only" if carried else "for the growth of the process only"
        )
        ours = (
            f"carried: {number(small.mean / 1e3)} and {number(large.mean / 1e3)} kB, {number(ratio)} times; "
            f"resident, growth over the run: {number(grown[0])} and {number(grown[1])} MB"
        )
        return Judged(verdict, ours, condition, (small, large))


@dataclasses.dataclass(frozen=True)
class Flat:
    """From first to last iteration the process of an arm hardly grows and its carried bytes do not grow.

    The process decides, because the paper measured it; arrays that are allocated at the start never grow.
    """

    experiment: str
    arm: str
    within: float = 0.05
    iterations: int = 2

    @property
    def words(self) -> str:
        return f"resident memory grows by at most {100 * self.within:.0f} % over the run, carried bytes do not grow"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*CARRIED, "memory_mb")

    def judge(self, sources: Sources) -> Judged:
        (found,) = Column(self.experiment, self.arm, CARRIED, iterations=self.iterations).find(sources)
        source, marks = _source(found), _source(found).marks(found.arm, CARRIED[0])
        begin = sum(part.mean for column in CARRIED if (part := source.at(found.arm, column, marks[0])))
        grown, resident = _growth(found, "memory_mb"), source.at(found.arm, "memory_mb")
        fraction = grown / (resident.mean - grown) if resident else math.nan
        if math.isnan(fraction):
            raise Missing(self.experiment, f"no resident memory in what was run of {self.experiment}")
        carried, resident_holds = found.mean <= begin, fraction <= self.within
        verdict = Verdict.NOT if not resident_holds else Verdict.HELD if carried else Verdict.CONDITION
        condition = (
            "" if carried == resident_holds else "for the process only" if resident_holds else "the process grows"
        )
        ours = (
            f"carried: {number(begin / 1e3)} kB, then {number(found.mean / 1e3)} kB; "
            f"resident: {number(resident.mean if resident else math.nan)} MB, grown by {number(grown)} MB"
        )
        return Judged(verdict, ours, condition, (found,))


@dataclasses.dataclass(frozen=True)
class Power:
    """Power of the iterations with which cumulative seconds grow: 1 + that of the seconds of an iteration.

    It compares the seconds per iteration in the first and the last interval between reported iterations, so that costs
    at the start of a run do not count.
    """

    experiment: str
    arm: str
    at_most: float = math.inf
    at_least: float = -math.inf
    iterations: int = 5

    @property
    def words(self) -> str:
        side = f"at most {self.at_most:g}" if math.isfinite(self.at_most) else f"at least {self.at_least:g}"
        return f"cumulative seconds grow as a power of the iterations that is {side}"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("seconds",)

    def judge(self, sources: Sources) -> Judged:
        (found,) = Column(self.experiment, self.arm, "seconds", iterations=self.iterations).find(sources)
        early, late, told = stretches(found)
        power = 1 + math.log(late.seconds / early.seconds) / math.log(late.middle / early.middle)
        verdict, condition = (Verdict.HELD if self.at_least <= power <= self.at_most else Verdict.NOT), ""
        if power > LINEAR and verdict is Verdict.NOT and math.isfinite(self.at_least):
            verdict, condition = Verdict.CONDITION, "faster than linear, but less than claimed"
        return Judged(verdict, f"{found.arm}: power {power:.2f}, {told}", condition, (found,))


@dataclasses.dataclass(frozen=True)
class Quickens:
    """An early iteration takes `at_least` times the seconds of a late one."""

    experiment: str
    arm: str
    at_least: float
    iterations: int = 5

    @property
    def words(self) -> str:
        return f"an early iteration takes at least {number(self.at_least)} times the seconds of a late one"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("seconds",)

    def judge(self, sources: Sources) -> Judged:
        (found,) = Column(self.experiment, self.arm, "seconds", iterations=self.iterations).find(sources)
        early, late, told = stretches(found)
        ratio = early.seconds / late.seconds
        verdict = Verdict.HELD if ratio >= self.at_least else Verdict.CONDITION if ratio > LINEAR else Verdict.NOT
        condition = "less, but by a smaller factor" if verdict is Verdict.CONDITION else ""
        return Judged(verdict, f"{number(ratio)} times: {told}", condition, (found,))


class Stretch(NamedTuple):
    """Iterations between two reported ones."""

    seconds: float  # per iteration
    middle: float  # mean iteration


def stretches(found: Found) -> tuple[Stretch, Stretch, str]:
    """Finds the first and the last stretch of a run, and describes both."""
    source, marks = _source(found), _source(found).marks(found.arm, "seconds")
    times = {mark: _mean(source.at(found.arm, "seconds", mark)) for mark in marks}
    if len(marks) < 3:
        times[0], marks = 0.0, [0, *marks]
    if len(marks) < 3:
        raise Missing(found.experiment, f"seconds at one iteration only in what was run of {found.experiment}")
    ends = (marks[:2], marks[-2:])
    early, late = (Stretch((times[b] - times[a]) / (b - a), (a + b) / 2) for a, b in ends)
    if not (early.seconds > 0 and late.seconds > 0):
        raise Missing(found.experiment, f"seconds too short to measure in what was run of {found.experiment}")
    told = [
        f"{number(one.seconds)} s an iteration from {a} to {b}" for one, (a, b) in zip((early, late), ends, strict=True)
    ]
    return early, late, ", ".join(told)


def _mean(found: Interval | None) -> float:
    return math.nan if found is None else found.mean


def _seconds(found: Found) -> float:
    seconds = _source(found).at(found.arm, "seconds")
    return math.nan if seconds is None else seconds.mean


def _rate(found: Found, compiling: bool = False) -> float:
    """Computes seconds per environment step and seed."""
    source = _source(found)
    steps, compiled = source.at(found.arm, "total_env_steps"), source.at(found.arm, "compile_seconds")
    if steps is None or steps.mean <= 0:
        return math.nan
    extra = (compiled.mean if compiled else math.nan) if compiling else 0.0
    return (_seconds(found) + extra) / steps.mean / source.seeds(found.arm)


def _growth(found: Found, column: str) -> float:
    """Computes the growth of a column from its first to its last number."""
    source = _source(found)
    marks = source.marks(found.arm, column)
    ends = [source.at(found.arm, column, mark) for mark in (marks[0], marks[-1])] if marks else [None, None]
    return math.nan if ends[0] is None or ends[1] is None else ends[1].mean - ends[0].mean


def _source(found: Found) -> Source:
    assert found.source is not None
    return found.source


def _unknown(ratios: dict[str, float]) -> bool:
    return any(math.isnan(ratio) for ratio in ratios.values())
