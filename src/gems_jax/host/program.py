"""Programs made from traces with host calls: compiled stages, host calls, and Python loops around them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from gems_jax.host.call import HostFunction, NotStagedError, host_call_p
from gems_jax.types import Array


def calls_host(jaxpr: Any) -> bool:
    """Returns whether a jaxpr contains a host call at any depth."""
    return any(eqn.primitive is host_call_p or any(map(calls_host, _inner_jaxprs(eqn))) for eqn in jaxpr.eqns)


def _inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """Yields the jaxprs inside an equation."""
    for value in eqn.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            part = getattr(part, "jaxpr", part)
            if isinstance(part, core.Jaxpr):
                yield part


@dataclasses.dataclass(frozen=True)
class ById:
    """A trace as a dictionary key, compared by identity."""

    closed: Any

    def __hash__(self) -> int:
        return id(self.closed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.closed is other.closed


class _Stage(NamedTuple):
    """One step of a program: a host call, or the compiled equations between two of them."""

    run: Callable[[list[Any]], Sequence[Any]]  # values of `reads` in, values of `writes` out
    reads: list[Any]
    writes: list[Any]
    drops: set[Any]  # variables that no later stage reads

    def update(self, values: dict[Any, Any]) -> None:
        values |= zip(self.writes, self.run([values[var] for var in self.reads]), strict=True)
        for var in self.drops:
            values.pop(var, None)


class _Program:
    """A trace as stages, each of which reads and writes variables. Values are dropped after their last use."""

    def __init__(self, closed: Any):
        self.closed = closed
        self.stages: list[_Stage] = []
        wanted = set(_variables(closed.jaxpr.outvars))  # variables that later stages read
        for eqns in reversed(_split_at_host_calls(closed.jaxpr.eqns)):
            self.stages.insert(0, _make_stage(closed.jaxpr, eqns, wanted))
            wanted |= set(_input_variables(eqns))

    def __call__(self, *arguments: Any) -> list[Any]:
        jaxpr = self.closed.jaxpr
        values = dict(zip(jaxpr.constvars, self.closed.consts, strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))
        for stage in self.stages:
            stage.update(values)
        return [var.val if isinstance(var, core.Literal) else values[var] for var in jaxpr.outvars]


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, core.Literal)]


def _input_variables(eqns: Sequence[Any]) -> list[Any]:
    """Returns all variables that equations read, without duplicates."""
    return list(dict.fromkeys(var for eqn in eqns for var in _variables(eqn.invars)))


def _make_stage(jaxpr: Any, eqns: Sequence[Any], wanted: set[Any]) -> _Stage:
    """Makes the stage of some equations. wanted: variables that later stages read."""
    reads, writes = _input_variables(eqns), [var for eqn in eqns for var in eqn.outvars]
    if _is_host(eqns[0]):
        run = _host_stage(eqns[0], reads)
    else:
        inside = set(writes)
        reads, writes = [var for var in reads if var not in inside], [var for var in writes if var in wanted]
        run = _compiled_stage(jaxpr, eqns, reads, writes)
    return _Stage(run, reads, writes, {*reads, *writes} - wanted)


@functools.lru_cache(maxsize=256)
def build_program(key: ById) -> _Program:
    """Cuts a trace into stages; cached by identity."""
    return _Program(key.closed)


def _is_host(eqn: Any) -> bool:
    return eqn.primitive is host_call_p or any(map(calls_host, _inner_jaxprs(eqn)))


def _split_at_host_calls(eqns: Sequence[Any]) -> list[list[Any]]:
    """Groups equations in order: each host call alone, all between two host calls together."""
    parts: list[list[Any]] = [[]]
    for eqn in eqns:
        if _is_host(eqn):
            parts += [[eqn], []]
        else:
            parts[-1].append(eqn)
    return [part for part in parts if part]


def _compiled_stage(
    jaxpr: Any, eqns: Sequence[Any], reads: Sequence[Any], writes: Sequence[Any]
) -> Callable[[list[Any]], Sequence[Any]]:
    part = jaxpr.replace(constvars=[], invars=list(reads), outvars=list(writes), eqns=list(eqns))
    run = jax.jit(core.jaxpr_as_fun(core.ClosedJaxpr(part, [])))
    return lambda given: run(*given)


def _host_stage(eqn: Any, reads: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """Makes the stage of one equation that is or contains a host call."""
    kinds: dict[Any, Callable[..., Callable[..., Sequence[Any]]]] = {
        host_call_p: _call,
        core.primitives.scan_p: _scan,
        core.primitives.while_p: _while,
        core.primitives.cond_p: _cond,
        core.primitives.jit_p: _jit,
    }
    if eqn.primitive not in kinds:
        raise NotStagedError(
            f"cannot run a Python environment inside {eqn.primitive}: expected jit, scan, while_loop or cond"
        )
    run = kinds[eqn.primitive](**eqn.params)

    def with_literals(given: list[Any]) -> Sequence[Any]:
        values = dict(zip(reads, given, strict=True))
        return run(*(var.val if isinstance(var, core.Literal) else values[var] for var in eqn.invars))

    return with_literals


def _call(function: HostFunction, **_: Any) -> Callable[..., Sequence[Any]]:
    return lambda *arguments: function(*(np.asarray(argument) for argument in arguments))


def _jit(jaxpr: Any, **_: Any) -> Callable[..., Sequence[Any]]:
    return build_program(ById(jaxpr))


def _cond(branches: Sequence[Any], **_: Any) -> Callable[..., Sequence[Any]]:
    programs = [_Program(branch) for branch in branches]
    return lambda index, *operands: programs[int(np.clip(index, 0, len(programs) - 1))](*operands)


def _while(
    cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int, **_: Any
) -> Callable[..., Sequence[Any]]:
    condition, body = (core.jaxpr_as_fun(closed) for closed in (cond_jaxpr, body_jaxpr))

    def continues(ahead: Sequence[Any], carry: Sequence[Any]) -> Array:
        return jnp.any(condition(*ahead, *carry)[0])

    def iterate(ahead: list[Any], fixed: list[Any], carry: list[Any]) -> tuple[Any, list[Any]]:
        mine, after = condition(*ahead, *carry)[0], body(*fixed, *carry)
        if mine.ndim:  # under vmap: one condition per batch entry, which is frozen once it is false
            after = [
                jnp.where(mine.reshape(*mine.shape, *[1] * (new.ndim - mine.ndim)), new, old)
                for new, old in zip(after, carry, strict=True)
            ]
        return continues(ahead, after), after

    def avals(jaxpr: Any, part: slice) -> list[Any]:
        return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals[part]]

    iteration = _Program(
        jax.make_jaxpr(iterate)(
            avals(cond_jaxpr, slice(cond_nconsts)),
            avals(body_jaxpr, slice(body_nconsts)),
            avals(body_jaxpr, slice(body_nconsts, None)),
        )
    )
    starts = jax.jit(continues)

    def run(*arguments: Any) -> Sequence[Any]:
        ahead, fixed = arguments[:cond_nconsts], arguments[cond_nconsts : cond_nconsts + body_nconsts]
        carry = list(arguments[cond_nconsts + body_nconsts :])
        more = starts(ahead, carry)
        while bool(more):
            more, *carry = iteration(*ahead, *fixed, *carry)
        return carry

    return run


def _scan(jaxpr: Any, length: int, reverse: bool, num_consts: int, num_carry: int, **_: Any) -> Callable[..., Any]:
    body = core.jaxpr_as_fun(jaxpr)

    def iterate(index: Array, fixed: list[Any], carry: list[Any], rows: list[Any]) -> list[Any]:
        row = [jax.lax.dynamic_index_in_dim(leaf, index, keepdims=False) for leaf in rows]
        return body(*fixed, *carry, *row)

    kinds = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    ends = num_consts + num_carry
    rows = [jax.ShapeDtypeStruct((max(length, 1), *kind.shape), kind.dtype) for kind in kinds[ends:]]
    index = jax.ShapeDtypeStruct((), jnp.int32)
    iteration = _Program(jax.make_jaxpr(iterate)(index, kinds[:num_consts], kinds[num_consts:ends], rows))

    def run(*arguments: Any) -> list[Any]:
        fixed, carry, rows = arguments[:num_consts], list(arguments[num_consts:ends]), arguments[ends:]
        made: list[list[Any]] = [[] for _ in jaxpr.out_avals[num_carry:]]
        for index in reversed(range(length)) if reverse else range(length):
            after = iteration(np.int32(index), *fixed, *carry, *rows)
            carry = after[:num_carry]
            for column, value in zip(made, after[num_carry:], strict=True):
                column.append(value)
        columns = [
            _stack_rows(column[::-1] if reverse else column, aval)
            for column, aval in zip(made, jaxpr.out_avals[num_carry:], strict=True)
        ]
        return [*carry, *columns]

    return run


def _stack_rows(rows: list[Any], aval: Any) -> Any:
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jnp.stack(rows)
    return np.stack([np.asarray(row) for row in rows]) if rows else np.zeros((0, *aval.shape), aval.dtype)
