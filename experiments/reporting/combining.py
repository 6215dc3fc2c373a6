"""Rules that combine other rules."""

from __future__ import annotations

import dataclasses

from experiments.reporting.claims import Judged, Rule, Verdict, join, worst
from experiments.reporting.gathering import Sources
from experiments.reporting.quantities import Missing


@dataclasses.dataclass(frozen=True)
class Either:
    """Judges by a first rule; if that does not hold but a second one does, the claim is held with a condition.

    The second rule can only help: if it does not hold, the verdict is that of the first, if that was measured.
    """

    first: Rule
    otherwise: Rule
    condition: str

    @property
    def words(self) -> str:
        return f"{self.first.words}; with a condition: {self.otherwise.words}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.first.columns, *self.otherwise.columns)

    def judge(self, sources: Sources) -> Judged:
        try:
            one = self.first.judge(sources)
        except Missing:
            one = Judged(Verdict.UNKNOWN, "")
        if one.verdict in (Verdict.HELD, Verdict.CONDITION):
            return one
        try:
            two = self.otherwise.judge(sources)
        except Missing:
            if one.verdict is Verdict.UNKNOWN:
                raise
            return one
        both = one.ours if two.ours in one.ours else two.ours if one.ours in two.ours else join(one.ours, two.ours)
        used = (*one.used, *two.used)
        if two.verdict in (Verdict.HELD, Verdict.CONDITION):
            return Judged(Verdict.CONDITION, both, join(self.condition, two.condition), used)
        if one.verdict is Verdict.UNKNOWN:
            return Judged(two.verdict, both, two.condition, used)
        weaker = join(f"the weaker form is {two.verdict}", two.condition) if two.verdict is not one.verdict else ""
        return Judged(one.verdict, both, join(one.condition, weaker), used)


@dataclasses.dataclass(frozen=True)
class All:
    """Requires every rule; the condition names the ones that do not hold if others do."""

    rules: tuple[Rule, ...]

    @property
    def words(self) -> str:
        return "; and ".join(rule.words for rule in self.rules)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for rule in self.rules for column in rule.columns)

    def judge(self, sources: Sources) -> Judged:
        judged = [rule.judge(sources) for rule in self.rules]
        verdict = worst([one.verdict for one in judged])
        used = tuple(found for one in judged for found in one.used)
        failing = [rule.words for rule, one in zip(self.rules, judged, strict=True) if one.verdict is Verdict.NOT]
        some = f"not this: {'; '.join(failing)}" if failing and len(failing) < len(judged) else ""
        return Judged(
            verdict, join(*(one.ours for one in judged)), join(some, *(one.condition for one in judged)), used
        )
