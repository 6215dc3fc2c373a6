"""Settings that fit a time budget: the phases of GEMS are measured, and their sizes scaled in proportion.

    seconds of an iteration = estimates * estimate + oracle / oracle_period + protect + abr_steps * step

It is measured with an anchor in every slot, which is the slowest case.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from gems_jax.accelerator.compile import program
from gems_jax.config import GemsConfig
from gems_jax.gems.budget import phase_episodes
from gems_jax.gems.state import init_gems
from gems_jax.profiling.phase_times import META, ORACLE, TRAINING, fill_slots, phase_programs, time_call
from gems_jax.types import Game

SCALED = ("num_opponents", "mixture_samples", "mutations", "randoms", "oracle_opponents", "abr_steps")


class Rates(NamedTuple):
    """Seconds of one unit of each phase at the measured settings."""

    estimate: float  # of one meta-strategy update
    oracle: float  # of one call
    protect: float  # of a training without steps
    step: float  # of one ABR step


def measure_rates(game: Game, config: GemsConfig, seconds: float) -> Rates:
    """Compiles the phases with a traced number of steps, and measures them alternately for about `seconds`."""
    key_init, key_fill, key = jax.random.split(jax.random.key(0), 3)
    state = jax.jit(lambda k, f: fill_slots(init_gems(k, game, config), f))(key_init, key_fill)
    phases = phase_programs(game, config)
    key_meta, key_oracle, key_train = jax.random.split(key, 3)
    meta: Any = program(phases[META]).lower(state, key_meta, None, 1).compile()
    solution = meta(state, key_meta, None, 1)
    oracle: Any = program(phases[ORACLE]).lower(state, key_oracle, solution).compile()
    found = oracle(state, key_oracle, solution)
    training: Any = program(phases[TRAINING]).lower(state, key_train, found, 1).compile()
    jax.block_until_ready(training(state, key_train, found, 1))
    units: dict[str, Callable[[], float]] = {
        "estimate": lambda: time_call(meta, state, key_meta, None, 1)[0],
        "oracle": lambda: time_call(oracle, state, key_oracle, solution)[0],
        "one": lambda: time_call(training, state, key_train, found, 1)[0],
        "three": lambda: time_call(training, state, key_train, found, 3)[0],
    }
    taken: dict[str, list[float]] = {name: [] for name in units}
    end = time.perf_counter() + seconds
    while not taken["three"] or time.perf_counter() < end:
        for name, unit in units.items():
            taken[name].append(unit())
    best = {name: min(values) for name, values in taken.items()}  # disturbances only make a measurement longer
    step = max((best["three"] - best["one"]) / 2, 1e-9) if config.abr_steps else 0.0
    return Rates(best["estimate"], best["oracle"], max(best["one"] - step, 0.0), step)


def iteration_seconds(rates: Rates, measured: GemsConfig, config: GemsConfig) -> float:
    """Predicts the seconds of an iteration: each phase scales with its number of episodes.

    Args:
      rates: measured seconds of each phase.
      measured: settings of the measurement.
      config: settings of the prediction.
    """
    before, now = (phase_episodes(one, 1, one.capacity) for one in (measured, config))
    estimate = now.meta_update / before.meta_update if before.meta_update else 1.0  # 0 for exact values
    estimating = config.num_estimates * rates.estimate * estimate
    judging = rates.oracle * now.oracle_call / max(before.oracle_call, 1) / config.oracle_period
    return estimating + judging + rates.protect + config.abr_steps * rates.step


def scale_work(config: GemsConfig, factor: float) -> GemsConfig:
    """Scales the work of every phase by about `factor`.

    Episodes and steps scale by `factor`, the candidate pool and its episodes each by the square root. Sizes of 0 stay
    0; others stay at least 1.
    """
    root = factor**0.5
    by = {"mutations": root, "randoms": root, "oracle_opponents": root}

    def size(name: str) -> int:
        value = getattr(config, name)
        return max(1, round(value * by.get(name, factor))) if value else 0

    sizes = {name: size(name) for name in SCALED}
    sizes["oracle_opponents"] = max(sizes["oracle_opponents"], config.oracle_rounds)
    pool = sizes["mutations"] + sizes["randoms"]
    if pool and pool < config.anchors_per_call:
        sizes["mutations"] += config.anchors_per_call - pool
    return config.replace(**sizes)


def fit_to_seconds(rates: Rates, config: GemsConfig, seconds: float) -> GemsConfig:
    """Scales settings by bisection until an iteration takes about `seconds`, or returns the smallest."""
    low, high = 1e-4, 1e4
    for _ in range(60):
        middle = (low * high) ** 0.5
        fits = iteration_seconds(rates, config, scale_work(config, middle)) <= seconds
        low, high = (middle, high) if fits else (low, middle)
    return scale_work(config, low)
