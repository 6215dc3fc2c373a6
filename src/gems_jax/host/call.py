"""The primitive `call_host`: a call of a Python function on NumPy arrays inside a trace."""

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
    """A program with a host call cannot be compiled; run it with `stage`, as `make_solver` does."""


host_call_p = core.Primitive("host_call")
host_call_p.multiple_results = True


def call_host(
    function: HostFunction, results: Sequence[jax.ShapeDtypeStruct], *arguments: Array, owned: int | None = None
) -> list[Array]:
    """Calls a Python function on NumPy arrays. Traces and batches; outside of a trace it is called at once.

    Under vmap the function is called once, with one more leading axis.

    Args:
      function: function(*arguments) -> results, hashed by value.
      results: shapes and dtypes of the results.
      arguments: arrays.
      owned: index of the argument that identifies the object which the call modifies. A vmap over the other arguments
        alone would modify one object in several ways and raises.

    Returns:
      The results.

    Raises:
      NotStagedError: under jit outside of `gems_jax.host.stages.stage`, or under such a vmap.
    """
    shapes = tuple((tuple(result.shape), np.dtype(result.dtype)) for result in results)
    return host_call_p.bind(*arguments, function=function, results=shapes, batch=(), owned=owned)


@host_call_p.def_abstract_eval
def _abstract(*arguments: Any, function: HostFunction, results: Any, batch: tuple[int, ...], owned: Any) -> list[Any]:
    del arguments, function, owned
    return [jax.core.ShapedArray((*batch, *shape), dtype) for shape, dtype in results]


@host_call_p.def_impl
def _execute(*arguments: Any, function: HostFunction, results: Any, batch: Any, owned: Any) -> list[Any]:
    del results, batch, owned
    return [jnp.asarray(result) for result in function(*(np.asarray(argument) for argument in arguments))]


def _batch(arguments: Any, axes: Any, **params: Any) -> tuple[list[Any], list[int]]:
    owned = params["owned"]
    if owned is not None and axes[owned] is None:
        raise NotStagedError(
            "cannot vmap over the actions of one Python environment: expected one environment per action, got one for "
            "all. Python environments cannot be copied. Start one episode each: vmap over keys, which may be equal."
        )
    size = next(argument.shape[axis] for argument, axis in zip(arguments, axes, strict=True) if axis is not None)
    rows = [
        jnp.broadcast_to(argument, (size, *argument.shape)) if axis is None else jnp.moveaxis(argument, axis, 0)
        for argument, axis in zip(arguments, axes, strict=True)
    ]
    results = host_call_p.bind(*rows, **{**params, "batch": (size, *params["batch"])})
    return results, [0] * len(results)


batching.primitive_batchers[host_call_p] = _batch


def _refuse_lowering(*_: Any, function: HostFunction, **__: Any) -> Any:
    raise NotStagedError(
        f"{function} runs in Python and cannot be part of a compiled program. Use make_solver, whose step then loops "
        "in Python, or wrap the function in gems_jax.host.stages.stage instead of jax.jit."
    )


mlir.register_lowering(host_call_p, _refuse_lowering)
