"""Compiles the programs of a run ahead: `gems warm GAME`, with the flags of `gems train`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gems_jax.cli.commands.train import Train, choose_run, fit_run
from gems_jax.cli.parsing import UsageError, parse
from gems_jax.cli.words import asks_for_help
from gems_jax.runner.console import share_console


@dataclasses.dataclass(frozen=True)
class Warm(Train):
    """Compile the programs of a run and store them, so that `gems train` with the same flags starts at once. Takes
    every flag of `gems train`, those of the method too, and writes no run."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems warm` and returns its exit code."""
    if asks_for_help(argv):
        parse(Warm, ["--help"], prog="gems warm")  # prints, and exits
    run, game, config, _ = choose_run(argv)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.accelerator.program_files import list_programs
    from gems_jax.runner.training.train import plan_run, prepare

    folder = enable_compilation_cache()
    problem, options = fit_run(run, game, config)
    if not problem.solver.jittable:
        raise UsageError(f"nothing to compile ahead: {run.method} on {run.game} compiles inside its steps")
    console = share_console(run.quiet)
    before = list_programs()
    plan = plan_run(problem, tuple(range(run.seed, run.seed + run.seeds)), options)
    prepare(plan, console)
    waited = console.end_waits()
    console.stop()
    console.say(waited)
    written = {path: size for path, size in list_programs().items() if path not in before}
    for path, size in written.items():
        console.say(f"wrote {path} ({size / 1e6:.2f} MB)")
    if not written:
        why = "they were there" if plan.program else "they are switched off, or depend on code of your own"
        console.say(f"no stored programs written: {why}")
    console.say(f"compiled programs are in {folder}")
    return 0
