"""Compilation of outermost programs, with the XLA options that measured faster."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.interpreters import partial_eval

from gems_jax.accelerator.cpu import cpu_workarounds

# XLA:CPU hands reductions to YNNPACK, even those over two legal actions or three steps of an episode, and a solver has
# hundreds of them. XLA's own loops compile faster. Gain: 1.7 (as in `accelerator.cpu`).
_CPU: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}


def compiler_options() -> dict[str, str | bool]:
    """Returns options for `jax.jit(..., compiler_options=...)` of an outermost program."""
    return _known_options() if cpu_workarounds() else {}


@functools.cache
def _known_options() -> dict[str, str | bool]:
    """The options, or none if this version of XLA does not know them."""
    try:
        jax.jit(lambda: 0, compiler_options=_CPU).lower().compile()
    except Exception:
        return {}
    return _CPU


def program(function: Callable[..., Any], **options: Any) -> Any:
    """Wraps a function in `jax.jit` as an outermost program, which no other program may call.

    Args:
      function: function to compile.
      options: further arguments of `jax.jit`.

    Returns:
      The jitted function.
    """

    @functools.wraps(function)
    def traced(*arguments: Any, **named: Any) -> Any:
        with pause_garbage_collection():
            return function(*arguments, **named)

    return jax.jit(traced, compiler_options=compiler_options() or None, **options)


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pauses Python's search for reference cycles inside the block.

    Tracing and lowering allocate objects that stay, and Python searches all of them again and again: a third of the CPU
    time of tracing Kuhn poker. Objects without cycles are freed as always.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def prune(function: Callable[..., Any]) -> Callable[..., Any]:
    """Drops what the results of a function do not need from its trace, also inside of the functions that it calls.

    XLA does the same, but only after everything was lowered and inlined: play of tables computes observations and
    distributions that nobody reads. The function must not close over traced arrays.

    Args:
      function: a function of pytrees of arrays.

    Returns:
      The function with a smaller trace.
    """

    def call(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        everything = [True] * len(closed.jaxpr.outvars)
        jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, everything, instantiate=True)
        results = jax.core.eval_jaxpr(jaxpr, closed.consts, *jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return call
