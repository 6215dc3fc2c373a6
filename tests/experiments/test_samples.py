"""The samples of docs/command_line.md are what the commands print, but for times, speeds, memory and folders."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from cli import call
from experiments import samples
from experiments.samples import PAGE as DOCUMENT
from experiments.samples import SAMPLES, find_sample, mask, replace_sample, run_in, show
from gems_jax.runner.errors import RunError


def sample(name: str) -> str:
    return find_sample(DOCUMENT.read_text(), name)[1]


def assert_alike(printed: str, shown: str, rtol: float) -> None:
    """The same words, line by line, and the same numbers up to `rtol`; what `mask` hides is left out."""
    number = r"(?<![\w.])\d+(?:\.\d+)?"
    words, numbers = [], []
    for text in map(mask, (printed, shown)):
        words.append([" ".join(re.sub(number, "#", line).split()) for line in text.splitlines()])
        numbers.append([float(found) for found in re.findall(number, text)])
    assert words[0] == words[1]
    np.testing.assert_allclose(*numbers, rtol=rtol)


def test_alike_is_strict_about_words_and_lenient_about_digits() -> None:
    assert_alike("gap 0.1234 of 5", "gap   0.1235 of 5", rtol=1e-3)
    for other in ("gap 0.13 of 5", "gap 0.1234 of 6", "gaps 0.1234 of 5", "gap 0.1234 of 5\nmore"):
        with pytest.raises(AssertionError):
            assert_alike("gap 0.1234 of 5", other, rtol=1e-3)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_shows_these_commands(name: str) -> None:
    """Braces stand for one word each."""
    shown = [line[2:] for line in sample(name).splitlines() if line.startswith("$ ")]
    wanted = [re.sub(r"\\{\w+\\}", r"\\S+?", re.escape(step.command)) for step in SAMPLES[name]]
    assert len(shown) == len(wanted) and all(re.fullmatch(*pair) for pair in zip(wanted, shown, strict=True)), shown


def test_policies_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these depends on the machine but the last digits."""
    monkeypatch.chdir(tmp_path)

    def run(words, typed: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        done = call(*words)
        assert done.code == 0, done
        return done.out

    for name in ("shipped", "arena"):
        assert_alike(show(name, run), sample(name), rtol=1e-3)


@pytest.mark.slow
def test_training_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten iterations amplify the rounding of another processor: numbers are the same up to a fifth."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # users do not have the suite's
    assert_alike(show("train", run_in(tmp_path)), sample("train"), rtol=0.2)


def test_masks_hide_what_differs_and_nothing_else() -> None:
    line = "iteration 5/5  exploitability 0.2673  243k steps/s  0:00 left  12 anchors  1391 MB"
    other = "iteration 5/5  exploitability 0.2673  10.8M steps/s  1:02:03 left  12 anchors  810 MB"
    assert mask(line) == mask(other) and mask(line) != mask(line.replace("0.2673", "0.2674"))
    assert mask("done: 5 iterations in runs/a/b-s0") == mask("done: 5 iterations in runs/c-s0") != mask("done: 6")
    assert mask("ready after 4.1 s: a 1.0 s,\nb 3.1 s\niteration 1") == "iteration 1"
    assert mask("compilation took 164.1 s, not counted") == mask("compilation took 39.0 s, not counted")
    assert mask("│ seconds  │ 0.4 │") == mask("│ seconds  │ 1.4 │") and "env steps" in mask("│ env steps │ 85k │")


ONE = "<!-- sample one -->\n```text\nold\n```\n<!-- /sample -->\n"
PAGE = f"a\n{ONE}b\n{ONE.replace('one', 'two').replace('old', 'x')}"


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    changed = replace_sample(PAGE, "one", r"new \1")
    assert changed == PAGE.replace("old", r"new \1") and find_sample(changed, "two")[1] == "x"
    for page, name in ((PAGE, "three"), (PAGE.replace("old\n```\n<!-- /sample -->", "old"), "one")):
        with pytest.raises(ValueError, match=f"no sample '{name}'"):
            find_sample(page, name)


def test_steps_are_shortened_typed_and_chained(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (
        samples.Step("gems train g", until="done", tail=1),
        samples.Step("gems play {run}", answers=("yes", "no")),
    )
    monkeypatch.setitem(SAMPLES, "x", steps)  # type: ignore[arg-type]
    printed = {"train": "start\ndone: 1 iterations in runs/r\nhidden\nlast  \n", "play": "a > b\nc > d\n" + "w " * 70}
    seen = []
    block = show("x", lambda words, typed: seen.append((words, typed)) or printed[words[0]])
    assert seen == [(["train", "g"], ""), (["play", "runs/r"], "yes\nno\n")]
    assert block.splitlines()[:5] == ["$ gems train g", "start", "done: 1 iterations in runs/r", "...", "last"]
    assert block.splitlines()[5:11] == ["", "$ gems play runs/r", "a > yes", "b", "c > no", "d"]
    assert all(len(line) <= 120 for line in block.splitlines())
    with pytest.raises(RunError, match="printed no line like 'done'"):
        show("x", lambda words, typed: "nothing")


def test_mistakes_are_told_before_anything_runs(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "run_in", None)
    assert samples.main(["nothing"]) == 2 and "unknown sample 'nothing'" in capsys.readouterr().err
    assert samples.main(["compare"]) == 2 and "compare needs --kuhn" in capsys.readouterr().err


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="gems nothing failed with exit code 2: gems: unknown command"):
        run_in(tmp_path)(["nothing"], "")
