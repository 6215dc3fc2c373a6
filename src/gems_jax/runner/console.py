"""Console output of a run: a live line on a terminal, plain lines elsewhere, a table at the end.

The line shows what is being waited for, with the seconds since it began, from the first import on. This module
therefore imports neither JAX nor NumPy.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gems_jax.runner.labels import column_label

if TYPE_CHECKING:
    import numpy as np

_BAR = 8  # width of the progress bar
WAITING_PACE, RUNNING_PACE = 10.0, 30.0  # seconds without output after which plain output reports what happens


class Progress(NamedTuple):
    """State of a run, for the progress line."""

    iteration: int
    iterations: int
    metric: tuple[str, float] | None  # name and mean over seeds
    steps_per_second: float  # environment steps, or iterations if the method takes no steps
    seconds_left: float
    active_anchors: float | None
    memory_bytes: int
    unit: str = "steps"
    measured: int | None = None  # iteration at which the metric was measured; None: the current one


class Clock:
    """Seconds since it was started, which it formats anew whenever it is printed."""

    def __init__(self) -> None:
        self.since = time.monotonic()

    def __str__(self) -> str:
        return format_clock(time.monotonic() - self.since)


class Waits:
    """Seconds of everything that was waited for before the first iteration, in order."""

    def __init__(self) -> None:
        self.what, self._since = "", time.monotonic()
        self._seconds: dict[str, float] = {}

    def begin(self, what: str) -> None:
        """Begins a wait, which ends the one before."""
        now = time.monotonic()
        if self.what:
            self._seconds[self.what] = self._seconds.get(self.what, 0.0) + now - self._since
        self.what, self._since = what, now

    def end(self) -> str:
        """Ends the last wait. Returns a line with the seconds of each kind, without those below a twentieth.

        `first state: tracing` and `iteration: tracing` are of one kind.
        """
        self.begin("")
        kinds: dict[str, float] = {}
        for what, seconds in self._seconds.items():
            kind = what.rpartition(": ")[2]
            kinds[kind] = kinds.get(kind, 0.0) + seconds
        self._seconds.clear()
        parts = [f"{what} {seconds:.1f} s" for what, seconds in kinds.items() if seconds >= 0.05]
        return f"ready after {sum(kinds.values()):.1f} s: {', '.join(parts)}".removesuffix(": ")


class Console:
    """Prints what is being waited for, the live progress line, messages and tables.

    Attributes:
      interactive: whether to show a live line; by default, whether the stream is a terminal.
      quiet: print nothing.
      stop_requested: set by a subclass to stop the run after the current chunk.
      rich: the underlying console of rich.
    """

    def __init__(self, file: IO[str] | None = None, interactive: bool | None = None, quiet: bool = False) -> None:
        from rich.console import Console as RichConsole

        stream = file or sys.stdout
        self.interactive = stream.isatty() if interactive is None else interactive
        self.quiet = quiet
        self.stop_requested = False
        self.rich = RichConsole(
            file=stream, force_terminal=self.interactive, width=None if self.interactive else 110,
            highlight=False, markup=False, emoji=False,  # names of files and games are text
        )  # fmt: skip
        self._live: Any = None
        self._task: Any = None
        self._last_line = (-1.0, 0.0)  # fraction done and time of the last plain line
        self._clock, self._what, self._pace = Clock(), "", WAITING_PACE
        self._waits = Waits()
        self._used = 0
        self._spoke = time.monotonic()  # time of the last plain output
        self._silence: threading.Event | None = None  # ends the thread that reports during long waits

    def wait(self, what: str, restart: bool = True) -> None:
        """Shows what is being waited for, with the seconds since.

        Args:
          what: a short description, such as `making the game`.
          restart: count the seconds from now.
        """
        self._what, self._pace = what, WAITING_PACE
        self._waits.begin(what)
        if restart:
            self._clock.since = time.monotonic()
        self._open()
        if self._live is not None:
            self._live.update(self._task, line=what)

    def name_wait(self, what: str) -> None:
        """Names the current wait anew, when it is known what it was."""
        self._waits.what = what

    def end_waits(self) -> str:
        """Ends the current wait and says how long each was: `ready after 4.1 s: importing 1.1 s, ...`."""
        return self._waits.end()

    def start(self, title: str, iterations: int, done: int = 0) -> None:
        """Starts the progress line at `done` of `iterations` iterations."""
        self._last_line, self._what, self._pace = (-1.0, 0.0), "running", RUNNING_PACE
        self._used = len(title) + _BAR + 12  # columns of the live line before the progress: spinner, title, bar, clock
        self._clock.since = time.monotonic()
        self._open()
        if self._live is not None:
            self._live.live.transient = False  # the last line of a run stays
            title = printable(title)
            self._live.update(self._task, description=title, total=iterations, completed=done, line="", visible=True)

    def _open(self) -> None:
        """Opens the live line, or starts the thread that reports long waits to plain output."""
        if self.quiet or self._live is not None or self._silence is not None:
            return
        if not self.interactive:
            self._silence, self._spoke = threading.Event(), time.monotonic()
            threading.Thread(target=self._report_waits, args=(self._silence,), daemon=True).start()
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[clock]}", markup=False),
            TextColumn("{task.fields[line]}", markup=False),
            console=self.rich,
            refresh_per_second=4,
            transient=True,
        )
        self._task = self._live.add_task("gems", total=None, line=self._what, clock=self._clock)
        self._live.start()

    def _report_waits(self, silence: threading.Event) -> None:
        while not silence.wait(0.5):
            if time.monotonic() >= max(self._spoke, self._clock.since) + self._pace:
                self.say(f"{self._what}: {self._clock}")

    def record(self, rows: Mapping[str, np.ndarray]) -> None:
        """Receives the rows of a chunk, {column: [seeds, n]}; does nothing here."""

    def update(self, progress: Progress) -> None:
        """Updates the live line, or prints a plain line now and then."""
        self._what, self._pace = f"running, {progress.iteration}/{progress.iterations} done", RUNNING_PACE
        if self._live is not None:
            room = self.rich.width - self._used
            self._live.update(self._task, completed=progress.iteration, line=progress_line(progress, room))
        elif not self.quiet:
            self._log(progress)

    def _log(self, progress: Progress) -> None:
        """Prints a plain line for every tenth of the run, and at least every 30 seconds."""
        fraction, now = progress.iteration / max(progress.iterations, 1), time.monotonic()
        if fraction >= min(1.0, self._last_line[0] + 0.1) or now >= self._last_line[1] + 30:
            self._last_line = (fraction, now)
            self.say(f"iteration {progress_line(progress)}")

    def say(self, text: str) -> None:
        """Prints a message."""
        self._spoke = time.monotonic()
        if not self.quiet:
            self.rich.print(printable(text), soft_wrap=True)

    def table(self, table: Any) -> None:
        """Prints a table of rich."""
        if not self.quiet:
            self.rich.print(table)

    def stop(self) -> None:
        """Ends the live line, and reports no more waits."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._silence is not None:
            self._silence.set()
            self._silence = None


def printable(text: str) -> str:
    """Replaces control characters, such as those of a terminal's escape sequences, by question marks."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


_shared: list[Console] = []  # the console of the command that runs


def open_console(quiet: bool = False) -> Console:
    """Makes the console of a command, which `share_console` returns until it is closed."""
    close_console()
    _shared.append(Console(quiet=quiet))
    return _shared[0]


def share_console(quiet: bool = False) -> Console:
    """Returns the console of the command that runs, or a new one; a quiet one prints nothing.

    Args:
      quiet: whether to print nothing from now on.
    """
    console = _shared[0] if _shared else open_console(quiet)
    if quiet:
        console.stop()
        console.quiet = True
    return console


def close_console() -> None:
    """Ends the live line of the command that runs, before an error is printed or the command ends."""
    for console in _shared:
        console.stop()
    _shared.clear()


def progress_line(progress: Progress, width: int | None = None) -> str:
    """Formats progress: `24/40  exploitability 0.0341  1.2M steps/s  0:07 left  25 anchors  412 MB`.

    Args:
      progress: state of the run.
      width: maximum length; memory, anchors and speed are left out, in this order, where they do not fit.

    Returns:
      The line.
    """
    parts = {"iteration": f"{progress.iteration}/{progress.iterations}"}
    if progress.metric is not None:
        earlier = progress.measured not in (None, progress.iteration)
        when = f" (iteration {progress.measured})" * earlier
        parts["metric"] = f"{progress.metric[0]} {progress.metric[1]:.4g}{when}"
    parts["speed"] = f"{format_number(progress.steps_per_second)} {progress.unit}/s"
    parts["left"] = f"{format_clock(progress.seconds_left)} left"
    if progress.active_anchors is not None:
        parts["anchors"] = f"{progress.active_anchors:.0f} anchors"
    parts["memory"] = f"{progress.memory_bytes / 1e6:.0f} MB"
    for name in ("memory", "anchors", "speed"):
        if width is not None and len("  ".join(parts.values())) > width:
            parts.pop(name, None)
    return "  ".join(parts.values())


def format_number(value: float) -> str:
    """Formats a number with three digits and a unit prefix: 1234567 -> 1.23M."""
    value = float(f"{value:.3g}")  # 999,999 is 1M, not 1000k
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def format_clock(seconds: float) -> str:
    """Formats seconds as a clock: 75 -> 1:15, 3700 -> 1:01:40."""
    if not math.isfinite(seconds):
        return "?"
    whole = max(int(round(seconds)), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


_COSTS: dict[str, Callable[[np.ndarray], str]] = {
    "total_episodes": lambda values: format_number(values.mean()),
    "total_env_steps": lambda values: format_number(values.mean()),
    "seconds": lambda values: f"{values.max():.1f}",  # one clock for all seeds of a batch
}


def measured_before(rows: Mapping[str, np.ndarray], columns: Sequence[str], marks: Sequence[int]) -> list[int]:
    """Moves iterations to the last ones at which one of the columns was measured.

    Args:
      rows: {column: [seeds, iterations]}.
      columns: the columns; those that the rows lack do not count.
      marks: iterations, from 1.

    Returns:
      For each mark the last measured iteration up to it; marks before the first measurement are dropped.
    """
    import numpy as np

    there = [~np.isnan(rows[name]).all(axis=0) for name in columns if name in rows]
    measured = 1 + np.flatnonzero(np.any(there, axis=0)) if there else np.asarray(marks)
    return [int(measured[measured <= mark][-1]) for mark in marks if (measured <= mark).any()]


def summary_table(
    title: str,
    rows: Mapping[str, np.ndarray],
    metrics: Sequence[str],
    *,
    compile_seconds: float,
    marks: Sequence[int] | None = None,
) -> Any:
    """Builds the final table: metrics at a few iterations (mean over seeds, 95 % interval), and their cost.

    Args:
      title: title of the table.
      rows: {column: [seeds, iterations]}.
      metrics: columns to show, in order.
      compile_seconds: compilation time, for the caption.
      marks: iterations to show, by default the first, quarter, half and last. If metrics were not measured at one of
        them, the last measured iteration before it is shown instead.

    Returns:
      A table of rich.
    """
    from rich.table import Table

    from gems_jax.evaluate.statistics import describe_mean  # imports JAX

    num_seeds, last = rows["iteration"].shape
    wanted = [mark for mark in (marks or (1, last // 4, last // 2, last)) if 1 <= mark <= last]
    shown = sorted({*measured_before(rows, metrics, wanted), last})
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("iteration")
    for mark in shown:
        table.add_column(str(mark), justify="right")
    costs = [name for name in _COSTS if name in rows and rows[name].any()]  # methods on the tree play nothing
    for name in (*metrics, *costs):
        if name in rows:
            text = _COSTS.get(name, _measured_mean)
            label = name.removeprefix("total_") + " per seed" * (name.startswith("total_") and num_seeds > 1)
            table.add_row(column_label(label), *(text(rows[name][:, mark - 1]) for mark in shown))
    # Two lines that fit: rich would break a longer one at the table's width.
    table.caption = f"{describe_mean(num_seeds)}\ncompilation took {compile_seconds:.1f} s, not counted"
    return table


def _measured_mean(values: np.ndarray) -> str:
    """Formats the mean over seeds, or a dash where nothing was measured."""
    import numpy as np

    from gems_jax.evaluate.statistics import format_mean  # imports JAX

    return "–" if np.isnan(values).all() else format_mean(values)
