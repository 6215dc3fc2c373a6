"""`gems profile RUN`: where an iteration's time goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gems_jax.cli.parsing import Trust, UsageError, check_least, parse, report_error
from gems_jax.runner.errors import writing

if TYPE_CHECKING:
    from gems_jax.runner.rebuild import Problem


@dataclasses.dataclass(frozen=True)
class ProfileArguments:
    """Measure the phases of a run's next iteration, one by one and together, and write a trace of it."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory of GEMS on a game that is compiled (a seed's folder or a batch's)."""
    repeats: int = 5
    """How often each phase is measured, in turns."""
    seed: int | None = None
    """Which seed of a batch (default: the first)."""
    at: str = "last"
    """Which checkpoint: last, best, or an iteration that was kept."""
    output: Path | None = None
    """Folder to write to (default: profile/ of the run)."""
    trust: Trust = False


def main(argv: Sequence[str]) -> int:
    arguments = parse(ProfileArguments, argv, prog="gems profile")
    check_least(arguments, repeats=1)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.profiling.trace import profile
    from gems_jax.runner.load import find_run, load_state

    enable_compilation_cache()
    path = find_run(arguments.run)
    if path.suffix == ".safetensors":
        raise UsageError(f"{path} is a policy without the run that trained it: give a run directory")
    found = load_state(path, arguments.seed, arguments.at, report_error, trust=arguments.trust)
    game, config = found.problem.game, found.problem.config
    _check_measurable(found.problem)
    folder = arguments.output or found.folder / "profile"
    print(f"{game.name}, seed {found.seed}, from iteration {found.iteration} on; compiling first", flush=True)
    with writing(folder):
        table = profile(game, config, found.state, folder, arguments.repeats)
    print(table)
    print(f"written: {folder} (phases.txt; a trace that TensorBoard's profiler and ui.perfetto.dev open)")
    return 0


def _check_measurable(problem: Problem) -> None:
    from gems_jax.host.stages import on_host

    wrong = f"method {problem.method}" if problem.method != "gems" else ""
    wrong = wrong or (f"{problem.game.name}, played in Python" if on_host(problem.game) else "")
    if wrong:
        raise UsageError(f"phases are measured of GEMS on games that are compiled: got {wrong}")
