"""Profile of a run's iteration: a table of its phases, and a trace."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gems_jax.accelerator.compile import program
from gems_jax.accelerator.prng import fused_key
from gems_jax.config import GemsConfig
from gems_jax.gems.state import GemsState
from gems_jax.gems.step import gems_step
from gems_jax.profiling.phase_times import PHASES, PhaseTimes, measure_phases
from gems_jax.runner.files import replace_text
from gems_jax.types import Game


def profile(game: Game, config: GemsConfig, state: GemsState, folder: Path, repeats: int) -> str:
    """Measures the phases of an iteration and writes `phases.txt` and a trace.

    Args:
      game: a game implemented in JAX.
      config: settings.
      state: state before the measured iteration.
      folder: folder to write to.
      repeats: measurements of each phase.

    Returns:
      The table of `phases.txt`.
    """
    key_time, key_step = jax.random.split(jax.random.key(0))
    times = measure_phases(game, config, state, key_time, repeats)
    table = phase_table(times)
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "phases.txt", table + "\n")
    step: Any = (
        program(lambda state, key: gems_step(state, fused_key(key), game, config)).lower(state, key_step).compile()
    )
    with contextlib.redirect_stderr(io.StringIO()), jax.profiler.trace(str(folder)):
        jax.block_until_ready(step(state, key_step))
    return table


def phase_table(times: PhaseTimes) -> str:
    """Formats median seconds, fraction, episodes and steps of each phase, and of the step as one program."""
    total = sum(float(np.median(times.seconds[phase])) for phase in PHASES)
    lines = [f"{'phase':<28}{'seconds':>10}{'fraction':>10}{'episodes':>12}{'env steps':>12}{'steps/s':>12}"]
    for phase in PHASES:
        taken, steps = float(np.median(times.seconds[phase])), times.env_steps[phase]
        played = f"{times.episodes[phase]:>12,}{steps:>12,}{steps / taken:>12,.0f}"
        lines.append(f"{phase:<28}{taken:>10.4f}{taken / total:>10.1%}{played}")
    whole, steps = float(np.median(times.whole)), sum(times.env_steps.values())
    played = f"{sum(times.episodes.values()):>12,}{steps:>12,}{steps / whole:>12,.0f}"
    lines.append(f"{'gems_step, in one program':<28}{whole:>10.4f}{'':>10}{played}")
    lines.append(f"medians of {len(times.whole)} measurements, excluding {times.compiling:.1f} s of compilation")
    return "\n".join(lines)
