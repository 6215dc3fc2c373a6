"""Campaign of command lines: random words, real flags, odd numbers and paths; none may end in a traceback."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from benchmarks.trust.children import Outcome, call, is_clean
from gems_jax.cli import COMMANDS as ALL

COMMANDS = tuple(name for name in ALL if name != "games")  # whose --check compiles
LONG = ("profile", "play", "replay", "plan")  # they work for minutes, or read the terminal
ODD = (
    "", "0", "-1", "-0.5", "1", "2", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "ten", "None", "True", "()", "[1]",
    "é", "--", "=", "9" * 40, "1;2", "$HOME", "%s{}", "[red]", "<script>", "\x1b[31m", "\ud800", "*", "~", "-", "\t",
)  # fmt: skip
GAMES = (
    "biased_rps", "kuhn_poker", "khun", "biased_rps:x", "os:path", "json:JSONDecoder", "unittest.mock:call",
    "pathlib:Path", "collections:OrderedDict", "pgx:hexx", "pz:os:system", ":", "..:a", "matrix", "history:x",
)  # fmt: skip
FLAGS = (
    "--seed", "--at", "--which", "--trust", "--output", "--episodes", "--exploiter", "--metric", "--games", "--why",
    "--iterations", "--minutes", "--plan", "--accept-rows", "--run-dir", "-h", "--version",
)  # fmt: skip


def _words(chance: random.Random, run: Path) -> list[str]:
    from gems_jax.cli.commands import train
    from gems_jax.cli.parsing import flags_of
    from gems_jax.config import GemsConfig

    paths = ("x" * 300, "y" * 5000, "/", "/dev/null", "/dev/zero", "/proc/self/mem", "no/such/run", str(run), "kuhn",
             str(run / "config.json"), str(run / "metrics.csv"), ".", "..")  # fmt: skip
    known = sorted(flags_of(GemsConfig) | flags_of(train.Train))
    first = chance.choice((*COMMANDS, "train", "train", "eval", "resume", "sweep", chance.choice(ODD)))
    subject = chance.choice(GAMES if first in ("train", "plan") else paths)
    words = [first, *([subject] if chance.random() < 0.85 else [])]
    for _ in range(chance.randrange(4)):
        pool = chance.choice((known, FLAGS, ODD, paths, GAMES))
        words.append(chance.choice(pool))
        if chance.random() < 0.7:
            words.append(chance.choice((*ODD, *paths)))
    return words


def _harmless(words: list[str], run: Path) -> list[str]:
    """Replaces what would read the terminal, search the whole disk, or work for long."""
    if words[0] in LONG and "-h" not in words:
        return [words[0], "no/such/run", *(word for word in words[2:] if word not in GAMES)]
    measured = ("kuhn", str(run))
    long = {"compare": ("/", "..", "/proc/self/mem"), "arena": measured, "exploit": measured}
    return [word for word in words if word not in long.get(words[0], ())]


def _passes(words: list[str], outcome: Outcome) -> bool:
    """Checks a line: it ends as it should, or `gems doctor` reports damage in its table."""
    reported = words[:1] == ["doctor"] and outcome.code == 1 and not outcome.err and "\ndamaged: " in outcome.out
    return is_clean(outcome) or reported


def try_lines(first: int, count: int, seed: int, run: Path) -> list[dict[str, Any]]:
    """Runs the lines `first` to `first + count` of a campaign in this process, which is to be a forked child.

    A line of `gems train` that is accepted ends after its settings are checked.

    Returns:
      {"number", "clean", "code"} of each line; the line and what it printed, if it was not clean.
    """
    from gems_jax.cli.commands import train

    train._train = lambda run, game, config, preset: config.validate() and 0  # type: ignore[attr-defined]
    os.chdir(run.parent)
    records = []
    for number in range(first, first + count):
        words = _harmless(_words(random.Random(f"{seed} {number}"), run), run)
        outcome = call([word for word in words if "\0" not in word])
        record = {"number": number, "clean": _passes(words, outcome), "code": outcome.code}
        more = {"words": ascii(words)[:600], "err": outcome.err[-600:], "seconds": round(outcome.seconds, 1)}
        records.append(record if record["clean"] else {**record, **more})
    return records
