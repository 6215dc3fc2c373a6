"""Names the largest term of the error budget, its cause, and a remedy if one was measured to help (`gems eval --why`).

The budget (`gems_jax.evaluate.error_budget`) splits the gap of the played mixture exactly into four terms. If the meta
regret is the largest, its cause is either the solver of the meta-game or the noise of the estimate:

    reused returns    the solver's regret on its own estimate is known (`meta_regret_estimated`). It is the cause if it
                      is at least half of the meta regret; otherwise the noise is
    other estimators  the noise is the cause if the values' Monte-Carlo error exceeds the meta regret

Remedies are named with values, and only where runs that followed them ended with a smaller gap (docs/methods.md has the
numbers):

    tables without reused returns         --preset auto
    noise of estimator='trajectories'     --mixture-samples, ten times as many
    everything else                       none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gems_jax.config import GemsConfig
from gems_jax.runner.errors import RunError

Rows = Sequence[Mapping[str, np.ndarray]]


class Term(NamedTuple):
    """Column of the error budget, and its name in sentences."""

    column: str
    words: str


TERMS = (
    Term("budget_best_response", "the best response"),
    Term("budget_oracle", "the oracle's choice"),
    Term("budget_newcomer", "the newcomer, which has no mass yet,"),
    Term("budget_meta_regret", "the meta-strategy"),
)
NOISE = Term("monte_carlo_error", "the noise of the values")
LAST = 5  # iterations to average over: a single one is too noisy
MORE = 10  # factor of the samples that was measured against noise
NO_REMEDY = "; no setting was measured to reduce it"


def explain(rows: Rows, config: GemsConfig | None = None) -> str:
    """Names the largest term of the error budget, its cause, and the remedy that was measured to help, if any.

    Args:
      rows: metrics of every seed, [iterations] for each column; the last iterations are averaged.
      config: settings of the run; None for the defaults.

    Returns:
      One sentence.

    Raises:
      RunError: if the metrics contain no error budget.
    """
    _check_budget(rows)
    config = GemsConfig() if config is None else config
    sizes = {term: _mean_recent(rows, term.column) for term in TERMS}
    total, term = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
    size = sizes[term]
    if not total > 0:
        return f"{term.words} leaves nothing: the gap is 0"
    line = f"{term.words} leaves {size:.3g} of the gap of {total:.3g} ({size / total:.0%})"
    if term.column != "budget_meta_regret":
        return line + remedy(config, noisy=False)
    cause, noisy = _meta_cause(rows, size)
    return line + cause + remedy(config, noisy)


def remedy(config: GemsConfig, noisy: bool) -> str:
    """Names the flags, with their values, that were measured to reduce the gap.

    Args:
      config: settings of the run.
      noisy: whether the noise of the values is the cause.

    Returns:
      The end of a sentence: the remedy, or that none is known.
    """
    if config.policy == "tabular" and not config.reuses_returns:
        return ": train with --preset auto, whose smaller gaps at equal steps were measured"
    if noisy and config.estimator == "trajectories":
        samples = MORE * config.mixture_samples
        room = max(samples * config.episodes, config.buffer_episodes)
        larger = f" --buffer-episodes {room}" if room > config.buffer_episodes else ""
        return f": train with --mixture-samples {samples}{larger}"
    return NO_REMEDY


def _meta_cause(rows: Rows, size: float) -> tuple[str, bool]:
    """Finds the cause of a meta regret of this size: its clause, and whether it is the noise of the values."""
    left = _mean_recent_or_none(rows, "meta_regret_estimated")
    if left is not None:
        if left >= size / 2:
            return f", because the solver leaves {left:.3g} on its own estimate", False
        error = _mean_recent_or_none(rows, "value_error")
        claimed = "" if error is None else f" (standard error {error:.3g})"
        return f", because of {NOISE.words}{claimed}; the solver leaves {left:.3g} on its own estimate", True
    error = _mean_recent_or_none(rows, NOISE.column)
    if error is not None and error > size:
        return f", because {NOISE.words} ({error:.3g}) is larger than that", True
    return "", False


def _check_budget(rows: Rows) -> None:
    there = rows and all(np.size(rows[0].get(term.column, ())) for term in TERMS)
    if not there:
        raise RunError("these metrics contain no error budget: only GEMS logs it, on enumerable games with --exact")


def explain_timing(rows: Rows) -> str:
    """Explains in one line why the budget's gap differs from the exploitability of the final policy."""
    count = min(LAST, max(np.size(row[TERMS[0].column]) for row in rows))
    if count == 1:
        return "the gap is measured before the last iteration's training, the value above after it"
    return f"the gap is the mean of the last {count} iterations, each before its training; the value above is final"


def _mean_recent(rows: Rows, column: str) -> float:
    """Averages a column over the last iterations and over seeds."""
    return float(np.mean([np.mean(np.atleast_1d(row[column])[-LAST:]) for row in rows]))


def _mean_recent_or_none(rows: Rows, column: str) -> float | None:
    return _mean_recent(rows, column) if column in rows[0] else None
