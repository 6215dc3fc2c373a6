"""Invented numbers for claims: sources that have every number that a rule asks for, drawn around its bounds.

The arms are those of the experiments' specs, at the iterations and with at least the seeds that these state.
"""

import itertools
import math
import random
import string
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import lru_cache

from experiments import run as entry
from experiments.harness.spec import Experiment, changed
from experiments.harness.study import Study
from experiments.reporting.claims import Claim, Verdict, judge
from experiments.reporting.combining import All, Either
from experiments.reporting.costs import Faster, Flat, Power, Quickens, Smaller
from experiments.reporting.gathering import Size, Source, Sources
from experiments.reporting.quantities import Column, Figure, Picture, Row
from experiments.reporting.rules import Bound, Compare, Same
from experiments.reporting.theory import Computed
from experiments.sizes import size_of

SEEDS = 5
NEVER_NEGATIVE, SHARE, SILHOUETTE = (0.0, math.inf), (0.0, 1.0), (-1.0, 1.0)
# What numbers can be at all: a rule that asks for no less than that cannot fail, and no draw will say otherwise.
LIMITS = {
    "value_sender": NEVER_NEGATIVE, "value_receiver": (-math.inf, 0.8), "exploitability": NEVER_NEGATIVE,
    "nash_conv": NEVER_NEGATIVE, "cce_gap": NEVER_NEGATIVE, "budget_oracle": NEVER_NEGATIVE,
    "budget_violation": NEVER_NEGATIVE, "forgetting_kl": NEVER_NEGATIVE, "active_anchors": NEVER_NEGATIVE,
    "captures": NEVER_NEGATIVE, "collisions": NEVER_NEGATIVE, "pursuer_spread": NEVER_NEGATIVE,
    "encirclement": (120.0, 360.0), "coop": SHARE, "covered": SHARE, "distinct": SHARE, "decisive": SHARE,
    "centre": SHARE, "first_wins": SHARE, "second_wins": SHARE, "win_tactician": SHARE, "share_last_50": SHARE,
    ".actions_players": SILHOUETTE, ".codes_players": SILHOUETTE, ".actions_two": SILHOUETTE,
    ".actions_one": SILHOUETTE, ".actions_dimension": NEVER_NEGATIVE, ".codes_dimension": NEVER_NEGATIVE,
    ".actions_dimension_within": NEVER_NEGATIVE, "error": NEVER_NEGATIVE, "average_1000": NEVER_NEGATIVE,
    "last_1000": NEVER_NEGATIVE,
}  # fmt: skip
PARTS = ("of", "others", "other", "by", "named", "first", "otherwise")
CONSTANTS = ("at_most", "at_least", "slack", "within")


def with_all_arms(name: str) -> Experiment | Study:
    """An experiment with the arms that `--full` adds, or a study."""
    spec = entry.load(name)
    if not isinstance(spec, Experiment):
        return spec
    arms = {arm.label: arm for arm in (*spec.full.get("arms", ()), *spec.arms)}
    return changed(spec, {"arms": tuple(arms.values())})


@lru_cache
def full_size(name: str) -> Size:
    return size_of(with_all_arms(name))


def nodes(rule):
    """A rule, the rules that it is made of, and their quantities."""
    inner = [*(getattr(rule, name, None) for name in PARTS), *getattr(rule, "rules", ())]
    return [rule, *(node for part in inner if part is not None for node in nodes(part))]


def possible(rule) -> set[Verdict]:
    """All verdicts that the rule can come to, at full size and with every number measured."""
    if isinstance(rule, Either):
        first, second = possible(rule.first), possible(rule.otherwise)
        return first | ({Verdict.CONDITION} if second & {Verdict.HELD, Verdict.CONDITION} else set())
    if isinstance(rule, All):
        return set().union(*(possible(part) for part in rule.rules))
    if isinstance(rule, Computed):
        return {rule.judge(Sources({}, {})).verdict}
    sure = {Verdict.HELD, Verdict.NOT}
    if isinstance(rule, Faster):
        return sure | {Verdict.CONDITION, Verdict.UNDECIDED}
    if isinstance(rule, (Smaller, Flat, Quickens)) or (isinstance(rule, Power) and rule.at_least > 0):
        return sure | {Verdict.CONDITION}
    counted = isinstance(rule, (Power, Same)) or (isinstance(rule, (Bound, Compare)) and rule.exact)
    rounds = all(not row.error and not row.deviation for row in nodes(rule)[1:]) if _of_rows(rule) else False
    return sure if counted or rounds else sure | {Verdict.UNDECIDED}


def _of_rows(rule) -> bool:
    return len(nodes(rule)) > 1 and all(isinstance(node, Row) for node in nodes(rule)[1:])


class Invention:
    """One draw of everything that a rule reads."""

    def __init__(self, rule, draw: random.Random) -> None:
        self.draw, self.cells, self.rows = draw, {}, defaultdict(dict)
        self.figures, self.pictures = defaultdict(list), defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
        self.names: set[str] = set()
        constants = [abs(getattr(node, name, 0.0)) for node in nodes(rule) for name in CONSTANTS]
        levels = {0.5, 0.501, 2.0} | {c * by for c in constants if 0 < c < 1e9 for by in (0.5, 0.99, 1.0, 1.01, 2.0)}
        self.levels = sorted(levels | {-level for level in levels if min(_signed(rule), default=0) < 0})
        for node in nodes(rule):
            make = getattr(self, f"_{type(node).__name__.lower()}", None)
            if make is not None:
                make(node)

    def sources(self, command: str = "") -> Sources:
        made = {}
        for name in self.names:
            spec = with_all_arms(name)
            arms = [arm.label for arm in spec.arms] if isinstance(spec, Experiment) else []
            full = full_size(name) if isinstance(spec, Experiment) else None
            numbers = [self._number(cell, value) for cell, value in self.cells.items() if cell[0] == name]
            numbers += [self._number((name, arm, "there", full.iterations[arm]), (1.0, 0.0)) for arm in arms]
            numbers += [{**dict(where), **fields} for (owner, where), fields in self.rows.items() if owner == name]
            pictures = {kind: {"numbers": told} for kind, told in self.pictures[name].items()}
            record = {"numbers": numbers, "arms": {arm: {} for arm in arms}, "command": command, "pictures": pictures}
            made[name] = Source(name, record, None, full)
        return Sources(
            made, {name: {"figures": told, "machine": {"devices": "none"}} for name, told in self.figures.items()}
        )

    @staticmethod
    def _number(cell, value) -> dict:
        (_, arm, column, iteration), (mean, half) = cell, value
        ends = {"mean": mean, "low": mean - half, "high": mean + half}
        return {"arm": arm, "column": column, "iteration": iteration, **ends, "seeds": SEEDS}

    def _value(self, what: str) -> tuple[float, float]:
        """A mean that there can be, and half of its interval: next to nothing, or more than everything."""
        low, high = LIMITS.get(what, (-math.inf, math.inf))
        inside = min(max(self.draw.choice(self.levels), low + 1e-5), high - 1e-5)
        return inside, self.draw.choice((1e-6, 1e-6, 1e-6, 4 * max(map(abs, self.levels))))

    def _arms(self, experiment: str, patterns) -> list[tuple[str, int]]:
        """Those that match, with the iterations that they run for."""
        self.names.add(experiment)
        wanted = (patterns,) if isinstance(patterns, str) else patterns
        full = full_size(experiment)
        return [(a, n) for a, n in full.iterations.items() if any(fnmatchcase(a, pattern) for pattern in wanted)]

    def _column(self, node: Column) -> None:
        for column in node.columns:
            value = self._value(column)
            for arm, last in self._arms(node.experiment, node.arm):
                self.cells[node.experiment, arm, column, node.at or last] = value

    def _row(self, node: Row) -> None:
        self.names.add(node.experiment)
        mean, half = self._value(node.field)
        labels = [field for _, field, _, _ in string.Formatter().parse(node.label) if field]
        options = [wanted if isinstance(wanted, tuple) else (wanted,) for wanted in node.where.values()]
        for picked in itertools.product(*options):
            where = dict(zip(node.where, picked, strict=True))
            row = self.rows[node.experiment, tuple(sorted(where.items()))]
            row.update({label: where.get(label, "any") for label in labels})
            row.update({node.field: mean, "runs": 4})
            row.update({name: half * by for name, by in ((node.error, 0.5), (node.deviation, 1.0)) if name})

    def _figure(self, node: Figure) -> None:
        mean = self.draw.choice(self.levels)
        half = mean * self.draw.choice((1e-6, 0.9))
        ends = {"low": mean - half, "high": mean + half}
        self.figures[node.benchmark].append({"name": node.figure, "value": mean, **ends})

    def _picture(self, node: Picture) -> None:
        self.names.add(node.experiment)
        mean, half = self._value(node.words[-1])
        arm, whose = node.words[0].split(".", 1)
        for seed in range(3):
            group = self.pictures[node.experiment][node.picture][arm]
            name = f"seed {seed}" if whose == "seed" else f"{whose} seed {seed}"
            group.setdefault(name, {})[node.words[-1].removeprefix(".")] = mean + (seed - 1) * half

    def _faster(self, node: Faster) -> None:
        compiling = self.draw.choice((0.0, 1e6))
        for patterns, seconds in ((node.slow, self._ratio(node.at_least)), (node.fast, 1.0)):
            for arm, last in self._arms(node.experiment, patterns):
                told = {"seconds": seconds, "total_env_steps": 1000.0, "compile_seconds": compiling}
                self.cells |= {(node.experiment, arm, column, last): (value, 0.0) for column, value in told.items()}

    def _smaller(self, node: Smaller) -> None:
        for arm, size in ((node.small, 100.0), (node.large, 100.0 * self._ratio(node.at_least))):
            self._carries(node.experiment, arm, (size, size), (1000.0, 1000.0 + self.draw.choice((0.0, 10.0, 20.0))))

    def _flat(self, node: Flat) -> None:
        grown = 1000.0 * (1 + node.within * self.draw.choice((0.5, 2.0)))
        self._carries(node.experiment, node.arm, (100.0, self.draw.choice((100.0, 120.0))), (1000.0, grown))

    def _carries(self, experiment: str, pattern: str, carried, memory) -> None:
        for arm, last in self._arms(experiment, pattern):
            for mark, bytes_, resident in zip((1, last), carried, memory, strict=True):
                self.cells[experiment, arm, "parameter_bytes", mark] = bytes_, 0.0
                self.cells[experiment, arm, "memory_mb", mark] = resident, 0.0

    def _power(self, node: Power) -> None:
        self._seconds(node, self.draw.choice((1.0, 1.4, 2.0)))

    def _quickens(self, node: Quickens) -> None:
        self._seconds(node, self.draw.choice((0.1, 0.9, 1.0)))

    def _seconds(self, node, power: float) -> None:
        for arm, last in self._arms(node.experiment, node.arm):
            for mark in (1, last // 4, last // 2, last):
                self.cells[node.experiment, arm, "seconds", mark] = mark**power, 0.0

    def _ratio(self, bound: float) -> float:
        return bound * self.draw.choice((0.5, 1.0, 2.0))


def seen_verdicts(claim: Claim, draws: int) -> dict[Verdict, Invention]:
    """Draw until every verdict that the rule can come to was seen, or so often: each with what led to it first."""
    draw, seen = random.Random(claim.key), {}
    for _ in range(draws):
        made = Invention(claim.rule, draw)
        seen.setdefault(judge(claim, made.sources()).verdict, made)
        if set(seen) >= possible(claim.rule):
            break
    return seen


def _signed(rule) -> list[float]:
    return [getattr(node, name, 0.0) for node in nodes(rule) for name in ("at_most", "at_least") if _finite(node, name)]


def _finite(node, name: str) -> bool:
    return abs(getattr(node, name, 0.0)) < 1e9
