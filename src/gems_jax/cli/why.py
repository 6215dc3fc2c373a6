"""`gems eval --why`: which term of the error budget is the largest, and the flags that make it smaller.

The budget (`gems_jax.evaluate.error_budget`) splits the gap of the played mixture exactly into four terms. Where the
meta regret is the largest, its cause is named, too: the solver of the meta-game, or the noise of the estimate.

    reused returns    the solver's regret on its own estimate is known (`meta_regret_estimated`). It is the cause where
                      it is at least half of the meta regret; otherwise the noise is
    other estimators  the noise is the cause where the values' Monte-Carlo error is larger than the meta regret

Only flags that matter for the run's settings are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gems_jax.config import GemsConfig
from gems_jax.runner.errors import RunError

Rows = Sequence[Mapping[str, np.ndarray]]


class Term(NamedTuple):
    """A column of the error budget, and its name in sentences."""

    column: str
    words: str


TERMS = (
    Term("budget_best_response", "the best response"),
    Term("budget_oracle", "the oracle's choice"),
    Term("budget_newcomer", "the newcomer, which has no mass yet,"),
    Term("budget_meta_regret", "the meta-strategy"),
)
NOISE = Term("monte_carlo_error", "the noise of the values")
LAST = 5  # iterations that are averaged: one alone is mostly luck


def explain(rows: Rows, config: GemsConfig | None = None) -> str:
    """Names the largest term of the error budget, its cause, and what makes it smaller.

    Args:
      rows: metrics of every seed, [iterations] for each column; the last ones count.
      config: settings of the run; None for the defaults.

    Returns:
      One sentence.

    Raises:
      RunError: if the metrics hold no error budget.
    """
    _check_budget(rows)
    config = GemsConfig() if config is None else config
    sizes = {term: _recent(rows, term.column) for term in TERMS}
    total, term = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
    size = sizes[term]
    if not total > 0:
        return f"{term.words} leaves nothing: the gap is 0"
    line = f"{term.words} leaves {size:.3g} of the gap of {total:.3g} ({size / total:.0%})"
    if term.column == "budget_meta_regret":
        return line + _meta_cause(rows, size, config)
    return f"{line}: raise {remedies(config)[term.column]}"


def remedies(config: GemsConfig) -> dict[str, str]:
    """Lists the flags that make each term and the noise smaller with these settings, by column."""
    noise = {
        "per_anchor": "--num-opponents, --episodes or --meta-steps",
        "pairs": "--mixture-samples or --budget",
        "trajectories": "--mixture-samples, --buffer-episodes or --budget",
    }
    trained = "--abr-steps, --abr-episodes or --learning-rate"
    return {
        "budget_best_response": "--replay-steps or --mixture-samples" if config.replay_steps else trained,
        "budget_oracle": "--oracle-opponents or --oracle-episodes",
        "budget_newcomer": "--iterations",
        "budget_meta_regret": "--meta-steps" if config.meta_rule == "rm_plus" else "--meta-steps or --eta",
        NOISE.column: noise.get(config.estimator, "--mixture-samples, --episodes or --meta-steps"),
    }


def _meta_cause(rows: Rows, size: float, config: GemsConfig) -> str:
    """The end of the sentence about a meta regret of this size: its cause and the flags."""
    flags = remedies(config)
    solver, noise = f"raise {flags['budget_meta_regret']}", f"raise {flags[NOISE.column]}"
    left = _recent_or_none(rows, "meta_regret_estimated")
    if left is not None:
        if left >= size / 2:
            return f", because the solver leaves {left:.3g} on its own estimate: {solver}"
        error = _recent_or_none(rows, "value_error")
        claimed = "" if error is None else f" (standard error {error:.3g})"
        return f", because of {NOISE.words}{claimed}; the solver leaves {left:.3g} on its own estimate: {noise}"
    error = _recent_or_none(rows, NOISE.column)
    if error is not None and error > size:
        return f", because {NOISE.words} ({error:.3g}) is larger than that: {noise}"
    return f": {solver}"


def _check_budget(rows: Rows) -> None:
    there = rows and all(np.size(rows[0].get(term.column, ())) for term in TERMS)
    if not there:
        raise RunError("these metrics hold no error budget: gems measures it, on games that can be walked (--exact)")


def when(rows: Rows) -> str:
    """Why the budget's gap is not the exploitability of the policy that the run left, in one line."""
    count = min(LAST, max(np.size(row[TERMS[0].column]) for row in rows))
    if count == 1:
        return "the gap is the last iteration's before its training, the figure above is after it"
    return f"the gap is the mean of the last {count} iterations', each before its training; the figure above is later"


def _recent(rows: Rows, column: str) -> float:
    """Mean over the last iterations and over seeds."""
    return float(np.mean([np.mean(np.atleast_1d(row[column])[-LAST:]) for row in rows]))


def _recent_or_none(rows: Rows, column: str) -> float | None:
    return _recent(rows, column) if column in rows[0] else None
