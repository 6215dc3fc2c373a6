"""The progress line and the final table, by their text."""

import io
import math

import numpy as np
import pytest

from gems_jax.runner.console import Console, Progress, clock, format_mean, progress_line, short_number, summary_table
from gems_jax.runner.labels import readable
from walk_solver import walk

PROGRESS = Progress(24, 40, ("exploitability", 0.03412), 1_234_567.0, 67.0, 25.0, 412_000_000)


def test_progress_line() -> None:
    assert progress_line(PROGRESS) == "24/40  exploitability 0.03412  1.23M steps/s  1:07 left  25 anchors  412 MB"
    bare = PROGRESS._replace(metric=None, active_anchors=None)
    assert progress_line(bare) == "24/40  1.23M steps/s  1:07 left  412 MB"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3700, "1:01:40"), (math.inf, "?")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (1234, "1.23k"), (2.5e6, "2.5M"), (3e9, "3G"), (0.123456, "0.123")]
)
def test_short_number(value: float, text: str) -> None:
    assert short_number(value) == text


def test_interval_by_hand() -> None:
    # standard error sqrt(1/3), Student's t for two degrees of freedom 4.302653
    assert 4.302653 * math.sqrt(1 / 3) == pytest.approx(2.48414, abs=1e-5)
    assert format_mean(np.array([1.0, 2.0, 3.0])) == "2 ± 2.5"
    assert format_mean(np.array([1.0])) == "1"


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


def test_quiet_shows_nothing() -> None:
    assert shown(interactive=False, quiet=True) == "" == shown(interactive=True, quiet=True)


def test_table() -> None:
    text = shown(interactive=False)
    assert [cell.strip() for line in text.splitlines() if " gap " in line for cell in line.split("│")[1:-1]] == [
        *("gap", "0.5 ± 6.4", "1.5 ± 6.4", "3.5 ± 6.4", "7.5 ± 6.4")
    ]
    assert "4k" in text and "absent" not in text
    assert "compilation took 1.2 s" in " ".join(text.split())


def test_driver_speaks_through_the_console() -> None:
    stream = io.StringIO()
    walk(None, console=Console(stream, interactive=False))
    first, *lines = stream.getvalue().splitlines()
    assert first.startswith("compiling: ")
    assert [line.split()[1] for line in lines] == ["3/12", "6/12", "9/12", "12/12"]
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
    assert readable(column) == words
