"""Runs one experiment, prints its table, draws its figures: `python -m experiments.run <experiment> [--quick]`.

QUICK=1 in the environment is the same as --quick, FULL=1 as --full.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import os
import pkgutil
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import ablations, specs, studies
from experiments.harness.experiment import run_experiment
from experiments.harness.other_game import on_game
from experiments.harness.spec import Check, Experiment, changed
from experiments.harness.study import Study, run_study
from gems_jax.runner.errors import RunError
from gems_jax.types import did_you_mean

SHARED = ("equal_steps", "particles", "reuse_arms")  # modules of these packages that are not experiments


@functools.cache
def modules() -> dict[str, str]:
    """Maps the name of every experiment to the module that holds it."""
    packages = (specs, ablations, studies)
    found = {
        m.name: f"{package.__name__}.{m.name}" for package in packages for m in pkgutil.iter_modules(package.__path__)
    }
    return {name: found[name] for name in sorted(found) if name not in SHARED}


def known() -> list[str]:
    """Lists the names of all experiments."""
    return list(modules())


def load(name: str) -> Experiment | Study:
    if name not in known():
        raise ValueError(f"unknown experiment {name!r}; {did_you_mean(name, known())}known: {', '.join(known())}")
    return importlib.import_module(modules()[name]).EXPERIMENT


def keep_arms(spec: Experiment, labels: Sequence[str]) -> Experiment:
    unknown = [label for label in labels if label not in [arm.label for arm in spec.arms]]
    if unknown:
        there = ", ".join(arm.label for arm in spec.arms)
        raise ValueError(f"{spec.name} has no arm {', '.join(unknown)}; known: {there}")
    if not labels:
        return spec
    quick = dict(spec.quick)
    if "arms" in quick:
        quick["arms"] = tuple(arm for arm in quick["arms"] if arm.label in labels)
    if "checks" in quick:
        quick["checks"] = checks_of(quick["checks"], labels)
    groups = [(title, tuple(arm for arm in members if arm in labels)) for title, members in spec.groups]
    numbers = dict(zip((arm.label for arm in spec.arms), spec.against[1], strict=True)) if spec.against else {}
    return dataclasses.replace(
        spec,
        against=spec.against
        and (spec.against[0], tuple(numbers[arm.label] for arm in spec.arms if arm.label in labels)),
        groups=tuple((title, members) for title, members in groups if members),
        arms=tuple(arm for arm in spec.arms if arm.label in labels),
        checks=checks_of(spec.checks, labels),
        quick=quick,
    )


def checks_of(checks: Sequence[Check], labels: Sequence[str]) -> tuple[Check, ...]:
    """Restricts checks to these arms."""
    kept = [dataclasses.replace(c, arms=tuple(arm for arm in c.arms if arm in labels)) for c in checks]
    return tuple(new for new, old in zip(kept, checks, strict=True) if new.arms or not old.arms)


def sized(spec: Experiment, iterations: int | None, seeds: Sequence[int] | None) -> Experiment:
    """Returns the spec with other iterations or seeds, which also override those of its quick and full versions."""
    asked = {"iterations": iterations, "seeds": seeds and tuple(seeds)}
    asked = {name: value for name, value in asked.items() if value is not None}
    rest = {name: value for name, value in spec.quick.items() if name not in asked}
    return changed(spec, {**asked, "quick": rest}) if asked else spec


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.run", description=__doc__.split("\n")[0])
    parser.add_argument("experiment", help=f"one of: {', '.join(known())}")
    parser.add_argument("--quick", action="store_true", help="run the short version (or QUICK=1)")
    parser.add_argument(
        "--full", action="store_true", help="run all arms and seeds, if the default has fewer (or FULL=1)"
    )
    parser.add_argument("--arms", nargs="+", default=[], metavar="ARM", help="run only these arms")
    parser.add_argument(
        "--game", default="", metavar="NAME", help="another implementation of the game, such as pgx:connect_four"
    )
    parser.add_argument("--iterations", type=int, help="number of iterations (default: that of the spec)")
    parser.add_argument("--seeds", nargs="+", type=int, help="seeds (default: those of the spec)")
    parser.add_argument(
        "--run-dir", type=Path, help="folder to write to, or that of an interrupted experiment to resume"
    )
    parser.add_argument("--write-results", action="store_true", help="publish table and figures in docs/results")
    options = parser.parse_args(arguments)
    for name in ("quick", "full"):
        asked = os.environ.get(name.upper(), "").lower() not in ("", "0", "false", "no")
        setattr(options, name, getattr(options, name) or asked)
    return options


def refresh_report(folder: Path, root: Path = Path("runs")) -> None:
    """Adds a finished experiment to the report. A failure is printed and does not affect the experiment."""
    if root.resolve() not in folder.resolve().parents:
        return  # not among those that the page gathers
    try:
        from experiments.report import write_report

        print(f"all results on one page: {write_report(root)}")
    except Exception as error:
        print(f"the report could not be written: {type(error).__name__}: {error}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        spec = load(options.experiment)
        if isinstance(spec, Experiment):
            spec = on_game(spec, options.game) if options.game else spec
            spec = keep_arms(changed(spec, spec.full) if options.full else spec, options.arms)
            spec = sized(spec, options.iterations, options.seeds)
        elif options.arms or options.iterations or options.seeds or options.game:
            raise ValueError(f"{spec.name} is a study: --arms, --game, --iterations and --seeds do not apply to it")
        flags = ["--quick"] * options.quick + ["--full"] * options.full
        flags += ["--game", options.game] if options.game else []
        flags += ["--iterations", str(options.iterations)] if options.iterations else []
        flags += ["--seeds", *map(str, options.seeds)] if options.seeds else []
        flags += ["--arms", *options.arms] if options.arms else []
        command = shlex.join(["python", "-m", "experiments.run", options.experiment, *flags])
        common = {"quick": options.quick, "run_dir": options.run_dir, "command": command}
        result = run_study(spec, **common) if isinstance(spec, Study) else run_experiment(spec, **common)
        if result.finished and options.write_results:
            from experiments.report import write_ledger
            from experiments.results import metrics_of, write_results

            print(f"written: {write_results(result.folder, notes=spec.notes, metrics=metrics_of(spec))}")
            write_ledger()  # the claims that the new numbers decide
        if result.finished:
            refresh_report(result.folder)
    except (RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    except KeyboardInterrupt:
        print("stopped: finished arms and the last checkpoint are stored; resume with --run-dir", file=sys.stderr)
        return 130
    for failure in result.failures:
        print(f"error: {failure}", file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
