"""The command `gems` for tests: as a process of its own, in this process, and untrained runs to point it at."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.trust.damage import seal
from gems_jax.cli.main import invoke
from gems_jax.config import GemsConfig
from gems_jax.games import make_game
from gems_jax.runner import checkpoint
from gems_jax.runner.directory import RunDirectory, create_run, identity, write_status
from gems_jax.runner.engine import make_engine
from gems_jax.runner.writers import checksum_text
from gems_jax.solvers import make_solver

SMALL = GemsConfig(capacity=3, initial_anchors=3, critic_hidden=(8,), generator_widths=(8,))
SCRIPT = Path(sys.executable).parent / "gems"
# The smallest settings that still go through every phase.
_SIZES = {
    "num-opponents": 2,
    "mixture-samples": 4,
    "mutations": 2,
    "randoms": 2,
    "oracle-opponents": 2,
    "abr-steps": 1,
    "abr-anchors": 2,
    "abr-opponents": 2,
    "kl-opponents": 2,
    "capacity": 4,
    "critic-hidden": 8,
    "generator-widths": 8,
}
TINY = tuple(word for name, size in _SIZES.items() for word in (f"--{name}", str(size)))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def gems(*words: object, timeout: float = 900.0, **options) -> Outcome:
    """The real console script, in a process of its own."""
    command = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "gems_jax"]
    line = [*command, *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def call(*words: object) -> Outcome:
    """The same line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke([str(word) for word in words])
    return Outcome(code, out.getvalue(), err.getvalue())


def assert_one_line(outcome: Outcome, code: int, *parts: str) -> None:
    """A failure told in one line that holds all `parts`."""
    assert outcome.code == code, outcome
    assert outcome.err.count("\n") == 1 and outcome.err.startswith("gems"), outcome.err
    assert "Traceback" not in outcome.err + outcome.out
    for part in parts:
        assert part in outcome.err, outcome.err


def untrained_run(path: Path, game: str, config, seeds=(0,), rows: bool = False, **options) -> RunDirectory:
    """A run directory whose one checkpoint, called iteration 1, holds the initial state: nothing of a step compiles.

    With `rows`, it has a row for each seed, the checkpoint has their checksums, and `gems resume` finds it finished.
    """
    problem = make_game(game, **options)
    unmeasured = {"exact": False, "evaluation_episodes": 0} if rows else {}
    run = create_run(
        game=game, method="gems", config=config, seeds=seeds, iterations=1 if rows else 2, path=path,
        options={"game": options, **unmeasured},
    )  # fmt: skip
    carry, _ = make_engine(make_solver("gems", problem, config), seeds).start()
    counters = {"seconds": 0.0, "compile_seconds": 0.0, "episodes": [0] * len(seeds), "env_steps": [0] * len(seeds)}
    text = "iteration,exploitability\n1,0.5\n"
    for member in run.members if rows else ():
        (member / "metrics.csv").write_text(text)
    sums = {"rows": [checksum_text(text)] * len(seeds)} if rows else {}
    extra = {"counters": counters, "versions": {}, "metric": None, **sums}
    checkpoint.write_checkpoint(run.checkpoints, 1, carry, identity=identity(run), extra=extra)
    write_status(run, "done", iteration=1, iterations=2)
    return run


def copy_checkpoint(folder: Path, step: int, copy: int) -> None:
    """Copies a checkpoint to another iteration, as if it had been written then."""
    shutil.copytree(folder / f"{step:08d}", folder / f"{copy:08d}")
    path = folder / f"{copy:08d}" / "manifest.json"
    seal(path, {**json.loads(path.read_text()), "iteration": copy})


def bits(tree):
    return jax.tree.map(np.asarray, tree)
