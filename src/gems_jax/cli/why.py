"""`gems eval --why`: which term of the error budget is the largest, and the flag that makes it smaller.

The budget (`gems_jax.evaluate.error_budget`) splits the gap of the played mixture exactly into four terms. The
Monte-Carlo error is not one of them, but it is what a meta-strategy cannot see through: where the largest term is the
meta regret and the values are noisier than it is large, the noise is named instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gems_jax.runner.errors import RunError


class Term(NamedTuple):
    column: str
    words: str
    remedy: str


TERMS = (
    Term("budget_best_response", "the best response", "raise --abr-steps, --abr-episodes or --learning-rate"),
    Term("budget_oracle", "the oracle's choice", "raise --oracle-opponents or --oracle-episodes"),
    Term("budget_newcomer", "the newcomer, which has no mass yet,", "raise --iterations"),
    Term("budget_meta_regret", "the meta-strategy", "raise --meta-steps or --eta"),
)
NOISE = Term("monte_carlo_error", "the noise of the values", "raise --num-opponents, --episodes or --meta-steps")
LAST = 5  # iterations that are averaged: one alone is mostly luck


def explain(rows: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Names the largest term in the last rows [iterations] of every seed's metrics. RunError if they hold no budget."""
    _check_budget(rows)
    sizes = {term: _recent(rows, term.column) for term in TERMS}
    total, term = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
    size = sizes[term]
    if not total > 0:
        return f"{term.words} leaves nothing: the gap is 0"
    line = f"{term.words} leaves {size:.3g} of the gap of {total:.3g} ({size / total:.0%})"
    noise = _recent(rows, NOISE.column) if NOISE.column in rows[0] else 0.0
    if term.column == "budget_meta_regret" and noise > size:
        return f"{line}, because {NOISE.words} ({noise:.3g}) is larger than that: {NOISE.remedy}"
    return f"{line}: {term.remedy}"


def _check_budget(rows: Sequence[Mapping[str, np.ndarray]]) -> None:
    there = rows and all(np.size(rows[0].get(term.column, ())) for term in TERMS)
    if not there:
        raise RunError("these metrics hold no error budget: gems measures it, on games that can be walked (--exact)")


def when(rows: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Why the budget's gap is not the exploitability of the policy that the run left, in one line."""
    count = min(LAST, max(np.size(row[TERMS[0].column]) for row in rows))
    if count == 1:
        return "the gap is the last iteration's before its training, the figure above is after it"
    return f"the gap is the mean of the last {count} iterations', each before its training; the figure above is later"


def _recent(rows: Sequence[Mapping[str, np.ndarray]], column: str) -> float:
    """Mean over the last iterations and over seeds."""
    return float(np.mean([np.mean(np.atleast_1d(row[column])[-LAST:]) for row in rows]))
