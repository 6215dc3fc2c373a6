"""Engines that compute iterations: a compiled loop, vmapped over seeds, or a Python loop (`python_engine.py`).

Both engines advance the same carry, `{"state": ..., "monitor": ..., "best": ...}`, and return the same rows. The key of
iteration i (counted from 1) of a seed is `fold_in(key(seed), i)`, and `fold_in(key(seed), 0)` initializes the state.
Results do not depend on the size of the chunks or on where a run was resumed.

`best` is the state of the best measured iteration of each seed, its value (lower is better) and its number, 0 before
the first measurement. It is compared after every measurement inside the compiled chunk, so it is exact whatever the
chunk and needs memory for one state. A run without headline has no `best`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from gems_jax.accelerator.compile import pause_garbage_collection, program
from gems_jax.accelerator.sharding import SEEDS, gather, play_mesh, replicate, replicated_sharding
from gems_jax.accelerator.stored_programs import compile_or_load, load_program, result_shapes
from gems_jax.runner.leaves import strip_keys
from gems_jax.runner.options import RunOptions
from gems_jax.types import Array, PyTree, Solver

Row = dict[str, Array]  # one iteration's scalars by name
Rows = dict[str, np.ndarray]  # scalars [seeds, iterations] by name
# measure(monitor, state_before, metrics, state_after, iteration) -> (monitor, row): pure, scanned along with the step
Measure = Callable[[PyTree, PyTree, PyTree, PyTree, Array], tuple[PyTree, Row]]
Sample = Callable[[PyTree, Array], Row]  # sample(state_after, iteration) -> row
RESERVED = ("iteration", "total_episodes", "total_env_steps", "seconds", "memory_mb")


START, ADVANCE = "start", "advance"  # names of the two programs of a run
_PROGRAMS: dict[Hashable, Any] = {}  # compiled programs, by the `program` of their family and their sizes
_AT_ONCE = 8  # fastest number of seeds per CPU core, measured on Kuhn poker


class Chunk(NamedTuple):
    """Result of a chunk of iterations."""

    carry: PyTree
    rows: Rows
    nan_leaves: list[tuple[int, str]]  # (index of the seed, name of a leaf of the carry that contains NaN)
    sampled: frozenset[str] = frozenset()  # columns that are NaN at iterations that were not measured
    measured: np.ndarray | None = None  # whether those were measured, [iterations] bool; None: in all iterations


class Monitor(NamedTuple):
    """Measurement of a run. By default only the scalars of the solver's metrics are logged."""

    init: Callable[[PyTree], PyTree] = lambda state: ()  # initial state -> initial monitor
    measure: Measure | None = None
    headlines: tuple[str, ...] = ()  # columns of the final table; the first defines the best iteration
    highest: bool = False  # whether the best value is the highest
    note: str = ""  # printed at the start of the run
    allow_nonfinite: Collection[str] | None = ()  # columns that may contain NaN or infinity; None: all, and the state
    sample: Sample | None = None  # costly columns, which are measured at some iterations only: see `is_measured`
    every: int = 1  # iterations between two calls of `sample`


class Parts(NamedTuple):
    """Solver and monitor of one run."""

    solver: Solver
    monitor: Monitor


class Family(NamedTuple):
    """Runs of one compiled program that differ in real-valued settings."""

    member: Callable[[PyTree], Parts]  # makes the parts of a run from its slice of `values`; called while tracing
    values: PyTree  # leading axis: one entry per seed
    program: Hashable = None  # equal for families with identical traces, which then share compiled programs
    stored: str = ""  # name of the programs on disk (`program_names.program_name`); "": they are not stored
    notes: Any = None  # plain data that is stored with them


class Engine(NamedTuple):
    """Functions that start and advance the runs of all seeds."""

    template: Callable[[], PyTree]  # structure of a carry
    start: Callable[[], tuple[PyTree, float]]  # -> (carry, compile seconds)
    # carry -> (advance, compile seconds); advance(carry, done, count) -> Chunk may donate the buffers of `carry`
    compile: Callable[[PyTree], tuple[Callable[[PyTree, int, int], Chunk], float]]
    fixed_shapes: bool  # whether the shapes of a carry are constant during a run
    compiles: bool = False  # whether `compile` takes long, at least without the compilation cache


def make_engine(
    solver: Solver,
    seeds: Sequence[int],
    options: RunOptions | None = None,
    monitor: Monitor | None = None,
    family: Family | None = None,
    iterations: int = 0,
) -> Engine:
    """Makes the compiled engine if the solver is jittable, else the Python engine.

    Args:
      solver: the solver.
      seeds: one run for each.
      options: `mesh` distributes seeds and episodes over all devices if there are several. `debug` calls the step of a
        jittable solver from Python, on the same carry as the compiled engine, so that it can inspect values and resume
        a compiled run.
      monitor: measures the run.
      family: real-valued settings of the runs: run i has the i-th seed and the family's i-th values. Its monitors
        measure; `monitor` still defines the best iteration.
      iterations: planned number of iterations; the last one is always measured.

    Returns:
      The engine.

    Raises:
      ValueError: if `family` is given and the solver is not jittable.
    """
    options, parts = options or RunOptions(), Parts(solver, monitor or Monitor())
    if solver.jittable and not options.debug:
        return _compiled_engine(family or Family(lambda own: parts, ()), seeds, options, parts.monitor, iterations)
    if family is not None:
        raise ValueError("a family of runs needs a jittable solver, got one whose step leaves the device")
    from gems_jax.runner.python_engine import python_engine

    return python_engine(solver, seeds, parts.monitor, iterations)


def uses_mesh(options: RunOptions) -> bool:
    """Returns whether a jittable solver's run is distributed: unless it is switched off, if there are several devices.

    Args:
      options: options of the run.
    """
    return options.mesh and not options.debug and jax.device_count() > 1


def is_measured(iteration: Any, every: int, last: Any) -> Any:
    """Returns whether `sample` measures an iteration: the first, every `every`-th and the last planned one.

    A run that is extended keeps the measurement of its earlier last iteration. Resumed runs therefore have the rows of
    an uninterrupted one, and extended runs those and the cells of their earlier last iteration.

    Args:
      iteration: number of the iteration, counted from 1.
      every: iterations between two measurements.
      last: number of the last planned iteration.
    """
    return (iteration == 1) | (iteration % every == 0) | (iteration == last)


def sample_row(monitor: Monitor, state: PyTree, iteration: Array, last: Array) -> tuple[Row, Array]:
    """Calls `sample` if the iteration is measured. Traceable.

    Args:
      monitor: the monitor.
      state: state of the solver after the iteration.
      iteration: number of the iteration, [] int32.
      last: last planned iteration, [] int32.

    Returns:
      The columns, NaN if the iteration is not measured, and whether it is, [] bool.
    """
    if monitor.sample is None:
        return {}, jnp.ones((), bool)
    measure = partial(monitor.sample, state, iteration)
    measured = is_measured(iteration, monitor.every, last)
    if monitor.every == 1:
        return as_floats(measure()), measured
    missing = dict.fromkeys(jax.eval_shape(measure), jnp.full((), jnp.nan, jnp.float32))
    return jax.lax.cond(measured, lambda: as_floats(measure()), lambda: missing), measured


def as_floats(row: Row) -> Row:
    """Converts the columns of `sample` to float32, which has NaN for cells that were not measured."""
    for name, value in row.items():
        _check_column(name, value)
    return {name: jnp.asarray(value, jnp.float32) for name, value in row.items()}


def no_best(state: PyTree, value: float = math.inf) -> dict[str, PyTree]:
    """Returns the entry `best` of a carry before the first measurement; its state is a placeholder."""
    return {"state": strip_keys(state), "value": jnp.float32(value), "iteration": jnp.int32(0)}


def update_best(best: PyTree, state: PyTree, loss: Array, iteration: Array, measured: Array | bool) -> PyTree:
    """Replaces the best state if the iteration was measured and has a lower loss; of equals the earliest stays.

    Args:
      best: entry `best` of the carry.
      state: state of the solver after the iteration.
      loss: value of the headline, negated if higher is better, [].
      iteration: number of the iteration, [] int32.
      measured: whether the iteration was measured, [] bool, or True if all are.
    """
    new = {
        "state": strip_keys(state),
        "value": jnp.asarray(loss, jnp.float32),
        "iteration": jnp.asarray(iteration, jnp.int32),
    }
    choose = partial(jax.lax.cond, loss < best["value"], lambda: new, lambda: best)
    # A branch of its own, which remains one under vmap because all seeds are in the same iteration.
    return choose() if measured is True else jax.lax.cond(measured, choose, lambda: best)


def iteration_row(
    measure: Measure | None, monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array
) -> Any:
    """Collects the row of one iteration: the scalars of the solver's metrics, and those that `measure` adds.

    Args:
      measure: `measure(monitor, before, metrics, after, iteration) -> (monitor, row)`; it may override metrics.
      monitor: state of the monitor.
      before: state of the solver before the iteration.
      metrics: metrics of the iteration; only scalars are logged.
      after: state of the solver after the iteration.
      iteration: number of the iteration, [] int32.

    Returns:
      The next monitor, and the row.
    """
    named = jax.tree_util.tree_flatten_with_path(metrics)[0]
    row: Row = {"_".join(map(_entry_name, path)): jnp.asarray(leaf) for path, leaf in named if jnp.ndim(leaf) == 0}
    if hasattr(metrics, "num_active"):
        row["active_anchors"] = jnp.sum(metrics.num_active)
    if measure is not None:
        monitor, measured = measure(monitor, before, metrics, after, iteration)
        row |= {name: jnp.asarray(value) for name, value in measured.items()}
    for name, value in row.items():
        _check_column(name, value)
    return monitor, row


def _check_column(name: str, value: Array) -> None:
    if jnp.ndim(value) != 0:
        raise ValueError(f"measure must return scalars, got {name!r} of shape {jnp.shape(value)}. Reduce it first")
    if name in RESERVED:
        raise ValueError(f"column {name!r} is reserved for the driver: give the measured quantity another name")


def _compiled_engine(
    family: Family, seeds: Sequence[int], options: RunOptions, monitor: Monitor, iterations: int
) -> Engine:
    chunk, distributed = options.chunk, uses_mesh(options)
    devices = jax.device_count() if distributed else 1
    ranked_by = (*monitor.headlines, "")[0], -1.0 if monitor.highest else 1.0
    batch = min(options.seed_batch or choose_seed_batch(len(seeds), devices), len(seeds))
    mesh = play_mesh(seeds=math.gcd(batch, devices)) if distributed else None
    words = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in seeds])
    here = (words, family.values)
    words, values = replicate(here, mesh)

    def map_over_runs(together: Callable[..., PyTree], words: Array, *arguments: PyTree) -> PyTree:
        return _map_in_batches(together, (jax.random.wrap_key_data(words), *arguments), len(seeds), batch)

    def start_one(key: Array, own: PyTree) -> PyTree:
        parts = family.member(own)
        state = parts.solver.init(jax.random.fold_in(key, 0))
        carry = {"state": state, "monitor": parts.monitor.init(state)}
        if ranked_by[0]:
            carry["best"] = no_best(state)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.asarray(leaf).dtype), carry)

    @jax.jit  # caches the trace, which the shapes below and the loop both use
    def iterate(key: Array, own: PyTree, carry: PyTree, iteration: Array, last: Array) -> tuple[PyTree, PyTree]:
        key = jax.random.fold_in(key, iteration)
        return _iterate(family.member(own), carry, key, iteration, last, ranked_by)

    def advance_one(key: Array, own: PyTree, carry: PyTree, done: Array, count: Array, last: Array) -> PyTree:
        def body(n: Array, loop: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            carry, row = iterate(key, own, loop[0], done + n + 1, last)
            return carry, jax.tree.map(lambda buffer, value: buffer.at[n].set(value), loop[1], row)

        # A loop of `count` <= chunk iterations instead of a scan of fixed length: one program serves the shorter last
        # chunk and every resumed run, so these neither compile again nor round differently.
        _, shapes = jax.eval_shape(iterate, key, own, carry, done, last)
        rows = jax.tree.map(lambda shape: jnp.zeros((chunk,), shape.dtype), shapes)
        carry, rows = jax.lax.fori_loop(0, count, body, (carry, rows))
        return carry, rows, jax.tree.map(has_nan, carry)

    def advance_all(words: Array, values: PyTree, carry: PyTree, done: Array, count: Array, last: Array) -> PyTree:
        one = partial(advance_one, done=done, count=count, last=last)
        return map_over_runs(_vectorize(one, batch, mesh), words, values, carry)

    def start_all(words: Array, values: PyTree) -> PyTree:
        return map_over_runs(_vectorize(start_one, batch, None), words, values)

    sizes = (len(seeds), batch, chunk, distributed, *ranked_by)

    def start() -> tuple[PyTree, float]:
        begin = time.perf_counter()
        # Always on one device: it takes only a moment.
        program = _compile_once(family, sizes, START, None, start_all, *here)
        seconds = time.perf_counter() - begin
        return jax.block_until_ready(program(*here)), seconds

    def compile(carry: PyTree) -> tuple[Callable[[PyTree, int, int], Chunk], float]:
        begin = time.perf_counter()
        zero = replicate(jnp.int32(0), mesh)
        arguments = (words, values, replicate(carry, mesh), zero, zero, zero)
        program = _compile_once(family, sizes, ADVANCE, mesh, advance_all, *arguments)
        seconds = time.perf_counter() - begin

        def advance(carry: PyTree, done: int, count: int) -> Chunk:
            counts = replicate((jnp.int32(done), jnp.int32(count), jnp.int32(iterations)), mesh)
            carry, rows, nan = program(words, values, replicate(carry, mesh), *counts)
            host = jax.tree.map(lambda column: np.asarray(column)[:, :count], rows)
            columns, nan = host["each"] | host["sampled"], nan_leaves(nan, len(seeds))
            return Chunk(jax.block_until_ready(carry), columns, nan, frozenset(host["sampled"]), host["measured"][0])

        return advance, seconds

    stored = load_program(f"{family.stored}-{ADVANCE}") if family.stored else None

    def template() -> PyTree:
        return jax.eval_shape(start_all, words, values) if stored is None else result_shapes(stored)[0]

    return Engine(template, start, compile, fixed_shapes=True, compiles=stored is None)


def _compile_once(
    family: Family,
    sizes: tuple[Hashable, ...],
    what: str,
    mesh: Mesh | None,
    function: Callable[..., PyTree],
    *arguments: PyTree,
) -> Any:
    """Compiles a program, unless an equal one is stored or was compiled for a family with the same traces."""
    donated = (2,) if what == ADVANCE else ()
    if family.stored:
        name = f"{family.stored}-{what}"
        return compile_or_load(name, function, *arguments, donated=donated, notes=family.notes)
    if family.program is None:
        return compile_program(function, mesh, *arguments, donate_argnums=donated)
    key = (family.program, what, *sizes)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = compile_program(function, mesh, *arguments, donate_argnums=donated)
    return _PROGRAMS[key]


def _iterate(
    parts: Parts, carry: PyTree, key: Array, iteration: Array, last: Array, ranked_by: tuple[str, float]
) -> tuple[PyTree, PyTree]:
    """Computes one iteration of one run: the next carry and its row. ranked_by: headline and sign of its loss."""
    state, metrics = parts.solver.step(carry["state"], key)
    monitor, row = iteration_row(parts.monitor.measure, carry["monitor"], carry["state"], metrics, state, iteration)
    sampled, measured = sample_row(parts.monitor, state, iteration, last)
    after, (headline, sign) = {"state": state, "monitor": monitor}, ranked_by
    if "best" in carry:
        loss = sign * jnp.asarray((row | sampled).get(headline, jnp.nan), jnp.float32)
        after["best"] = update_best(carry["best"], state, loss, iteration, True if headline in row else measured)
    return gather(after), {"each": row, "sampled": sampled, "measured": measured}


@pause_garbage_collection()
def compile_program(function: Callable[..., PyTree], mesh: Mesh | None, *arguments: PyTree, **options: Any) -> Any:
    """Compiles a function for one device, or for a mesh with replicated results. options: those of `program`."""
    if mesh is None:
        return program(function, **options).lower(*arguments).compile()
    with jax.set_mesh(mesh):
        return program(function, out_shardings=replicated_sharding(mesh), **options).lower(*arguments).compile()


def _vectorize(function: Callable[..., PyTree], batch: int, mesh: Mesh | None) -> Callable[..., PyTree]:
    """Maps a function of one run over a batch of runs, along the leading axis of its arguments."""
    if batch == 1:  # XLA fuses worse around an axis of size one: 1.6 times as slow on Kuhn poker, with equal results

        def call_one(*arguments: PyTree) -> PyTree:
            result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
            return jax.tree.map(lambda leaf: leaf[None], result)

        return call_one
    if mesh is None:
        return jax.vmap(function)
    if mesh.shape[SEEDS] < mesh.size:
        return jax.vmap(function, spmd_axis_name=SEEDS)
    # Only runs are distributed, so every device gets a program for its own runs. XLA compiles it in one minute;
    # partitioning one program over the devices took more than nine.
    own = PartitionSpec(SEEDS)
    return jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=own, out_specs=own, check_vma=False)


def choose_seed_batch(count: int, devices: int) -> int:
    """Chooses how many of `count` runs to batch: all of them, except on CPUs.

    On CPUs, more than a few runs do not fit a core's cache and are slower each. They are split into as few batches of
    equal size as that limit allows.
    """
    if jax.default_backend() != "cpu":
        return count
    batches = -(-count // (_AT_ONCE * devices))
    return devices * -(-count // (batches * devices))


def _map_in_batches(together: Callable[..., PyTree], arguments: PyTree, size: int, batch: int) -> PyTree:
    """Maps `together` over the leading axis, `batch` runs at a time.

    Replaces `jax.lax.map(batch_size=...)`, which does not support the empty arrays that a state may contain. The last
    batch is padded with copies, whose results are dropped.
    """
    if batch >= size:
        return together(*arguments)
    num = -(-size // batch)
    index = jnp.arange(num * batch) % size
    batched = jax.tree.map(lambda leaf: leaf[index].reshape(num, batch, *leaf.shape[1:]), arguments)
    results = jax.lax.map(lambda packed: together(*packed), batched)
    return jax.tree.map(lambda leaf: leaf.reshape(num * batch, *leaf.shape[2:])[:size], results)


def has_nan(leaf: Any) -> Array:
    """Checks a leaf for NaN. Infinity is allowed: empty slots have log-mass -inf."""
    if not hasattr(leaf, "dtype") or not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.asarray(isinstance(leaf, float) and leaf != leaf)
    return jnp.any(jnp.isnan(leaf))


def nan_leaves(nan: PyTree, num_seeds: int) -> list[tuple[int, str]]:
    """Lists (index of a seed, name of a leaf that contains NaN). nan: a tree of [seeds] booleans."""
    named = jax.tree_util.tree_flatten_with_path(jax.device_get(nan))[0]
    bad = {
        ".".join(map(_entry_name, path)): np.broadcast_to(flags, (num_seeds,)) for path, flags in named if np.any(flags)
    }
    return [(seed, name) for seed in range(num_seeds) for name, flags in bad.items() if flags[seed]]


def _entry_name(entry: Any) -> str:
    """Returns the bare name of an entry of a tree path: values, kernel and 0 for `.values`, `['kernel']` and `[0]`."""
    for attribute in ("name", "key", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)
