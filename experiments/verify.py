"""Repeats a cheap part of the experiments and compares it with docs/results: `python -m experiments.verify`.

Takes a few minutes on one core. Prints a table; the exit code is 1 if a number differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.harness.experiment import load_summary, run_experiment
from experiments.harness.spec import Experiment
from experiments.harness.study import Study, run_study
from experiments.reporting.gathering import Source, command_of
from experiments.reporting.stated import read_stated
from experiments.reporting.verifying import Comparison, compare_arms, compare_rows, verdict
from experiments.results import DOCS
from experiments.run import keep_arms, load
from gems_jax.runner.console import Console
from gems_jax.runner.errors import RunError

# (arms, columns) of experiments, run with the published number of seeds
ARMS = {
    "deceptive": (("tuned",), ("nash_conv", "value_sender", "value_receiver")),
    "public_goods": (("dilemma tuned", "control tuned"), ("nash_conv", "coop", "welfare")),
    "kuhn": (("paper",), ("exploitability", "exploitability_average")),
}
# (fields that identify a row, (number, its deviation), allowed difference) of studies at their quick size
ROWS = {
    "oracle": (("bandit", "index"), (("regret_1000", "deviation_1000"), ("regret_2000", "deviation_2000")), 0.5),
}


def verify(name: str, stated: Source, root: Path, console: Console) -> tuple[list[Comparison], tuple[str, ...]]:
    """Repeats an experiment below `root`; returns the comparisons, and the experiment's own checks that fail."""
    spec = load(name)
    if isinstance(spec, Study):
        result = run_study(spec, quick=True, root=root, console=console)
        found = Source(name, load_summary(result.folder), result.folder)
        return compare_rows(stated, found, *ROWS[name]), result.failures
    arms, columns = ARMS[name]
    result = run_experiment(part_of(spec, arms, stated), root=root, console=console)
    found = Source(name, load_summary(result.folder), result.folder)
    return compare_arms(stated, found, arms, columns), result.failures


def part_of(spec: Experiment, arms: Sequence[str], stated: Source) -> Experiment:
    """Reduces a spec to these arms with the published seeds and without pictures."""
    seeds = tuple(range(max(stated.seeds(arm) for arm in arms)))
    return dataclasses.replace(keep_arms(spec, arms), seeds=seeds, pictures=())


def main(arguments: Sequence[str] | None = None, docs: Path = DOCS) -> int:
    known = (*ARMS, *ROWS)
    parser = argparse.ArgumentParser(prog="python -m experiments.verify", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; default: all")
    names = parser.parse_args(arguments).names or known
    console, compared, failures = Console(), [], []
    documents = read_stated(docs / "results")
    try:
        unknown = [name for name in names if name not in known]
        missing = [name for name in names if name not in documents]
        if unknown or missing:
            wanted = f"unknown: {', '.join(unknown)}; known: {', '.join(known)}" if unknown else ""
            run = "; ".join(f"`{command_of(name)} --write-results`" for name in missing)
            raise ValueError(wanted or f"docs/results has no numbers of {', '.join(missing)}: run {run}")
        with tempfile.TemporaryDirectory() as root:
            for name in names:
                found, failed = verify(name, Source(name, documents[name]), Path(root), console)
                compared += found
                failures += failed
    except (RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table, differing = verdict(compared)
    console.table(table.rich("Published and measured"))
    for line in (*differing, *failures):
        print(f"error: {line}", file=sys.stderr)
    print(f"{len(compared)} numbers, {len(differing)} differ; {len(failures)} checks failed")
    return 1 if differing or failures else 0


if __name__ == "__main__":
    sys.exit(main())
