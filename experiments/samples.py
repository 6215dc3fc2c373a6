"""Runs the sample commands and writes their output to docs/command_line.md: `python -m experiments.samples [NAME...]`.

A sample is the text between `<!-- sample NAME -->` and `<!-- /sample -->`. Its commands run in a temporary folder.
Omitted lines are shown as `...` and lines are wrapped at 120 characters; nothing else is changed. The sample `compare`
needs a finished `make kuhn`: `python -m experiments.samples compare --kuhn runs/kuhn/20260101-120000`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gems_jax
from gems_jax.runner.errors import RunError
from gems_jax.runner.files import replace_text

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"
WIDTH = 120
Runner = Callable[[Sequence[str], str], str]  # (words after `gems`, standard input) -> standard output


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of a sample."""

    command: str  # `{run}`: run directory printed by an earlier command of the sample; `{kuhn}`: folder of `make kuhn`
    until: str = ""  # regular expression that the last line shown matches; empty shows all lines
    tail: int = 0  # number of lines to show from the end of the output as well
    answers: tuple[str, ...] = ()  # input for the prompts


SAMPLES: Mapping[str, tuple[Step, ...]] = {
    "train": (
        Step("gems train kuhn_poker --quick", until="done:", tail=1),
        Step("gems resume {run} --iterations 10", until="compilation took"),
    ),
    "shipped": (
        Step("gems eval kuhn --why"),
        Step("gems replay kuhn", until="  result:"),
        Step("gems play leduc --seat 0 --games 1 --games-seed 1", answers=("raise", "raise")),
    ),
    "exploit": (
        Step("gems train kuhn_poker --quick", until="fresh start"),
        Step("gems exploit {run} --steps 50000 -o exploit"),
    ),
    "arena": (Step("gems arena kuhn -o arena"),),
    "compare": (
        Step("gems compare {kuhn}/tuned {kuhn}/tuned-mlp", until=r"  kuhn_poker +gems tuned-mlp .* env steps"),
    ),
}
USUAL = ("train", "shipped", "exploit", "arena")  # samples that need nothing but this package


def show(name: str, run: Runner, folders: Mapping[str, str] | None = None) -> str:
    """Runs the commands of a sample and returns the text of its block, without fences.

    Args:
      name: a key of `SAMPLES`.
      run: runs one command.
      folders: values of the braces in commands.
    """
    known, shown = dict(folders or {}), []
    for step in SAMPLES[name]:
        command = step.command.format(**known)
        printed = _echo(run(command.split()[1:], "".join(f"{answer}\n" for answer in step.answers)), step.answers)
        made = re.search(r"^done: .* in (\S+)$", printed, re.MULTILINE)
        if made:
            known["run"] = made[1]
        shown.append("\n".join([f"$ {command}", *_shorten(printed, step)]))
    return "\n\n".join(shown)


def _echo(printed: str, answers: Sequence[str]) -> str:
    """Inserts answers after their prompts, as a terminal shows them."""
    start = 0
    for answer in answers:
        start = printed.index(" > ", start) + 3
        printed = f"{printed[:start]}{answer}\n{printed[start:]}"
    return printed


def _shorten(printed: str, step: Step) -> list[str]:
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    if step.until:
        last = next((n for n, line in enumerate(lines) if re.match(step.until, line)), None)
        if last is None:
            raise RunError(f"{step.command} printed no line like {step.until!r}: got {printed[:200]!r}")
        rest = lines[last + 1 :]
        hidden, again = rest[: len(rest) - step.tail], rest[len(rest) - step.tail :]
        lines = [*lines[: last + 1], *(["..."] if hidden else []), *again]
    return [part for line in lines for part in (textwrap.wrap(line, WIDTH, drop_whitespace=True) or [""])]


def find_sample(text: str, name: str) -> re.Match[str]:
    """Finds the block of a sample in a page; group 1 is its text without fences. Raises ValueError if it is missing."""
    block = rf"<!-- sample {re.escape(name)} -->\n```text\n(.*?)\n```\n<!-- /sample -->"
    found = re.search(block, text, re.DOTALL)
    if found is None or "<!-- sample" in found[1]:
        raise ValueError(f"the page has no sample {name!r}: <!-- sample {name} -->, a block of text, <!-- /sample -->")
    return found


def replace_sample(text: str, name: str, block: str) -> str:
    """Replaces the text of a sample's block in a page."""
    found = find_sample(text, name)
    return text[: found.start(1)] + block + text[found.end(1) :]


def mask(text: str) -> str:
    """Masks everything that differs between runs: folders, times, speeds, memory."""
    for pattern, word in (
        (r"\bruns/\S+", "RUN"),
        (r"[\d.]+[kMG]? (steps|iterations)/s", r"SPEED \1/s"),
        (r"\d+:\d\d(:\d\d)? left", "TIME left"),
        (r"\d+ MB", "MEMORY"),
        (r"took [\d.]+ s\b", "took TIME"),
        (r"ready after (.|\n)*?(\n(?=iteration)|\Z)", ""),
        (r"(?m)^│ seconds .*$", "│ seconds"),
    ):
        text = re.sub(pattern, word, text)
    return text


def run_in(folder: Path) -> Runner:
    """Makes a runner that starts commands as processes in a folder, with this installation of the package."""
    source = str(Path(gems_jax.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))

    def run(words: Sequence[str], typed: str) -> str:
        line = [sys.executable, "-m", "gems_jax", *words]
        done = subprocess.run(
            line, input=typed, capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": path}
        )
        if done.returncode:
            raise RunError(f"gems {' '.join(words)} failed with exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.samples", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"which samples (default: {' '.join(USUAL)})")
    parser.add_argument("--kuhn", type=Path, help="folder of a finished `make kuhn`, for the sample compare")
    options = parser.parse_args(arguments)
    names = options.names or [*USUAL, *(["compare"] if options.kuhn else [])]
    try:
        unknown = [name for name in names if name not in SAMPLES]
        if unknown or ("compare" in names and options.kuhn is None):
            needs = f"unknown sample {unknown[0]!r}, known: {', '.join(SAMPLES)}" if unknown else "compare needs --kuhn"
            raise ValueError(needs)
        for name in names:
            find_sample(PAGE.read_text(), name)  # before anything runs
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                run = run_in(Path.cwd() if name == "compare" else Path(folder))
                block = show(name, run, {"kuhn": str(options.kuhn)})
            replace_text(PAGE, replace_sample(PAGE.read_text(), name, block))
            print(f"written: the sample {name} of {PAGE.name}", flush=True)
    except (RunError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
