"""The engine of solvers whose step leaves the device: a Python loop over seeds and iterations.

Also the way to call a jittable solver's step from Python, on the same stacked carry as the compiled engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile_clock import count_compilation
from gems_jax.host.stages import staged
from gems_jax.runner.engine import Chunk, Engine, Monitor, has_nan, iteration_row, nan_leaves
from gems_jax.types import PyTree, Solver


def python_engine(solver: Solver, seeds: Sequence[int], monitor: Monitor) -> Engine:
    """Makes the engine that calls `solver.step` from Python, seed after seed; states are stacked if it is jittable."""
    engine = _loop_engine(solver, seeds, monitor)
    return _stacked_engine(engine, len(seeds)) if solver.jittable else engine


def _loop_engine(solver: Solver, seeds: Sequence[int], monitor: Monitor) -> Engine:
    keys = [jax.random.key(seed) for seed in seeds]
    # anew whenever a state grows; staged, for it may play games of Python's
    compile_measure = jax.jit if solver.jittable else staged
    measure = None if monitor.measure is None else compile_measure(monitor.measure)

    def start() -> tuple[PyTree, float]:
        with count_compilation() as compiling:
            states = tuple(solver.init(jax.random.fold_in(key, 0)) for key in keys)
            carry = {"state": states, "monitor": tuple(monitor.init(state) for state in states)}
        return carry, compiling.seconds

    def advance(carry: PyTree, done: int, count: int) -> Chunk:
        states, monitors = list(carry["state"]), list(carry["monitor"])
        rows: dict[str, list[list[Any]]] = {}
        for seed, key in enumerate(keys):
            for iteration in range(done + 1, done + count + 1):
                before = states[seed]
                states[seed], metrics = solver.step(before, jax.random.fold_in(key, iteration))
                monitors[seed], row = iteration_row(
                    measure, monitors[seed], before, metrics, states[seed], jnp.int32(iteration)
                )
                for name, value in row.items():
                    rows.setdefault(name, [[] for _ in keys])[seed].append(np.asarray(value))
        carry = {"state": tuple(states), "monitor": tuple(monitors)}
        nan = [
            (seed, name)
            for seed in range(len(keys))
            for _, name in nan_leaves(
                jax.tree.map(lambda leaf: has_nan(leaf)[None], {part: carry[part][seed] for part in carry}), 1
            )
        ]
        return Chunk(carry, {name: np.asarray(values) for name, values in rows.items()}, nan)

    # Such a solver compiles inside its steps: the driver counts that time while they run.
    return Engine(lambda: start()[0], start, lambda carry: (advance, 0.0), fixed_shapes=False)


def _stacked_engine(engine: Engine, num_seeds: int) -> Engine:
    """The Python engine with the states of all seeds stacked, as the compiled engine carries them."""

    def join(carry: PyTree) -> PyTree:
        return {name: jax.tree.map(lambda *leaves: jnp.stack(leaves), *part) for name, part in carry.items()}

    def split(carry: PyTree) -> PyTree:
        with jax.debug_key_reuse(False):  # taking keys of a state apart is no use of them, whatever the checker says
            return {
                name: tuple(jax.tree.map(lambda leaf, n=n: leaf[n], part) for n in range(num_seeds))
                for name, part in carry.items()
            }

    def start() -> tuple[PyTree, float]:
        carry, seconds = engine.start()
        return join(carry), seconds

    def compile(carry: PyTree) -> tuple[Callable[[PyTree, int, int], Chunk], float]:
        advance, seconds = engine.compile(carry)

        def advance_stacked(carry: PyTree, done: int, count: int) -> Chunk:
            chunk = advance(split(carry), done, count)
            return chunk._replace(carry=join(chunk.carry))

        return advance_stacked, seconds

    return Engine(lambda: join(engine.template()), start, compile, fixed_shapes=True)
