"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere, a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from gems_jax.evaluate.statistics import mean_interval
from gems_jax.runner.labels import readable


class Progress(NamedTuple):
    """Where a run stands, for the progress line."""

    iteration: int
    iterations: int
    metric: tuple[str, float] | None  # name and mean over seeds
    steps_per_second: float  # of the environment; of iterations, where a method takes no steps
    seconds_left: float
    active_anchors: float | None
    memory_bytes: int
    unit: str = "steps"


class Console:
    """The live line and messages. `interactive=None` asks the stream; `quiet` shows nothing at all."""

    def __init__(self, file: IO[str] | None = None, interactive: bool | None = None, quiet: bool = False) -> None:
        from rich.console import Console as RichConsole

        stream = file or sys.stdout
        self.interactive = stream.isatty() if interactive is None else interactive
        self.quiet = quiet
        self.rich = RichConsole(
            file=stream, force_terminal=self.interactive, highlight=False, width=None if self.interactive else 110
        )
        self._live: Any = None
        self._task: Any = None
        self._last_line = (-1.0, 0.0)  # share done and time of the last plain line

    def start(self, title: str, iterations: int, done: int = 0) -> None:
        self._last_line = (-1.0, 0.0)
        if self.quiet or not self.interactive:
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[line]}", markup=False),
            console=self.rich,
            refresh_per_second=4,
        )
        self._task = self._live.add_task(title, total=iterations, completed=done, line="compiling")
        self._live.start()

    def update(self, progress: Progress) -> None:
        if self._live is not None:
            self._live.update(self._task, completed=progress.iteration, line=progress_line(progress))
        elif not self.quiet:
            self._log(progress)

    def _log(self, progress: Progress) -> None:
        """A log file wants a line per tenth of the way, and a sign of life every half minute."""
        share, now = progress.iteration / max(progress.iterations, 1), time.monotonic()
        if share >= min(1.0, self._last_line[0] + 0.1) or now >= self._last_line[1] + 30:
            self._last_line = (share, now)
            self.say(f"iteration {progress_line(progress)}")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.rich.print(text, markup=False, soft_wrap=True)

    def table(self, table: Any) -> None:
        if not self.quiet:
            self.rich.print(table)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def progress_line(progress: Progress) -> str:
    """`24/40  exploitability 0.0341  1.2M steps/s  0:07 left  25 anchors  412 MB`."""
    parts = [f"{progress.iteration}/{progress.iterations}"]
    if progress.metric is not None:
        parts.append(f"{progress.metric[0]} {progress.metric[1]:.4g}")
    parts.append(f"{short_number(progress.steps_per_second)} {progress.unit}/s")
    parts.append(f"{clock(progress.seconds_left)} left")
    if progress.active_anchors is not None:
        parts.append(f"{progress.active_anchors:.0f} anchors")
    parts.append(f"{progress.memory_bytes / 1e6:.0f} MB")
    return "  ".join(parts)


def short_number(value: float) -> str:
    """1234567 -> 1.23M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """75 -> 1:15, 3700 -> 1:01:40."""
    if not np.isfinite(seconds):
        return "?"
    whole = max(int(round(seconds)), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def format_mean(values: np.ndarray) -> str:
    """Mean over seeds and half of its 95 % interval, where there is more than one seed."""
    interval = mean_interval(values)
    return f"{interval.mean:.4g}" if np.isnan(interval.low) else f"{interval.mean:.4g} ± {interval.half_width:.2g}"


_COSTS: dict[str, Callable[[np.ndarray], str]] = {
    "total_episodes": lambda values: short_number(values.mean()),
    "total_env_steps": lambda values: short_number(values.mean()),
    "seconds": lambda values: f"{values.max():.1f}",  # one clock for all seeds of a batch
}


def summary_table(
    title: str,
    rows: Mapping[str, np.ndarray],
    metrics: Sequence[str],
    *,
    compile_seconds: float,
    marks: Sequence[int] | None = None,
) -> Any:
    """Builds the final table: each metric at a few iterations (mean over seeds, 95 % interval), and what it cost.

    rows: {column: [seeds, iterations]}. marks: iterations to show, by default the first, quarter, half and last.
    """
    from rich.table import Table

    num_seeds, last = rows["iteration"].shape
    shown = sorted({mark for mark in (marks or (1, last // 4, last // 2, last)) if 1 <= mark <= last})
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("iteration")
    for mark in shown:
        table.add_column(str(mark), justify="right")
    for name in (*metrics, *_COSTS):
        if name in rows and rows[name].any():
            text = _COSTS.get(name, format_mean)
            label = name.removeprefix("total_") + " per seed" * (name.startswith("total_") and num_seeds > 1)
            table.add_row(readable(label), *(text(rows[name][:, mark - 1]) for mark in shown))
    seeds = f"{num_seeds} seed{'s' * (num_seeds > 1)}"
    interval = ", mean ± half of the 95 % interval" * (num_seeds > 1)
    # rich breaks a caption at the table's width: two lines that fit read better than one broken anywhere
    table.caption = f"{seeds}{interval}\ncompilation took {compile_seconds:.1f} s, not counted"
    return table
