"""Reads what is stored of a run as data of a page: rows, mixtures, settings, command and hardware."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gems_jax.runner import checkpoint
from gems_jax.runner.directory import RunDirectory, read_config, read_status
from gems_jax.runner.errors import RunError
from gems_jax.runner.integrity.records import COMMAND
from gems_jax.runner.integrity.schema import read_json
from gems_jax.runner.labels import column_label, describe_direction
from gems_jax.runner.load import load_state
from gems_jax.runner.training.mixtures import Mixtures, read_mixtures
from gems_jax.runner.writers import read_metrics
from gems_jax.types import Game
from gems_jax.viz.figures import BUDGET

MAX_POINTS, LEAST_POINTS = 400, 50  # iterations of a curve
MAX_CELLS = 150_000  # about the number of logged values in a page
MAX_SNAPSHOTS = 120  # iterations of the heat map
MAX_SEEDS = 16
_GAPS = ("exploitability", "exploitability_average")
_RETURNS = ("exploit", "nash_conv", "value_", "return_", "regret_", "budget_", "cce_gap", "monte_carlo", "welfare")
_FRACTIONS = ("score_", "win_", "draw_", "coop", "solved_move_rate", "first_wins", "second_wins", "self_draws")
_UNITS = {"seconds": "s", "memory_mb": "MB", "entropy": "nats", "kl": "nats", "forgetting_kl": "nats", "abr_gap": ""}


def describe_rows(run: RunDirectory, unit: str) -> dict[str, Any]:
    """Collects the logged rows of every seed.

    Args:
      run: folders of the run.
      unit: unit of returns.

    Returns:
      Columns with labels, directions and units, the rows by seed, and the columns of the first chart.
    """
    found: dict[int, dict[str, np.ndarray]] = {}
    for seed, member in list(zip(run.seeds, run.members, strict=True))[:MAX_SEEDS]:
        with contextlib.suppress(RunError):  # the page reports that there are no rows
            rows = read_metrics(member)
            if len(rows.get("iteration", ())):
                found[seed] = rows
    points = int(np.clip(MAX_CELLS // max(sum(map(len, found.values())), 1), LEAST_POINTS, MAX_POINTS))
    seeds = [{"seed": seed, "rows": _thin(rows, points)} for seed, rows in found.items()]
    names = list(dict.fromkeys(name for rows in found.values() for name in rows if not np.isnan(rows[name]).all()))
    columns = {name: _describe_column(name, unit) for name in names}
    budget = [{"column": column, "label": label, "color": color} for column, label, color, _ in BUDGET]
    return {
        "seeds": seeds,
        "left": len(run.seeds) - len(seeds) if seeds else 0,
        "columns": columns,
        "headline": _headline(names),
        "budget": budget if all(one["column"] in names for one in budget) else [],
    }


def _describe_column(name: str, unit: str) -> dict[str, str]:
    return {"label": column_label(name), "direction": describe_direction(name), "unit": _unit_of(name, unit)}


def _unit_of(name: str, unit: str) -> str:
    if name in _UNITS:
        return _UNITS[name]
    if name.startswith(_RETURNS):
        return f"{unit} per game"
    return "fraction of points or games" if name.startswith(_FRACTIONS) else ""


def _headline(names: Sequence[str]) -> dict[str, Any]:
    """Chooses the columns of the first chart, and whether its axis is logarithmic."""
    gaps = _present(_GAPS, names) or _present(("nash_conv",), names)
    if gaps:
        return {"columns": gaps, "log": True}
    return {"columns": (_starting(names, "score_") or _starting(names, "return_", "value_"))[:5], "log": False}


def _present(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    return [name for name in wanted if name in names]


def _starting(names: Sequence[str], *prefixes: str) -> list[str]:
    """Lists the columns that start with a prefix, without their intervals."""
    return [name for name in names if name.startswith(prefixes) and not name.endswith("_interval")]


def _thin(rows: Mapping[str, np.ndarray], points: int) -> dict[str, list[float | None]]:
    """Selects at most `points` iterations, those with the fewest empty cells of each stretch, in 6 digits."""
    table = np.stack(list(rows.values()))
    count = table.shape[1]
    stretches = np.array_split(np.arange(count), min(count, points))
    empty = np.isnan(table).sum(axis=0)
    chosen = [stretch[::-1][np.argmin(empty[stretch][::-1])] for stretch in stretches]
    return {
        name: [_digits(value) for value in table[index, chosen]]
        for index, name in enumerate(rows)
        if not np.isnan(table[index]).all()
    }


def _digits(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def describe_mixture(run: RunDirectory, seed: int, trust: bool = False, game: Game | None = None) -> dict[str, Any]:
    """Collects the mixtures of a seed over iterations: the recorded ones, or those of the stored checkpoints.

    Args:
      run: folders of the run.
      seed: the seed.
      trust, game: as for `gems_jax.load`.

    Returns:
      Iterations, masses by population and iteration, and where they are from.
    """
    found = read_mixtures(run.members[run.seeds.index(seed)])
    source = "recorded while the run was computed, in mixtures.csv"
    if found is None:
        found, source = _stored_mixtures(run, seed, trust, game), "those of the stored checkpoints"
    if found is None:
        return {"iterations": [], "populations": [], "source": ""}
    keep = np.unique(np.linspace(0, len(found.iterations) - 1, MAX_SNAPSHOTS).round().astype(int))
    masses = found.masses[keep]
    populations = []
    for index in range(masses.shape[1]):
        slots = np.flatnonzero(masses[:, index].max(axis=0) > 0)
        rows = np.round(masses[:, index][:, slots], 5).tolist()
        populations.append({"slots": slots.tolist(), "masses": rows})
    return {"iterations": found.iterations[keep].tolist(), "populations": populations, "source": source}


def _stored_mixtures(run: RunDirectory, seed: int, trust: bool, game: Game | None) -> Mixtures | None:
    iterations, masses = [], []
    for step in checkpoint.iterations(run.checkpoints):
        with contextlib.suppress(RunError):
            one = load_state(run.shared, seed, step, trust=trust, game=game)
            iterations.append(step)
            masses.append(np.asarray(one.problem.solver.profile(one.state).sigma))
    return _pad(iterations, masses) if masses else None


def _pad(iterations: Sequence[int], masses: Sequence[np.ndarray]) -> Mixtures:
    """Joins mixtures [P, K] whose number of slots may grow."""
    slots = max(one.shape[1] for one in masses)
    padded = [np.pad(one, ((0, 0), (0, slots - one.shape[1]))) for one in masses]
    return Mixtures(np.asarray(iterations), np.stack(padded))


def describe_run(run: RunDirectory) -> dict[str, Any]:
    """Collects status, settings, command, hardware and versions of a run."""
    record, status = read_config(run.shared), read_status(run.shared)
    return {
        "game": record["game"],
        "method": record["method"],
        "state": status["state"],
        "reason": status["reason"],
        "iteration": status["iteration"],
        "planned": status["iterations"] or record["iterations"],
        "facts": _facts(run, record),
        "settings": _flatten(record["config"]),
        "options": _flatten(record.get("options") or {}),
    }


def _facts(run: RunDirectory, record: Mapping[str, Any]) -> list[list[str]]:
    """Lists command, hardware and versions, as far as they are known."""
    device, versions = record.get("device") or {}, record.get("versions") or {}
    facts = {
        "folder": run.shared.name,
        "command": _command(run),
        "seeds": ", ".join(map(str, run.seeds)),
        "created": record.get("created"),
        "commit": _commit(record),
        "device": " ".join(str(device[name]) for name in ("count", "kind") if name in device),
        "CPUs": record.get("cpus"),
        "platform": record.get("platform"),
        "Python": record.get("python"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    return [[name, str(value)] for name, value in facts.items() if value not in (None, "")]


def _commit(record: Mapping[str, Any]) -> str:
    commit = str(record.get("commit") or "")
    return commit + " with uncommitted changes" * bool(commit and record.get("dirty"))


def _command(run: RunDirectory) -> str:
    for folder in run.folders:
        with contextlib.suppress(RunError, FileNotFoundError):
            return shlex.join(["gems", *read_json(folder / "command.json", COMMAND)["command"]])
    return ""


def _flatten(config: Any, prefix: str = "") -> list[list[str]]:
    """Lists nested settings by dotted names."""
    if not isinstance(config, Mapping):
        return [[prefix.removesuffix("."), _as_text(config)]]
    return [row for name, value in config.items() for row in _flatten(value, f"{prefix}{name}.")]


def _as_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def quietly(make: Callable[[], Any], otherwise: Callable[[str], Any]) -> Any:
    """Calls a function whose RunError or ValueError becomes a sentence of the page."""
    try:
        return make()
    except (RunError, ValueError) as error:
        return otherwise(str(error))
