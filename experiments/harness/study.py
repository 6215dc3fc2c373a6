"""Studies: measurements by a function of their own, written to a folder like those of an experiment.

    runs/<name>/<time>/figures/*.png, summary.csv, summary.json

The same command runs a `Study` and an `Experiment`, and both are published in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.harness.experiment import SCHEMA, ExperimentResult
from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.runner import machine
from gems_jax.runner.console import Console
from gems_jax.runner.directory import claim_folder
from gems_jax.runner.errors import RunExistsError, report_write_errors
from gems_jax.runner.files import resolve, write_csv, write_json
from gems_jax.viz.plotting import save_figure
from gems_jax.viz.tables import TextTable


class Findings(NamedTuple):
    """Results of a study."""

    table: TextTable
    figures: Mapping[str, Any]  # by the name of their file, without its ending
    numbers: Sequence[Mapping[str, Any]]  # rows of summary.csv
    checks: Sequence[tuple[str, bool]] = ()  # a sentence, and whether it holds


@dataclasses.dataclass(frozen=True)
class Study:
    """Specification of a study; `measure(quick)` returns its `Findings`."""

    name: str
    title: str
    measure: Callable[[bool], Findings]
    convention: str = ""
    notes: tuple[str, ...] = ()


def run_study(
    study: Study,
    *,
    quick: bool = False,
    run_dir: Path | str | None = None,
    root: Path | str = "runs",
    console: Console | None = None,
    command: str = "",
) -> ExperimentResult:
    """Measures, prints and writes the results. Raises RunExistsError for an existing folder."""
    console = console or Console()
    folder = Path(run_dir) if run_dir is not None else claim_folder(Path(root) / study.name)
    if folder.exists() and any(folder.iterdir()):
        raise RunExistsError(f"{folder} is not empty: choose another folder; a study starts over")
    console.say(f"{study.title}. Everything goes to {folder}")
    enable_compilation_cache()
    found = study.measure(quick)
    with report_write_errors(folder):
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = [save_figure(figure, folder / "figures" / f"{name}.png") for name, figure in found.figures.items()]
    write_csv(folder / "summary.csv", found.numbers)
    told = [f"check {'holds' if holds else 'FAILED'}: {text}" for text, holds in found.checks]
    console.table(found.table.rich(study.title))
    for text in (*told, *(f"written: {path}" for path in (*drawn, folder / "summary.csv", folder / "summary.json"))):
        console.say(text)
    record = {
        "schema": SCHEMA,
        "name": study.name,
        "title": study.title,
        "convention": study.convention,
        "command": command,
        **machine.describe_circumstances(),
        "table": dataclasses.asdict(found.table),
        "checks": told,
        "figures": [str(path.relative_to(folder)) for path in drawn],
        "numbers": list(found.numbers),
        "arms": {},
    }
    write_json(folder / "summary.json", resolve({**record, "finished": record["created"]}))
    failures = tuple(line for line, (_, holds) in zip(told, found.checks, strict=True) if not holds)
    return ExperimentResult(folder, (), failures, True, 1 if failures else 0)
