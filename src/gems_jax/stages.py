"""Programs with calls to the host in them: traced like any other, run as compiled stages with the calls in between.

`call_host(function, ...)` stands for a call of a Python function on NumPy arrays. It traces, and it batches: under vmap
the function gets one more leading axis. It never becomes part of a compiled program. `staged(function)` is to be called
like `jax.jit(function)`: it traces once, cuts the trace at its host calls, compiles what lies between them, and turns
the loops that a call stands in into Python loops. So a Python environment, whose state XLA could neither copy nor wait
for, plays through the very functions that JAX games are played by: no callback leaves a compiled program, errors are
Python's own, and the order of calls is that of the trace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import batching, mlir

from gems_jax.types import Array

# function(*arguments) -> results, all NumPy with the same leading axes (none, or one per vmap around the call)
HostFunction = Callable[..., Sequence[np.ndarray]]


class NotStagedError(RuntimeError):
    """A host call was about to be compiled."""


host_call_p = core.Primitive("host_call")
host_call_p.multiple_results = True


def call_host(
    function: HostFunction, results: Sequence[jax.ShapeDtypeStruct], *arguments: Array, owned: int | None = None
) -> list[Array]:
    """`results` of a function of NumPy arrays, hashed by value. Outside of a trace it is called at once.

    owned: the argument that names what the call changes. A vmap over the other arguments alone would change one thing
    in many ways, and is refused.
    """
    shapes = tuple((tuple(result.shape), np.dtype(result.dtype)) for result in results)
    return host_call_p.bind(*arguments, function=function, results=shapes, batch=(), owned=owned)


@host_call_p.def_abstract_eval
def _abstract(*arguments: Any, function: HostFunction, results: Any, batch: tuple[int, ...], owned: Any) -> list[Any]:
    del arguments, function, owned
    return [jax.core.ShapedArray((*batch, *shape), dtype) for shape, dtype in results]


@host_call_p.def_impl
def _now(*arguments: Any, function: HostFunction, results: Any, batch: Any, owned: Any) -> list[Any]:
    del results, batch, owned
    return [jnp.asarray(result) for result in function(*(np.asarray(argument) for argument in arguments))]


def _batched(arguments: Any, axes: Any, **params: Any) -> tuple[list[Any], list[int]]:
    owned = params["owned"]
    if owned is not None and axes[owned] is None:
        raise NotStagedError(
            "one game under way cannot go on in several ways at once: a Python environment has no copies. Begin an "
            "episode for each (vmap over keys, equal ones if need be)"
        )
    size = next(argument.shape[axis] for argument, axis in zip(arguments, axes, strict=True) if axis is not None)
    rows = [
        jnp.broadcast_to(argument, (size, *argument.shape)) if axis is None else jnp.moveaxis(argument, axis, 0)
        for argument, axis in zip(arguments, axes, strict=True)
    ]
    results = host_call_p.bind(*rows, **{**params, "batch": (size, *params["batch"])})
    return results, [0] * len(results)


batching.primitive_batchers[host_call_p] = _batched


def _lowered(*_: Any, function: HostFunction, **__: Any) -> Any:
    raise NotStagedError(
        f"{function} runs in Python and cannot be part of a compiled program: use make_solver, whose step then loops "
        "in Python, or wrap the function in gems_jax.stages.staged instead of jax.jit"
    )


mlir.register_lowering(host_call_p, _lowered)


def staged(function: Callable[..., Any], static_argnames: Sequence[str] = ()) -> Callable[..., Any]:
    """`jax.jit(function)`, run as stages of it with the host calls between them; jit itself where there are none."""
    signature = inspect.signature(function)

    @functools.cache
    def of_static(fixed: tuple[tuple[str, Any], ...]) -> Any:
        def traced(given: dict[str, Any]) -> Any:
            _STAGING.append(1)
            try:
                return function(**given, **dict(fixed))
            finally:
                _STAGING.pop()

        return jax.jit(traced)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        given = dict(signature.bind(*arguments, **keywords).arguments)
        fixed = tuple((name, given.pop(name)) for name in static_argnames if name in given)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
            return function(*arguments, **keywords)  # a part of what is being traced
        program = of_static(fixed)
        traced = program.trace(given)
        if not _calls_host(traced.jaxpr.jaxpr):
            return program(given)
        with session(), jax.debug_key_reuse(False):  # a key that outlives a stage is no key used twice
            results = _program(_ById(traced.jaxpr))(*jax.tree.leaves(given))
        return jax.tree.unflatten(jax.tree.structure(traced.out_info), [jnp.asarray(leaf) for leaf in results])

    return call


def compiled(static_argnames: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: `jax.jit`, but `staged` where an argument is a game that is played on the host."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        jitted, on_stages = jax.jit(function, static_argnames=static_argnames), staged(function, static_argnames)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            hosted = any(map(on_host, (*arguments, *keywords.values())))
            return (on_stages if hosted else jitted)(*arguments, **keywords)

        return call

    return decorate


def playing(static_argnames: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for what plays a game and is called as it is, not compiled: `staged` where the host plays it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        on_stages = staged(function, static_argnames)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            hosted = any(map(on_host, (*arguments, *keywords.values())))
            return (on_stages if hosted else function)(*arguments, **keywords)

        return call

    return decorate


_STAGING: list[int] = []


def staging() -> bool:
    """Whether a function that will run in stages is being traced."""
    return bool(_STAGING)


def on_host(game: Any) -> bool:
    """Whether a game is played in Python, and so by `staged` programs only."""
    return getattr(game, "on_host", False) is True


_DEPTH: list[int] = []
_AT_END: list[Callable[[], None]] = []


@contextlib.contextmanager
def session() -> Iterator[None]:
    """What host functions hold (games under way) lives until the outermost session ends."""
    _DEPTH.append(1)
    try:
        yield
    finally:
        _DEPTH.pop()
        if not _DEPTH:
            for finish in _AT_END:
                finish()


def at_session_end(finish: Callable[[], None]) -> None:
    """Calls `finish` whenever the outermost session ends."""
    _AT_END.append(finish)


# --- the parts of a trace


def _calls_host(jaxpr: Any) -> bool:
    return any(eqn.primitive is host_call_p or any(map(_calls_host, _inner(eqn))) for eqn in jaxpr.eqns)


def _inner(eqn: Any) -> Iterator[Any]:
    """The jaxprs inside an equation."""
    for value in eqn.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            part = getattr(part, "jaxpr", part)
            if isinstance(part, core.Jaxpr):
                yield part


@dataclasses.dataclass(frozen=True)
class _ById:
    """A trace as a key: itself, not its like."""

    closed: Any

    def __hash__(self) -> int:
        return id(self.closed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.closed is other.closed


Step = Callable[[list[Any]], Sequence[Any]]  # values in, values out


class _Program:
    """A trace as steps: each reads some variables and writes others. Values are dropped after their last use."""

    def __init__(self, closed: Any):
        self.closed, jaxpr = closed, closed.jaxpr
        self.steps: list[tuple[Step, list[Any], list[Any], list[Any]]] = []  # run, reads, writes, drops
        parts = _parts(jaxpr.eqns)
        wanted = {var for var in jaxpr.outvars if not isinstance(var, core.Literal)}
        needed_after = []  # by whom comes after a part
        for eqns in reversed(parts):
            needed_after.append(set(wanted))
            wanted |= {var for eqn in eqns for var in eqn.invars if not isinstance(var, core.Literal)}
        for eqns, after in zip(parts, reversed(needed_after), strict=True):
            made = [var for eqn in eqns for var in eqn.outvars]
            reads = list(dict.fromkeys(v for e in eqns for v in e.invars if not isinstance(v, core.Literal)))
            if len(eqns) == 1 and _is_host(eqns[0]):
                writes = list(eqns[0].outvars)
                run = _host_step(eqns[0], reads)
            else:
                inside = set(made)
                reads = [var for var in reads if var not in inside]
                writes = [var for var in made if var in after]
                run = _compiled_stage(jaxpr, eqns, reads, writes)
            drops = [var for var in {*reads, *writes} if var not in after]
            self.steps.append((run, reads, writes, drops))

    def __call__(self, *arguments: Any) -> list[Any]:
        jaxpr = self.closed.jaxpr
        values = dict(zip(jaxpr.constvars, self.closed.consts, strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))
        for run, reads, writes, drops in self.steps:
            values |= zip(writes, run([values[var] for var in reads]), strict=True)
            for var in drops:
                values.pop(var, None)
        return [var.val if isinstance(var, core.Literal) else values[var] for var in jaxpr.outvars]


@functools.lru_cache(maxsize=256)
def _program(key: _ById) -> _Program:
    return _Program(key.closed)


def _is_host(eqn: Any) -> bool:
    return eqn.primitive is host_call_p or any(map(_calls_host, _inner(eqn)))


def _parts(eqns: Sequence[Any]) -> list[list[Any]]:
    """Equations in order: what calls the host alone, all between two of those together."""
    parts: list[list[Any]] = [[]]
    for eqn in eqns:
        if _is_host(eqn):
            parts += [[eqn], []]
        else:
            parts[-1].append(eqn)
    return [part for part in parts if part]


def _compiled_stage(jaxpr: Any, eqns: Sequence[Any], reads: Sequence[Any], writes: Sequence[Any]) -> Step:
    part = jaxpr.replace(constvars=[], invars=list(reads), outvars=list(writes), eqns=list(eqns))
    run = jax.jit(core.jaxpr_as_fun(core.ClosedJaxpr(part, [])))
    return lambda given: run(*given)


def _host_step(eqn: Any, reads: Sequence[Any]) -> Step:
    """One equation that calls the host, or that has such equations inside."""
    kinds: dict[Any, Callable[..., Callable[..., Sequence[Any]]]] = {
        host_call_p: _call,
        core.primitives.scan_p: _scan,
        core.primitives.while_p: _while,
        core.primitives.cond_p: _cond,
        core.primitives.jit_p: _jit,
    }
    if eqn.primitive not in kinds:
        raise NotStagedError(f"a Python environment cannot be played inside {eqn.primitive}")
    run = kinds[eqn.primitive](**eqn.params)
    place = {var: number for number, var in enumerate(reads)}
    order = [var.val if isinstance(var, core.Literal) else place[var] for var in eqn.invars]
    literal = [isinstance(var, core.Literal) for var in eqn.invars]
    return lambda given: run(*(v if fixed else given[v] for v, fixed in zip(order, literal, strict=True)))


def _call(function: HostFunction, **_: Any) -> Callable[..., Sequence[Any]]:
    return lambda *arguments: function(*(np.asarray(argument) for argument in arguments))


def _jit(jaxpr: Any, **_: Any) -> Callable[..., Sequence[Any]]:
    return _program(_ById(jaxpr))


def _cond(branches: Sequence[Any], **_: Any) -> Callable[..., Sequence[Any]]:
    programs = [_Program(branch) for branch in branches]
    return lambda index, *operands: programs[int(np.clip(index, 0, len(programs) - 1))](*operands)


def _while(
    cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int, **_: Any
) -> Callable[..., Sequence[Any]]:
    condition, body = (core.jaxpr_as_fun(closed) for closed in (cond_jaxpr, body_jaxpr))

    def goes_on(ahead: Sequence[Any], carry: Sequence[Any]) -> Array:
        return jnp.any(condition(*ahead, *carry)[0])

    def turn(ahead: list[Any], fixed: list[Any], carry: list[Any]) -> tuple[Any, list[Any]]:
        mine, after = condition(*ahead, *carry)[0], body(*fixed, *carry)
        if mine.ndim:  # under vmap every lane has a condition of its own, and stays as it is once that is false
            after = [
                jnp.where(mine.reshape(*mine.shape, *[1] * (new.ndim - mine.ndim)), new, old)
                for new, old in zip(after, carry, strict=True)
            ]
        return goes_on(ahead, after), after

    def avals(jaxpr: Any, part: slice) -> list[Any]:
        return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals[part]]

    once = _Program(
        jax.make_jaxpr(turn)(
            avals(cond_jaxpr, slice(cond_nconsts)),
            avals(body_jaxpr, slice(body_nconsts)),
            avals(body_jaxpr, slice(body_nconsts, None)),
        )
    )
    begins = jax.jit(goes_on)

    def run(*arguments: Any) -> Sequence[Any]:
        ahead, fixed = arguments[:cond_nconsts], arguments[cond_nconsts : cond_nconsts + body_nconsts]
        carry = list(arguments[cond_nconsts + body_nconsts :])
        more = begins(ahead, carry)
        while bool(more):
            more, *carry = once(*ahead, *fixed, *carry)
        return carry

    return run


def _scan(jaxpr: Any, length: int, reverse: bool, num_consts: int, num_carry: int, **_: Any) -> Callable[..., Any]:
    body = core.jaxpr_as_fun(jaxpr)

    def turn(number: Array, fixed: list[Any], carry: list[Any], rows: list[Any]) -> list[Any]:
        row = [jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False) for leaf in rows]
        return body(*fixed, *carry, *row)

    kinds = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    ends = num_consts + num_carry
    rows = [jax.ShapeDtypeStruct((length, *kind.shape), kind.dtype) for kind in kinds[ends:]]
    number = jax.ShapeDtypeStruct((), jnp.int32)
    once = _Program(jax.make_jaxpr(turn)(number, kinds[:num_consts], kinds[num_consts:ends], rows))

    def run(*arguments: Any) -> list[Any]:
        fixed, carry, rows = arguments[:num_consts], list(arguments[num_consts:ends]), arguments[ends:]
        made: list[list[Any]] = [[] for _ in jaxpr.out_avals[num_carry:]]
        for turned in reversed(range(length)) if reverse else range(length):
            after = once(np.int32(turned), *fixed, *carry, *rows)
            carry = after[:num_carry]
            for column, value in zip(made, after[num_carry:], strict=True):
                column.append(value)
        columns = [
            _stacked(column[::-1] if reverse else column, aval)
            for column, aval in zip(made, jaxpr.out_avals[num_carry:], strict=True)
        ]
        return [*carry, *columns]

    return run


def _stacked(rows: list[Any], aval: Any) -> Any:
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jnp.stack(rows)
    return np.stack([np.asarray(row) for row in rows]) if rows else np.zeros((0, *aval.shape), aval.dtype)
