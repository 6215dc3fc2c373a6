"""A trace with host calls in it as a program: compiled stages, host calls, and Python loops around them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from gems_jax.host.call import HostFunction, NotStagedError, host_call_p
from gems_jax.types import Array


def calls_host(jaxpr: Any) -> bool:
    return any(eqn.primitive is host_call_p or any(map(calls_host, _inner(eqn))) for eqn in jaxpr.eqns)


def _inner(eqn: Any) -> Iterator[Any]:
    """The jaxprs inside an equation."""
    for value in eqn.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            part = getattr(part, "jaxpr", part)
            if isinstance(part, core.Jaxpr):
                yield part


@dataclasses.dataclass(frozen=True)
class ById:
    """A trace as a key: itself, not its like."""

    closed: Any

    def __hash__(self) -> int:
        return id(self.closed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.closed is other.closed


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
def program_of(key: ById) -> _Program:
    return _Program(key.closed)


def _is_host(eqn: Any) -> bool:
    return eqn.primitive is host_call_p or any(map(calls_host, _inner(eqn)))


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
    return program_of(ById(jaxpr))


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
