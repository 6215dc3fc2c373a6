"""Figures of this machine for one file that a user can send: starts, compilation, and the phases of an iteration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

from gems_jax.config import GemsConfig
from gems_jax.gems.state import init_gems
from gems_jax.profiling.phase_times import fill_slots, measure_phases
from gems_jax.types import Game

STARTS = ("first", "second")  # with an empty cache, and with a full one
_LINE = re.compile(r"ready after ([\d.]+) s:? ?(.*)$", re.MULTILINE)
_PART = re.compile(r"(.+) ([\d.]+) s$")


def measure_game(game: Game, config: GemsConfig, repeats: int) -> dict[str, Any]:
    """Measures one iteration of GEMS with an anchor in every slot.

    Args:
      game: a game implemented in JAX.
      config: settings.
      repeats: measurements of each phase, which take turns.

    Returns:
      Plain data: seconds to compile the phases and the step, and of each phase the seconds [repeats], the episodes and
      the environment steps.
    """
    first, second, third = jax.random.split(jax.random.key(0), 3)
    state = fill_slots(init_gems(first, game, config), second)
    times = measure_phases(game, config, state, third, repeats)
    phases = {
        name: {"seconds": seconds.tolist(), "episodes": times.episodes[name], "env_steps": times.env_steps[name]}
        for name, seconds in times.seconds.items()
    }
    return {"compiling": times.compiling, "iteration": times.whole.tolist(), "phases": phases}


def measure_starts(name: str, preset: str) -> dict[str, Any]:
    """Starts `gems train` twice as a process of its own, the first time with an empty cache.

    Args:
      name: name of the game.
      preset: name of the settings; "" for those that `gems train` chooses.

    Returns:
      For the first and the second start: seconds of the process with one iteration, seconds until the iteration began,
      and of what these consist.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        surroundings = {**os.environ, "XDG_CACHE_HOME": folder}
        surroundings.pop("JAX_COMPILATION_CACHE_DIR", None)
        for which in STARTS:
            run = Path(folder) / which
            line = [sys.executable, "-m", "gems_jax", "train", name, "--iterations", "1", "--no-figures"]
            line += ["--run-dir", str(run), *(["--preset", preset] if preset else [])]
            begin = time.perf_counter()
            subprocess.run(line, env=surroundings, check=True, capture_output=True)
            took = time.perf_counter() - begin
            found[which] = {"process": took, **read_waits((run / "log.txt").read_text())}
    return found


def read_waits(log: str) -> dict[str, Any]:
    """Reads the seconds of each wait from the log of a run.

    Args:
      log: text with a line like `ready after 4.1 s: importing 1.1 s, making the game 0.3 s`.

    Returns:
      The seconds until the first iteration, and those of each part.

    Raises:
      ValueError: if there is no such line.
    """
    lines = _LINE.findall(log)
    if not lines:
        raise ValueError(f"read_waits: expected a line `ready after ...`, got {log[-200:]!r}. Train one iteration.")
    total, parts = lines[-1]
    # A part may contain a comma, so parts end at their seconds.
    named = [_PART.match(part) for part in re.findall(r"(?:^|, )(.+? [\d.]+ s)(?=, |$)", parts)]
    return {"ready": float(total), "waits": {part[1]: float(part[2]) for part in named if part}}
