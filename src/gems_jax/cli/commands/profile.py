"""Measures the phases of an iteration: `gems profile RUN`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, check_minima, parse, report_error
from gems_jax.runner.errors import report_write_errors

if TYPE_CHECKING:
    from gems_jax.runner.rebuild import Problem


@dataclasses.dataclass(frozen=True)
class ProfileArguments:
    """Measure the phases of a run's next iteration, one by one and as one program, and write a trace."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory (of a seed or of a batch) of GEMS on a compiled game."""
    repeats: int = 5
    """Measurements per phase; the phases alternate."""
    seed: int | None = None
    """Seed of a batch (default: the first)."""
    at: str = "last"
    """Checkpoint to use: last, best, or a saved iteration."""
    output: Path | None = None
    """Folder to write to (default: profile/ in the run's folder)."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    """Runs `gems profile` and returns its exit code."""
    arguments = parse(ProfileArguments, argv, prog="gems profile")
    check_minima(arguments, repeats=1)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.profiling.trace import profile
    from gems_jax.runner.load import find_run, load_state

    enable_compilation_cache()
    path = find_run(arguments.run)
    if path.suffix == ".safetensors":
        raise UsageError(f"{path} is an exported policy, which cannot be profiled: give a run directory")
    found = load_state(path, arguments.seed, arguments.at, report_error, trust=arguments.trust)
    game, config = found.problem.game, found.problem.config
    _check_measurable(found.problem)
    folder = arguments.output or found.folder / "profile"
    print(f"{game.name}, seed {found.seed}, after iteration {found.iteration}; compiling first", flush=True)
    with report_write_errors(folder):
        table = profile(game, config, found.state, folder, arguments.repeats)
    print(table)
    print(f"written: {folder} (phases.txt, and a trace for TensorBoard's profiler or ui.perfetto.dev)")
    return 0


def _check_measurable(problem: Problem) -> None:
    from gems_jax.host.stages import on_host

    wrong = f"method {problem.method}" if problem.method != "gems" else ""
    wrong = wrong or (f"{problem.game.name}, which runs in Python" if on_host(problem.game) else "")
    if wrong:
        raise UsageError(f"gems profile needs a run of GEMS on a compiled game, got {wrong}")
