"""`call_host`: the primitive that stands for a call of a Python function on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        "in Python, or wrap the function in gems_jax.host.stages.staged instead of jax.jit"
    )


mlir.register_lowering(host_call_p, _lowered)
