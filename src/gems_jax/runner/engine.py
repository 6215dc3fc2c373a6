"""How iterations are computed: chunks of a compiled loop, vmapped over seeds, or a Python loop (`python_engine.py`).

Both engines do the same thing to the same carry, `{"state": ..., "monitor": ...}`, and give the same rows. The key of
iteration i (counted from 1) of a seed is `fold_in(key(seed), i)`, and `fold_in(key(seed), 0)` initialises: nothing
depends on how the iterations were cut into chunks or where a run was taken up again.
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

from gems_jax.accelerator.compile import program
from gems_jax.accelerator.sharding import SEEDS, gather, play_mesh, replicate, replicated
from gems_jax.runner.options import RunOptions
from gems_jax.types import Array, PyTree, Solver

Row = dict[str, Array]  # one iteration's scalars by name
Rows = dict[str, np.ndarray]  # the same, [seeds, iterations]
# measure(monitor, state_before, metrics, state_after, iteration) -> (monitor, row): pure, scanned along with the step
Measure = Callable[[PyTree, PyTree, PyTree, PyTree, Array], tuple[PyTree, Row]]
RESERVED = ("iteration", "total_episodes", "total_env_steps", "seconds", "memory_mb")


_PROGRAMS: dict[Hashable, Any] = {}  # compiled ones, by the `program` of their family
_AT_ONCE = 8  # seeds per core of a CPU that are fastest together; measured on Kuhn poker


class Chunk(NamedTuple):
    carry: PyTree
    rows: Rows
    nan_leaves: list[tuple[int, str]]  # (index of the seed, name of a leaf of the carry that holds NaN)


class Monitor(NamedTuple):
    """What measures a run, and what it has to show. By default only the scalars of the solver's metrics are logged."""

    init: Callable[[PyTree], PyTree] = lambda state: ()  # the first monitor, of the first state
    measure: Measure | None = None
    headlines: tuple[str, ...] = ()  # columns of the final table; the first is what "best" means
    highest: bool = False  # and whether that is its highest
    note: str = ""  # what a reader should know of how it measures
    allow_nonfinite: Collection[str] | None = ()  # columns that may hold NaN or infinity; None: all, and the state


class Parts(NamedTuple):
    """What a run consists of: a solver, and what measures it."""

    solver: Solver
    monitor: Monitor


class Family(NamedTuple):
    """Runs of one program that differ in numbers: `member(own)` makes the parts of the run that has the numbers `own`,
    a slice of `values`, and is called while tracing."""

    member: Callable[[PyTree], Parts]
    values: PyTree  # a leading axis as long as the seeds: one run for each
    program: Hashable = None  # equal for families that trace alike: what one has compiled, the others find


class Engine(NamedTuple):
    """start() -> (carry, compile seconds); compile(carry) -> (advance, compile seconds);
    advance(carry, done, count) -> Chunk, which may reuse the buffers of `carry`. `template()` is the structure of a
    carry, `fixed_shapes` says whether its shapes hold for the whole run, `compiles` whether `compile` takes long."""

    template: Callable[[], PyTree]
    start: Callable[[], tuple[PyTree, float]]
    compile: Callable[[PyTree], tuple[Callable[[PyTree, int, int], Chunk], float]]
    fixed_shapes: bool
    compiles: bool = False


def make_engine(
    solver: Solver,
    seeds: Sequence[int],
    options: RunOptions | None = None,
    monitor: Monitor | None = None,
    family: Family | None = None,
) -> Engine:
    """Makes the compiled engine where the solver is jittable, else the Python one.

    With a `family`, run number i has the i-th seed and the family's i-th numbers; it needs a jittable solver, as does a
    `mesh` of all devices that share out the seeds and the episodes. With `debug` the step of a jittable solver is
    called from Python as well, on the same carry as the compiled engine: for a step that looks at its values, and for
    going on with it where the compiled engine stopped.
    """
    options, parts = options or RunOptions(), Parts(solver, monitor or Monitor())
    if solver.jittable and not options.debug:
        return _compiled_engine(family or Family(lambda own: parts, ()), seeds, options)
    if family is not None or options.mesh:
        raise ValueError("a family of runs, or a mesh, needs a compiled engine: the solver's step must be jittable")
    from gems_jax.runner.python_engine import python_engine

    return python_engine(solver, seeds, parts.monitor)


def iteration_row(
    measure: Measure | None, monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array
) -> Any:
    """(monitor, row): the scalars of the solver's metrics, and what `measure` adds to them or overrides."""
    named = jax.tree_util.tree_flatten_with_path(metrics)[0]
    row: Row = {"_".join(map(_plain, path)): jnp.asarray(leaf) for path, leaf in named if jnp.ndim(leaf) == 0}
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
        raise ValueError(f"measure must return scalars, but {name!r} has shape {jnp.shape(value)}: reduce it first")
    if name in RESERVED:
        raise ValueError(f"{name!r} is a column of the driver's own; give the measured quantity another name")


def _compiled_engine(family: Family, seeds: Sequence[int], options: RunOptions) -> Engine:
    chunk, devices = options.chunk, jax.device_count() if options.mesh else 1
    batch = min(options.seed_batch or seeds_at_once(len(seeds), devices), len(seeds))
    mesh = play_mesh(seeds=math.gcd(batch, devices)) if options.mesh else None
    words = jnp.stack([jax.random.key_data(jax.random.key(seed)) for seed in seeds])
    here = (words, family.values)
    words, values = replicate(here, mesh)

    def over_runs(together: Callable[..., PyTree], words: Array, *arguments: PyTree) -> PyTree:
        return _map_in_batches(together, (jax.random.wrap_key_data(words), *arguments), len(seeds), batch)

    def start_one(key: Array, own: PyTree) -> PyTree:
        parts = family.member(own)
        state = parts.solver.init(jax.random.fold_in(key, 0))
        carry = {"state": state, "monitor": parts.monitor.init(state)}
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.asarray(leaf).dtype), carry)

    @jax.jit  # inside another jit this only keeps the trace: the shapes below and the loop share one
    def iterate(key: Array, own: PyTree, carry: PyTree, iteration: Array) -> tuple[PyTree, Row]:
        parts = family.member(own)
        state, metrics = parts.solver.step(carry["state"], jax.random.fold_in(key, iteration))
        monitor, row = iteration_row(parts.monitor.measure, carry["monitor"], carry["state"], metrics, state, iteration)
        return gather({"state": state, "monitor": monitor}), row

    def advance_one(key: Array, own: PyTree, carry: PyTree, done: Array, count: Array) -> tuple[PyTree, Row, PyTree]:
        def body(n: Array, loop: tuple[PyTree, Row]) -> tuple[PyTree, Row]:
            carry, row = iterate(key, own, loop[0], done + n + 1)
            return carry, jax.tree.map(lambda buffer, value: buffer.at[n].set(value), loop[1], row)

        # A loop of `count` <= chunk turns instead of a scan of fixed length: one program serves the shorter last
        # chunk and every place where a run is taken up, so these neither compile again nor round differently.
        _, shapes = jax.eval_shape(iterate, key, own, carry, done)
        rows = {name: jnp.zeros((chunk,), shape.dtype) for name, shape in shapes.items()}
        carry, rows = jax.lax.fori_loop(0, count, body, (carry, rows))
        return carry, rows, jax.tree.map(has_nan, carry)

    def advance_all(words: Array, values: PyTree, carry: PyTree, done: Array, count: Array) -> PyTree:
        one = partial(advance_one, done=done, count=count)
        return over_runs(_together(one, batch, mesh), words, values, carry)

    def start_all(words: Array, values: PyTree) -> PyTree:
        return over_runs(_together(start_one, batch, None), words, values)

    def remembered(what: str, compile: Callable[[], Any]) -> Any:
        if family.program is None:
            return compile()
        name = (family.program, what, len(seeds), batch, chunk, options.mesh)
        if name not in _PROGRAMS:
            _PROGRAMS[name] = compile()
        return _PROGRAMS[name]

    def start() -> tuple[PyTree, float]:
        begin = time.perf_counter()
        # On one device, whatever the mesh: it is a moment's work.
        program = remembered("start", lambda: compile_program(start_all, None, *here))
        seconds = time.perf_counter() - begin
        return jax.block_until_ready(program(*here)), seconds

    def compile(carry: PyTree) -> tuple[Callable[[PyTree, int, int], Chunk], float]:
        begin = time.perf_counter()
        zero = replicate(jnp.int32(0), mesh)
        arguments = (words, values, replicate(carry, mesh), zero, zero)
        program = remembered("advance", lambda: compile_program(advance_all, mesh, *arguments, donate_argnums=2))
        seconds = time.perf_counter() - begin

        def advance(carry: PyTree, done: int, count: int) -> Chunk:
            counts = replicate((jnp.int32(done), jnp.int32(count)), mesh)
            carry, rows, nan = program(words, values, replicate(carry, mesh), *counts)
            host = {name: np.asarray(column)[:, :count] for name, column in rows.items()}
            return Chunk(jax.block_until_ready(carry), host, nan_leaves(nan, len(seeds)))

        return advance, seconds

    return Engine(lambda: jax.eval_shape(start_all, words, values), start, compile, fixed_shapes=True, compiles=True)


def compile_program(function: Callable[..., PyTree], mesh: Mesh | None, *arguments: PyTree, **options: Any) -> Any:
    """The program of one device, or of a mesh, whose results are then whole on every device."""
    if mesh is None:
        return program(function, **options).lower(*arguments).compile()
    with jax.set_mesh(mesh):
        return program(function, out_shardings=replicated(mesh), **options).lower(*arguments).compile()


def _together(function: Callable[..., PyTree], batch: int, mesh: Mesh | None) -> Callable[..., PyTree]:
    """`function` of one run for a batch of runs, along the leading axis of its arguments."""
    if batch == 1:  # the same numbers, but XLA fuses worse around an axis of one: 1.6 times as slow on Kuhn

        def alone(*arguments: PyTree) -> PyTree:
            result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
            return jax.tree.map(lambda leaf: leaf[None], result)

        return alone
    if mesh is None:
        return jax.vmap(function)
    if mesh.shape[SEEDS] < mesh.size:
        return jax.vmap(function, spmd_axis_name=SEEDS)
    # Runs for every device, and nothing else to share out: each gets a program for its own, which XLA compiles in a
    # minute where laying one program out over the devices took it more than nine.
    own = PartitionSpec(SEEDS)
    return jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=own, out_specs=own, check_vma=False)


def seeds_at_once(count: int, devices: int) -> int:
    """How many of `count` runs to go through together, where nobody says: all of them, but for CPUs.

    There more than a few do not fit a core's cache, and take longer each. As few batches as that allows, alike in size.
    """
    if jax.default_backend() != "cpu":
        return count
    batches = -(-count // (_AT_ONCE * devices))
    return devices * -(-count // (batches * devices))


def _map_in_batches(together: Callable[..., PyTree], arguments: PyTree, size: int, batch: int) -> PyTree:
    """`together` over the leading axis, `batch` at a time where memory does not hold all `size`.

    As `jax.lax.map(batch_size=...)`, which cannot take the empty arrays that a state may hold. The last batch is
    filled up with copies, and their results are dropped.
    """
    if batch >= size:
        return together(*arguments)
    num = -(-size // batch)
    index = jnp.arange(num * batch) % size
    batched = jax.tree.map(lambda leaf: leaf[index].reshape(num, batch, *leaf.shape[1:]), arguments)
    results = jax.lax.map(lambda packed: together(*packed), batched)
    return jax.tree.map(lambda leaf: leaf.reshape(num * batch, *leaf.shape[2:])[:size], results)


def has_nan(leaf: Any) -> Array:
    """NaN only: -inf is how the logarithm of an empty slot's mass looks."""
    if not hasattr(leaf, "dtype") or not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.asarray(isinstance(leaf, float) and leaf != leaf)
    return jnp.any(jnp.isnan(leaf))


def nan_leaves(nan: PyTree, num_seeds: int) -> list[tuple[int, str]]:
    """Lists (index of a seed, name of a leaf that holds NaN). nan: a tree of [seeds] booleans."""
    named = jax.tree_util.tree_flatten_with_path(jax.device_get(nan))[0]
    bad = {".".join(map(_plain, path)): np.broadcast_to(flags, (num_seeds,)) for path, flags in named if np.any(flags)}
    return [(seed, name) for seed in range(num_seeds) for name, flags in bad.items() if flags[seed]]


def _plain(entry: Any) -> str:
    """One step of a tree path as a bare name: `.values`, `['kernel']` and `[0]` give values, kernel and 0."""
    for attribute in ("name", "key", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)
