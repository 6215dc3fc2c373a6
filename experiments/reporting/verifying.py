"""Comparison of published numbers with new measurements, and how much the two may differ.

Both are means with standard errors. They agree if they differ by at most t standard errors of the difference (Welch),
or by at most a floor for numbers that hardly vary. t is chosen such that a correct program with other random numbers
fails in at most one of a hundred verifications, all comparisons together, if means over seeds are about normal. The
seeds are the same, so an unchanged program differs by rounding alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

from experiments.reporting.claims import number
from experiments.reporting.gathering import Source
from experiments.reporting.quantities import Found
from gems_jax.evaluate.statistics import Interval, student_factor
from gems_jax.runner.labels import column_label
from gems_jax.viz.tables import TextTable

WRONG = 0.01  # probability that the verification of a correct program fails
FLOOR, FRACTION = 0.01, 0.02  # differences that are always allowed: absolute, and relative to the published number


class Mean(NamedTuple):
    value: float
    error: float  # standard error
    freedom: float  # its degrees of freedom


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One number, as published and as measured now."""

    what: str
    stated: Mean
    found: Mean
    floor: float = FLOOR

    def allowed(self, comparisons: int) -> float:
        """Computes the allowed difference, given the number of comparisons."""
        variance = self.stated.error**2 + self.found.error**2
        floor = max(self.floor, FRACTION * abs(self.stated.value))
        if not variance > 0:  # no variance, or unknown
            return floor
        parts = [mean.error**4 / mean.freedom for mean in (self.stated, self.found) if mean.freedom > 0]
        freedom = variance**2 / sum(parts) if sum(parts) > 0 else 1e9
        return max(floor, student_factor(freedom, 1 - WRONG / comparisons) * math.sqrt(variance))

    def agrees(self, comparisons: int) -> bool:
        return abs(self.found.value - self.stated.value) <= self.allowed(comparisons)


def compare_arms(stated: Source, found: Source, arms: Sequence[str], columns: Sequence[str]) -> list[Comparison]:
    """Compares columns of arms at the last iteration. Raises ValueError for numbers that are not published."""
    compared = []
    for arm in arms:
        for column in columns:
            before = stated.at(arm, column)
            if before is None:
                raise ValueError(f"docs/results/{stated.name}.json has no {column} of {arm}: publish the results again")
            last = stated.marks(arm, column)[-1]
            now = found.at(arm, column, last)
            if now is None:
                raise ValueError(f"{stated.name}: no {column} of {arm} at iteration {last} was measured now")
            what = f"{stated.name}, {arm}: {column_label(column)} at {last}"
            compared.append(Comparison(what, _mean(before, stated, arm), _mean(now, found, arm)))
    return compared


def compare_rows(
    stated: Source, found: Source, keys: Sequence[str], fields: Sequence[tuple[str, str]], floor: float
) -> list[Comparison]:
    """Compares rows of a study with equal `keys`; `fields` are (field, field with the deviation of one run)."""
    before = {tuple(row[key] for key in keys): row for row in stated.summary["numbers"]}
    compared = []
    for row in found.summary["numbers"]:
        name = tuple(row[key] for key in keys)
        if name not in before:
            raise ValueError(f"docs/results/{stated.name}.json has no row {', '.join(name)}: publish the results again")
        for field, deviation in fields:
            one, other = (
                Mean(float(one[field]), float(row[deviation]) / math.sqrt(one.get("runs") or row["runs"]), math.inf)
                for one in (before[name], row)
            )
            what = f"{stated.name}, {', '.join(name)}: {field.replace('_', ' ')}"
            compared.append(Comparison(what, one, other, floor))
    return compared


def _mean(interval: Interval, source: Source, arm: str) -> Mean:
    return Mean(interval.mean, *Found(arm, interval, source.seeds(arm), source.name, source).standard_error)


def verdict(compared: Sequence[Comparison]) -> tuple[TextTable, list[str]]:
    """Makes a table of all comparisons, differing ones first, and one line for each of these."""
    count = len(compared)
    ordered = sorted(compared, key=lambda one: one.agrees(count))
    body = [
        (
            one.what,
            number(one.stated.value),
            number(one.found.value),
            number(one.allowed(count)),
            "" if one.agrees(count) else "differs",
        )
        for one in ordered
    ]
    lines = [
        f"{one.what}: published {number(one.stated.value)}, measured {number(one.found.value)}, "
        f"allowed difference {number(one.allowed(count))}"
        for one in ordered
        if not one.agrees(count)
    ]
    caption = f"{count} numbers; a correct program fails in at most {WRONG:.0%} of verifications"
    return TextTable(
        ("number", "published", "measured", "may differ by", ""), tuple(body), (len(lines) - 1,), caption
    ), lines
