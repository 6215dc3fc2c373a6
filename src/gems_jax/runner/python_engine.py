"""Engine of solvers whose step leaves the device: a Python loop over seeds and iterations.

It also calls a jittable solver's step from Python, on the same stacked carry as the compiled engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile_clock import count_compilation
from gems_jax.host.stages import stage
from gems_jax.runner.engine import (
    Chunk,
    Engine,
    Monitor,
    Row,
    as_floats,
    has_nan,
    is_measured,
    iteration_row,
    nan_leaves,
    no_best,
)
from gems_jax.runner.leaves import strip_keys
from gems_jax.types import PyTree, Solver


def python_engine(solver: Solver, seeds: Sequence[int], monitor: Monitor, iterations: int = 0) -> Engine:
    """Makes an engine that calls `solver.step` from Python, seed by seed; states of a jittable solver are stacked."""
    engine = _loop_engine(solver, seeds, monitor, iterations)
    return _stacked_engine(engine, len(seeds)) if solver.jittable else engine


def _loop_engine(solver: Solver, seeds: Sequence[int], monitor: Monitor, last: int) -> Engine:
    keys = [jax.random.key(seed) for seed in seeds]
    # compiles again whenever a state grows; staged, because it may play Python games
    compile_measure = jax.jit if solver.jittable else stage
    measure = None if monitor.measure is None else compile_measure(monitor.measure)
    sample = _make_sample(monitor, compile_measure)

    def start() -> tuple[PyTree, float]:
        with count_compilation() as compiling:
            states = tuple(solver.init(jax.random.fold_in(key, 0)) for key in keys)
            carry = {"state": states, "monitor": tuple(monitor.init(state) for state in states)}
            if monitor.headlines:
                carry["best"] = tuple(no_best(state) for state in states)
        return carry, compiling.seconds

    def advance(carry: PyTree, done: int, count: int) -> Chunk:
        carry = {name: list(part) for name, part in carry.items()}
        states, monitors = carry["state"], carry["monitor"]
        rows: dict[str, list[list[Any]]] = {}
        sampled: Row = {}
        for seed, key in enumerate(keys):
            for iteration in range(done + 1, done + count + 1):
                before = states[seed]
                states[seed], metrics = solver.step(before, jax.random.fold_in(key, iteration))
                monitors[seed], row = iteration_row(
                    measure, monitors[seed], before, metrics, states[seed], jnp.int32(iteration)
                )
                sampled = sample(states[seed], iteration, is_measured(iteration, monitor.every, last))
                row |= sampled
                if "best" in carry:
                    carry["best"][seed] = _better(carry["best"][seed], monitor, states[seed], row, iteration)
                for name, value in row.items():
                    rows.setdefault(name, [[] for _ in keys])[seed].append(np.asarray(value))
        carry = {name: tuple(part) for name, part in carry.items()}
        nan = [
            (seed, name)
            for seed in range(len(keys))
            for _, name in nan_leaves(
                jax.tree.map(lambda leaf: has_nan(leaf)[None], {part: carry[part][seed] for part in carry}), 1
            )
        ]
        columns = {name: np.asarray(values) for name, values in rows.items()}
        measured = is_measured(np.arange(done + 1, done + count + 1), monitor.every, last)
        return Chunk(carry, columns, nan, frozenset(sampled), measured)

    # Such a solver compiles inside its steps, where the driver counts the time.
    return Engine(lambda: start()[0], start, lambda carry: (advance, 0.0), fixed_shapes=False)


def _make_sample(monitor: Monitor, compile_measure: Callable[..., Any]) -> Callable[[PyTree, int, bool], Row]:
    """Compiles `monitor.sample`; the result gives NaN at iterations that are not measured, without playing."""
    plain = monitor.sample
    if plain is None:
        return lambda state, iteration, measured: {}
    compiled = compile_measure(plain)
    names: list[str] = []

    def sample(state: PyTree, iteration: int, measured: bool) -> Row:
        if measured:
            return as_floats(compiled(state, jnp.int32(iteration)))
        if not names:
            names.extend(jax.eval_shape(plain, state, jnp.int32(iteration)))
        return dict.fromkeys(names, jnp.float32(jnp.nan))

    return sample


def _better(best: PyTree, monitor: Monitor, state: PyTree, row: Row, iteration: int) -> PyTree:
    """Replaces the best state if the row has a better headline, like `engine.update_best`."""
    loss = jnp.float32(row.get(monitor.headlines[0], jnp.nan)) * (-1 if monitor.highest else 1)
    if not loss < best["value"]:
        return best
    return {"state": strip_keys(state), "value": loss, "iteration": jnp.int32(iteration)}


def _stacked_engine(engine: Engine, num_seeds: int) -> Engine:
    """Wraps the Python engine to stack the states of all seeds, like the compiled engine."""

    def join(carry: PyTree) -> PyTree:
        return {name: jax.tree.map(lambda *leaves: jnp.stack(leaves), *part) for name, part in carry.items()}

    def split(carry: PyTree) -> PyTree:
        with jax.debug_key_reuse(False):  # indexing the keys of a state does not consume them
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
