"""Covering arrays: few rows in which every pair of values of every two factors occurs."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairs_of(row: Mapping[str, Any]) -> set[Pair]:
    """Every two settings of a row, by factor names in sorted order."""
    return set(itertools.combinations(sorted(row.items(), key=lambda item: item[0]), 2))


def cover_pairs(
    factors: Mapping[str, Sequence[Any]], repair: Callable[[Row], Row], rows: int, seed: int = 0, tries: int = 40
) -> list[Row]:
    """Choose `rows` rows greedily, each the one of `tries` random rows that adds the most that was not seen before.

    First that is values, so that few rows contain every value of every factor, and then pairs.

    Args:
      factors: the values of each factor.
      repair: maps a row whose settings do not fit together to the nearest one whose settings do.
      rows: how many rows to return.
      seed: of the random rows.
      tries: random rows per returned row. Half of them contain a pair that no row has yet; a quarter takes values that
        no row has yet, where there are any.

    Returns:
      `rows` dictionaries from factor to value.
    """
    draw = random.Random(seed)
    names, chosen = sorted(factors), []
    order = [
        pair
        for left, right in itertools.combinations(names, 2)
        for pair in itertools.product(*([(name, value) for value in factors[name]] for name in (left, right)))
    ]
    wanted, seen = set(order), set[tuple[str, Any]]()
    for _ in range(rows):
        candidates, missing = [], [pair for pair in order if pair in wanted]
        for number in range(tries):
            row = {name: draw.choice(factors[name]) for name in names}
            unseen = {name: [one for one in factors[name] if (name, one) not in seen] for name in names}
            if number % 4 == 2:
                row |= {name: draw.choice(values) for name, values in unseen.items() if values}
            elif missing and number % 2:
                row |= dict(draw.choice(missing))
            candidates.append(repair(row))
        best = max(candidates, key=lambda row: (len(set(row.items()) - seen), len(pairs_of(row) & wanted)))
        wanted -= pairs_of(best)
        seen |= set(best.items())
        chosen.append(best)
    return chosen
