"""Descriptions of a finished experiment for its page in docs/results and for the report, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.reporting.gathering import Source
from experiments.reporting.quantities import CARRIED
from gems_jax.runner.console import format_number
from gems_jax.runner.files import resolve
from gems_jax.runner.labels import column_label
from gems_jax.viz.tables import TextTable

# Columns that explain an arm's result, as far as they were logged.
REASONS = (
    "budget_best_response",
    "budget_oracle",
    "budget_newcomer",
    "budget_meta_regret",
    "budget_total",
    "monte_carlo_error",
    "abr_gap",
    "forgetting_kl",
    "forgetting_value",
    "effective_policies",
    "active_anchors",
)
EXPLAINED = "`src/gems_jax/evaluate/monitor.py` explains the columns."


def reasons(summary: Mapping[str, Any]) -> TextTable | None:
    """Tabulates the diagnostics of `evaluate/monitor.py`: means over seeds at the last iteration, or None."""
    if not summary["arms"]:  # a study
        return None
    last = max(row["iteration"] for row in summary["numbers"])
    means = {(row["column"], row["arm"]): row["mean"] for row in summary["numbers"] if row["iteration"] == last}
    arms = [arm for arm in summary["arms"] if any((column, arm) in means for column in REASONS[:-1])]
    shown = [column for column in REASONS if any((column, arm) in means for arm in arms)]
    if not shown:
        return None
    body = [
        (column_label(column), *(f"{means[column, arm]:.4g}" if (column, arm) in means else "" for arm in arms))
        for column in shown
    ]
    return TextTable((f"diagnostics: mean over seeds at iteration {last}", *arms), tuple(body), (), "")


def circumstances(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lists (name, text) of command, commit, date, hardware and versions."""
    changed = ", with uncommitted changes" if summary["dirty"] else ""
    device = summary["device"]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return [
        ("Command", f"`{summary['command'] or 'run_experiment from Python'}`"),
        ("Commit", f"{summary['commit'] or 'unknown'}{changed}"),
        ("Date", summary["finished"]),
        (
            "Hardware",
            f"{summary['processor']}, {summary['cpus']} cores; JAX on {device['count']} x {device['kind']}",
        ),
        ("Versions", f"Python {summary['python']}, {versions}"),
    ]


def costs(source: Source) -> TextTable | None:
    """Tabulates the costs of every arm."""
    if not source.arms:
        return None
    header = (
        "arm", "iterations", "seeds", "episodes per seed", "env steps per seed", "seconds, all seeds",
        "compile seconds", "carried, kB", "resident, MB",
    )  # fmt: skip
    body = []
    for arm in source.arms:
        cells = [arm, str(source.last(arm)), str(source.seeds(arm))]
        for column in ("total_episodes", "total_env_steps"):
            found = source.at(arm, column)
            cells.append(format_number(found.mean) if found else "")
        for column in ("seconds", "compile_seconds"):
            found = source.at(arm, column)
            cells.append(f"{found.mean:.1f}" if found else "")
        held = [found.mean for column in CARRIED if (found := source.at(arm, column))]
        cells.append(f"{sum(held) / 1e3:.1f}" if held else "")
        resident = source.at(arm, "memory_mb")
        cells.append(f"{resident.mean:.0f}" if resident else "")
        body.append(tuple(cells))
    return TextTable(header, tuple(body), (), "Resident memory is that of the process, including earlier arms.")


def settings(arm: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lists (dotted name, value) of all settings of an arm."""
    return [(name.removeprefix("config."), str(value)) for name, value in _flat(resolve(dict(arm)))]


def _flat(record: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(record, Mapping) and record:
        return [pair for name, value in record.items() for pair in _flat(value, f"{prefix}.{name}" if prefix else name)]
    return [(prefix, record)]
