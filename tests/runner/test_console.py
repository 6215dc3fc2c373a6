"""The progress line and the final table, by their text."""

import io
import math
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from gems_jax.profiling.bench_report import read_waits
from gems_jax.runner.console import (
    Console,
    Progress,
    close_console,
    format_clock,
    format_number,
    open_console,
    progress_line,
    share_console,
    summary_table,
)
from gems_jax.runner.labels import column_label, describe_direction, higher_is_better
from walk_solver import walk

PROGRESS = Progress(24, 40, ("exploitability", 0.03412), 1_234_567.0, 67.0, 25.0, 412_000_000)


def test_progress_line() -> None:
    assert progress_line(PROGRESS) == "24/40  exploitability 0.03412  1.23M steps/s  1:07 left  25 anchors  412 MB"
    assert progress_line(PROGRESS, 60) == "24/40  exploitability 0.03412  1.23M steps/s  1:07 left"
    assert progress_line(PROGRESS, 45) == "24/40  exploitability 0.03412  1:07 left"
    bare = PROGRESS._replace(metric=None, active_anchors=None)
    assert progress_line(bare) == "24/40  1.23M steps/s  1:07 left  412 MB"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3700, "1:01:40"), (math.inf, "?")])
def test_clock(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (1234, "1.23k"), (999_999, "1M"), (2.5e6, "2.5M"), (3e9, "3G"), (0.123456, "0.123")],
)
def test_short_number(value: float, text: str) -> None:
    assert format_number(value) == text


def shown(interactive: bool, quiet: bool = False) -> str:
    stream = io.StringIO()
    console = Console(stream, interactive=interactive, quiet=quiet)
    console.start("kuhn_poker gems", 40)
    for iteration in range(1, 41):
        console.update(PROGRESS._replace(iteration=iteration))
    console.say("a path with [brackets]/s0")
    console.stop()
    console.table(table())
    return stream.getvalue()


def table():
    rows = {
        "iteration": np.tile(np.arange(1, 9), (2, 1)),
        "gap": np.stack([np.arange(8.0), np.arange(8.0) + 1]),
        "total_episodes": np.full((2, 8), 4000),
        "seconds": np.stack([np.arange(8.0), np.arange(8.0)]),
    }
    return summary_table("walk", rows, ["gap", "absent"], compile_seconds=1.25)


def test_plain_lines_where_there_is_no_terminal() -> None:
    lines = shown(interactive=False).splitlines()
    progress = [line for line in lines if line.startswith("iteration ")]
    assert 10 <= len(progress) <= 11 and progress[-1].startswith("iteration 40/40  exploitability")
    assert "a path with [brackets]/s0" in lines
    assert "\x1b" not in "".join(lines)


def test_live_line_on_a_terminal() -> None:
    text = shown(interactive=True)
    assert "40/40  exploitability" in text and "\x1b[" in text
    assert "iteration 4/40" not in text


def test_a_wait_is_shown_with_its_seconds_and_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    console = Console(stream, interactive=True)
    console.wait("making the game")
    console.wait("importing")
    console.start("kuhn_poker gems", 40)
    console.wait("iteration: tracing")
    console.stop()
    assert re.search(r"0:\d\d iteration: tracing", stream.getvalue()) and "kuhn_poker gems" in stream.getvalue()
    stream = io.StringIO()
    console = Console(stream, interactive=True)
    console.wait("importing")
    console.stop()
    assert stream.getvalue().endswith("\x1b[2K")  # the line is erased


def test_all_waits_are_listed_with_their_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("gems_jax.runner.console.time.monotonic", lambda: now[0])
    console = Console(io.StringIO(), interactive=False, quiet=True)

    def spend(seconds: float) -> None:
        now[0] += seconds

    console.wait("importing")
    spend(1.25)
    console.wait("making the game")
    spend(0.01)
    console.wait("first state: tracing")
    spend(0.5)
    for _ in range(2):
        console.wait("iteration: tracing", restart=False)
        spend(2.0)
        console.wait("iteration: compiling or reading the cache", restart=False)
        spend(0.5)
        console.name_wait("iteration: from the cache")
    expected = "ready after 6.8 s: importing 1.2 s, tracing 4.5 s, from the cache 1.0 s"
    assert console.end_waits() == expected
    assert console.end_waits() == "ready after 0.0 s"
    assert read_waits(f"{expected}\n") == {
        "ready": 6.8,
        "waits": {"importing": 1.2, "tracing": 4.5, "from the cache": 1.0},
    }
    assert read_waits("ready after 1.0 s: a, b 0.5 s, c 0.5 s")["waits"] == {"a, b": 0.5, "c": 0.5}
    with pytest.raises(ValueError, match="ready after"):
        read_waits("stopped")


def test_long_waits_are_reported_to_plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gems_jax.runner.console.WAITING_PACE", 0.2)
    stream = io.StringIO()
    console = Console(stream, interactive=False)
    console.wait("compiling")
    end = time.monotonic() + 20
    while not stream.getvalue() and time.monotonic() < end:
        time.sleep(0.05)
    console.stop()
    assert re.match(r"compiling: 0:\d\d\n", stream.getvalue())


def test_the_console_of_a_command_is_shared_until_it_ends() -> None:
    console = open_console()
    assert share_console() is console and not console.quiet
    assert share_console(quiet=True) is console and console.quiet
    close_console()
    assert share_console() is not console
    close_console()


def test_the_console_imports_neither_jax_nor_numpy() -> None:
    script = "import sys, gems_jax.runner.console; print([n for n in ('jax', 'numpy', 'scipy') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


def test_quiet_shows_nothing() -> None:
    assert shown(interactive=False, quiet=True) == "" == shown(interactive=True, quiet=True)


def test_table() -> None:
    text = shown(interactive=False)
    assert [cell.strip() for line in text.splitlines() if " gap " in line for cell in line.split("│")[1:-1]] == [
        *("gap", "0, 1", "1, 2", "3, 4", "7, 8")
    ]
    assert "both values of 2 seeds" in text
    assert "4k" in text and "absent" not in text
    assert "compilation took 1.2 s" in " ".join(text.split())


def cells_of(rows, metrics) -> list[list[str]]:
    """The cells of the final table, row by row; the first row is its header."""
    found = summary_table("walk", rows, metrics, compile_seconds=1.0)
    return [[str(column.header) for column in found.columns]] + [
        list(row) for row in zip(*(column.cells for column in found.columns), strict=True)
    ]


def test_rows_of_zeros_stay() -> None:
    """A solved game: its gap of zero is a result. A method that plays nothing has no environment steps to show."""
    iteration = np.arange(1, 5)[None]
    rows = {
        "iteration": iteration,
        "gap": 0.0 * iteration,
        "total_env_steps": 0 * iteration,
        "seconds": 1.0 * iteration,
    }
    shown = {row[0]: row[1:] for row in cells_of(rows, ["gap"])}
    assert shown["gap"] == ["0", "0", "0"] and "env steps" not in shown


def test_the_table_names_the_iterations_that_were_measured() -> None:
    """Stopped at 8, measured after 1, 3 and 6: the columns are these, and nothing is known of 8."""
    iteration = np.arange(1, 9)[None]
    score = np.where(np.isin(iteration, (1, 3, 6)), iteration / 10, np.nan)
    header, first, *_ = cells_of({"iteration": iteration, "score": score, "seconds": 1.0 * iteration}, ["score"])
    assert header[1:] == ["1", "3", "6", "8"] and first[1:] == ["0.1", "0.3", "0.6", "–"]


def test_the_progress_line_says_when_its_number_was_measured() -> None:
    earlier = PROGRESS._replace(metric=("score", 0.5), measured=20)
    assert "  score 0.5 (iteration 20)  " in progress_line(earlier)
    assert "  score 0.5  " in progress_line(earlier._replace(iteration=20))


def test_driver_speaks_through_the_console() -> None:
    stream = io.StringIO()
    walk(None, console=Console(stream, interactive=False))
    first, second, *lines = stream.getvalue().splitlines()
    assert first.startswith("compiling: ") and second.startswith("ready after ")
    assert [line.split()[1] for line in lines] == ["1/12", "3/12", "6/12", "9/12", "12/12"]
    assert all(" gap " in line and "steps/s" in line and "3 anchors" in line for line in lines)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("nash_conv", "NashConv"),
        ("win_random", "wins against random"),
        ("random_vs_evader", "random against evader"),
        ("return_player_0", "player 0's return"),
        ("value_sender", "sender's value"),
        ("return_pursuers", "pursuers' return"),
        ("value_loss", "value loss"),
        ("coop_auc", "cooperation, area"),
    ],
)
def test_columns_in_words(column, words):
    assert column_label(column) == words


@pytest.mark.parametrize(
    ("columns", "direction"),
    [
        (("exploitability", "nash_conv_average", "regret_sender", "cce_gap_ids", "budget_oracle", "value_loss"), False),
        (("score_tactician", "return_team", "pursuers_vs_random", "coop_auc", "welfare", "distinct"), True),
        (("length", "random_vs_evader", "score_random_interval", "episodes", "value_sender"), None),
    ],
)
def test_directions_of_columns(columns, direction):
    assert {column: higher_is_better(column) for column in columns} == dict.fromkeys(columns, direction)
    words = {True: "higher is better", False: "lower is better", None: "no direction"}
    assert describe_direction(columns[0]) == words[direction]
