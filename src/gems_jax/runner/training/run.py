"""The result of `gems_jax.train`: metrics, mixtures and files of a batch of seeds."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.evaluate.statistics import format_mean
from gems_jax.extensive.values import exploitability
from gems_jax.runner.console import Console, measured_before
from gems_jax.runner.directory import RunDirectory, create_run
from gems_jax.runner.driver import RunResult
from gems_jax.runner.engine import Monitor
from gems_jax.runner.errors import MissingExtraError
from gems_jax.runner.files import resolve
from gems_jax.runner.labels import column_label
from gems_jax.runner.load import export_policy, make_loaded_policy
from gems_jax.runner.measuring import FALLBACK_COLUMNS
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem
from gems_jax.runner.session import Counters, Session, note_metric, save_checkpoint, write_state
from gems_jax.runner.writers import CsvWriter
from gems_jax.types import Game, Profile


class RunPlan(NamedTuple):
    """A run before it starts."""

    problem: Problem
    seeds: tuple[int, ...]
    options: RunOptions
    monitor: Monitor
    named: tuple[str, dict[str, Any]] | None = None  # name and options of the game, for files; None if unknown
    preset: str = ""  # name of the settings
    program: str = ""  # name of the stored programs (`program_names`); "": none are stored


class Metrics(dict[str, np.ndarray]):
    """Logged columns by name, each [seeds, iterations]."""

    def __init__(self, columns: Mapping[str, np.ndarray], seeds: Sequence[int]) -> None:
        super().__init__(columns)
        self.seeds = tuple(seeds)

    def to_pandas(self) -> Any:
        """Converts the columns to a `pandas.DataFrame` with one row for each seed and iteration.

        Returns:
          A data frame with the columns `seed`, `iteration` and the metrics.

        Raises:
          MissingExtraError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas, which is not installed: pip install pandas") from error
        count = next(iter(self.values())).shape[1] if self else 0
        seeds = np.repeat(np.asarray(self.seeds, np.int64), count)
        return pandas.DataFrame({"seed": seeds, **{name: column.reshape(-1) for name, column in self.items()}})

    def __repr__(self) -> str:
        shape = next(iter(self.values())).shape if self else (len(self.seeds), 0)
        return f"Metrics({len(self)} columns [{shape[0]} seeds, {shape[1]} iterations]: {', '.join(self)})"


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A trained batch of seeds: what `gems_jax.train` returns.

    Attributes:
      plan: game, method, settings, seeds and options.
      result: states and rows of all seeds.
      directory: folders of the run; None if it was trained without one.
    """

    plan: RunPlan
    result: RunResult
    directory: RunDirectory | None = None

    @property
    def game(self) -> Game:
        """The game."""
        return self.plan.problem.game

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.plan.problem.method

    @property
    def config(self) -> Any:
        """Settings of the method."""
        return self.plan.problem.config

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the batch."""
        return self.plan.seeds

    @property
    def iteration(self) -> int:
        """Completed iterations; fewer than asked for if the run was stopped."""
        return self.result.iteration

    @property
    def metrics(self) -> Metrics:
        """Logged columns by name, [seeds, iterations] each, with `to_pandas()`."""
        return Metrics(self.result.rows, self.seeds)

    @property
    def profile(self) -> Profile:
        """The mixture of the first seed after the last iteration; `policy(seed)` has that of any seed."""
        return self.policy().profile

    def policy(self, seed: int | None = None, which: str = "iterate") -> LoadedPolicy:
        """Makes the policy of a seed, which acts.

        Args:
          seed: one of `seeds`; by default the first.
          which: the mixture of the last iteration ("iterate") or the average over the run ("average").

        Returns:
          A policy as `gems_jax.load` returns it.

        Raises:
          ValueError: if the run has no such seed.
        """
        seed = self.seeds[0] if seed is None else seed
        if seed not in self.seeds:
            raise ValueError(f"policy: expected one of the seeds {', '.join(map(str, self.seeds))}, got {seed}.")
        index, solver = self.seeds.index(seed), self.plan.problem.solver
        states = self.result.state
        state = jax.tree.map(lambda leaf: leaf[index], states) if solver.jittable else states[index]
        source = "this process" if self.directory is None else str(self.directory.members[index])
        last = {name: float(column[index, -1]) for name, column in self.result.rows.items()}
        row = {name: value for name, value in last.items() if not math.isnan(value)}
        profile = solver.profile(state, which=which)
        return make_loaded_policy(self.plan.problem, profile, seed, self.iteration, source, row)

    def exploitability(self, which: str = "iterate") -> np.ndarray:
        """Computes the exact exploitability of every seed's mixture.

        Args:
          which: "iterate" or "average", as in `policy`.

        Returns:
          NashConv / 2, [seeds].

        Raises:
          NotEnumerableError: if the game is too large or not enumerable. Play `head_to_head` instead.
          ValueError: if the game is not two-player zero-sum. Use `gems_jax.nash_conv(run.game, run.profile)`.
        """
        profiles = [self.policy(seed, which).profile for seed in self.seeds]
        return np.asarray([float(exploitability(self.game, profile)) for profile in profiles])

    def save(self, path: Path | str | None = None, *, seed: int | None = None, which: str = "iterate") -> Path:
        """Writes the run as a folder, or the policy of one seed as a file. `gems_jax.load` and `gems eval` read both.

        Args:
          path: a new or empty folder, or a new file that ends in `.safetensors`. By default the folder of the run:
            `run_dir`, or else `runs/<game>/<method>/<time>-s<seed>`.
          seed: seed of the policy, for a file; by default the first.
          which: mixture of the policy, for a file: "iterate" or "average".

        Returns:
          The folder or file.

        Raises:
          ValueError: if the game cannot be described by a name and options.
          RunError: if the path is not free or cannot be written.
        """
        if path is not None and Path(path).suffix == ".safetensors":
            return export_policy(self.policy(seed, which), path, resolve(_describe(self.plan)))
        if path is None and self.directory is not None:
            return self.directory.shared
        if not self.iteration:
            raise ValueError("save: expected a run of at least one iteration, got 0: it was stopped before.")
        directory = create_run_folder(self.plan, path)
        _write_run(self, directory)
        return directory.shared

    def __repr__(self) -> str:
        """Summarizes the run in a few lines: what was trained, and the last row of its headlines."""
        result, problem = self.result, self.plan.problem
        stopped = f", stopped by {result.stopped_by}" if result.stopped_by else ""
        count = f"{len(self.seeds)} seed{'s' * (len(self.seeds) != 1)}"
        what = f"{problem.method} ({self.plan.preset})" if self.plan.preset else problem.method
        took = f"{result.seconds:.1f} s, compilation {result.compile_seconds:.1f} s"
        lines = [f"Run({problem.game.name}, {what}, {count}, {result.iteration} iterations{stopped}, {took})"]
        shown = [name for name in self.plan.monitor.headlines or FALLBACK_COLUMNS if name in result.rows]
        for name in shown[:4]:
            for measured in measured_before(result.rows, [name], [result.iteration]):
                when = f" (iteration {measured})" * (measured < result.iteration)
                lines.append(f"  {column_label(name)}: {format_mean(result.rows[name][:, measured - 1])}{when}")
        return "\n".join(lines)


def _describe(plan: RunPlan) -> dict[str, Any]:
    """The game, method, config and options for a file. ValueError if a file cannot name the game."""
    if plan.named is None:
        raise ValueError(
            f"save: expected a game that a file can name, got {plan.problem.game.name!r}. Define its class in a "
            "module, as a dataclass or without arguments, or train by name: train('package.module:MyGame')."
        )
    name, game_options = plan.named
    options = {"game": game_options, "preset": plan.preset, **dataclasses.asdict(plan.options)}
    return {"game": name, "method": plan.problem.method, "config": plan.problem.config, "options": options}


def create_run_folder(plan: RunPlan, path: Path | str | None) -> RunDirectory:
    """Creates the folder of a run, by default in `runs/`. Raises ValueError if a file cannot name the game."""
    return create_run(**_describe(plan), seeds=plan.seeds, iterations=plan.problem.config.iterations, path=path)


def _mask_unmeasured(rows: Mapping[str, np.ndarray], monitor: Monitor) -> dict[str, np.ndarray]:
    """Masks cells of NaN that were not measured; where a monitor allows NaN, they may be measurements."""
    allowed = monitor.allow_nonfinite
    return {
        name: values if allowed is None or name in allowed else np.ma.masked_where(np.isnan(values), values)
        for name, values in rows.items()
    }


def _write_run(trained: Run, directory: RunDirectory) -> None:
    """Writes the rows, the last state and the status of a run that was trained without a folder."""
    result, plan = trained.result, trained.plan
    zeros = np.zeros((len(plan.seeds), 1), np.int64)
    totals = [[int(n) for n in result.rows.get(f"total_{name}", zeros)[:, -1]] for name in ("episodes", "env_steps")]
    counters = Counters(result.seconds, result.compile_seconds, *totals)
    iterations = plan.problem.config.iterations
    quiet = Console(quiet=True)
    session = Session(iterations, plan.seeds, plan.options, plan.monitor, directory, quiet, counters)
    session.done = result.iteration
    note_metric(session, result.rows)
    writer = CsvWriter(directory)
    with contextlib.closing(writer):
        writer.write(_mask_unmeasured(result.rows, plan.monitor))
        session.writers.append(writer)
        best = {} if result.best is None else {"best": result.best}
        save_checkpoint(session, {"state": result.state, "monitor": result.monitor, **best})
    stopped = result.iteration < iterations
    write_state(session, "interrupted" if stopped else "done", (result.stopped_by or "the callback") * stopped)
