"""A solver that is small and still holds all that a real state may hold: for tests of the run infrastructure.

Noisy optimistic multiplicative weights on rock-paper-scissors. Run as a script it trains into the run directory given
(made if it is not there), printing nothing; tests kill it at random moments.
"""

import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.runner.console import Console
from gems_jax.runner.directory import RunDirectory, create_run, open_run
from gems_jax.runner.driver import RunResult, run
from gems_jax.runner.engine import Monitor
from gems_jax.runner.options import RunOptions
from gems_jax.types import Array, Solver, Struct

PAYOFF = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], np.float32)
CONFIG = {"eta": 0.3, "noise": 0.5}


class WalkState(Struct):
    log_sigma: Array  # [4], the last slot is empty: -inf
    previous: Array  # [3]
    key: Array  # a typed key in the state
    nothing: Array  # [0, 2]
    step: Array


class WalkMetrics(NamedTuple):
    gap: Array
    sigma: Array  # [3], not a scalar: not in the rows
    num_active: Array  # [2]
    episodes: Array
    env_steps: Array


def make_walk(eta: float = 0.3, noise: float = 0.5, nan_at: int = -1, jittable: bool = True) -> Solver:
    def init(key: Array) -> WalkState:
        key_sigma, key_kept = jax.random.split(key)
        logits = jax.random.normal(key_sigma, (3,))
        return WalkState(
            log_sigma=jnp.append(jax.nn.log_softmax(logits), -jnp.inf),
            previous=jnp.zeros(3),
            key=key_kept,
            nothing=jnp.zeros((0, 2)),
            step=jnp.int32(0),
        )

    def step(state: WalkState, key: Array) -> tuple[WalkState, WalkMetrics]:
        sigma = jnp.exp(state.log_sigma[:3])
        exact = jnp.asarray(PAYOFF) @ sigma
        values = exact + noise * jax.random.normal(key, (3,))
        # always there, so that the sick and the mended solver are one program and agree to the bit
        values = jnp.where(state.step + 1 == nan_at, jnp.nan, values)
        log_sigma = jax.nn.log_softmax(state.log_sigma[:3] + eta * (2 * values - state.previous))
        after = state.replace(log_sigma=jnp.append(log_sigma, -jnp.inf), previous=values, step=state.step + 1)
        episodes = 3 + jax.random.randint(jax.random.fold_in(key, 1), (), 0, 5)
        return after, WalkMetrics(jnp.max(exact), sigma, jnp.array([2, 1]), episodes, 2 * episodes)

    return Solver(init, step, profile=lambda state, which="iterate": None, jittable=jittable)


def measure(
    monitor: Array, before: WalkState, metrics: WalkMetrics, after: WalkState, iteration: Array
) -> tuple[Array, dict[str, Array]]:
    """The running sum of gaps, as the monitor, and how far sigma moved."""
    moved = jnp.sum(jnp.abs(jnp.exp(after.log_sigma) - jnp.exp(before.log_sigma)))
    return monitor + metrics.gap, {"gap_sum": monitor + metrics.gap, "moved": moved}


def init_monitor(state: WalkState) -> Array:
    return jnp.zeros(())


MONITOR = Monitor(init_monitor, measure, headlines=("gap",))


def new_run(path, seeds=(0, 1), iterations=12, config=CONFIG) -> RunDirectory:
    return create_run(game="walk", method="omwu", config=config, seeds=seeds, iterations=iterations, path=path)


def walk(directory: RunDirectory | None, iterations: int = 12, solver: Solver | None = None, **options) -> RunResult:
    """One run with the settings that the tests share; compiles once per process for equal arguments."""
    seeds = directory.seeds if directory is not None else options.pop("seeds", (0, 1))
    others = {name: options.pop(name) for name in ("console", "family") if name in options}
    monitor = options.pop("monitor", MONITOR)
    driven = RunOptions(**({"chunk": 3, "checkpoint_seconds": 0.0} | options))
    solver = solver or make_walk()
    return run(
        solver, iterations=iterations, seeds=seeds, directory=directory, options=driven, monitor=monitor, **others
    )


class PacedConsole(Console):
    """Shows nothing, and waits after every chunk: a process that is to be killed does not end before that."""

    def record(self, rows) -> None:
        super().record(rows)
        time.sleep(0.1)


if __name__ == "__main__":
    folder, iterations, jittable = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "jit"
    solver = make_walk(jittable=jittable)
    walk(open_run(folder), iterations, solver, chunk=2, console=PacedConsole(quiet=True))
