"""Programs with host calls: traced like any other, run as compiled stages with the host calls between them.

`call_host(function, ...)` stands for a call of a Python function on NumPy arrays. It traces, and it batches: under vmap
the function gets one more leading axis. It never becomes part of a compiled program. `stage(function)` replaces
`jax.jit(function)`: it traces once, cuts the trace at its host calls, compiles the equations between them, and turns
loops that contain host calls into Python loops. Python environments, whose state XLA can neither copy nor wait for, are
therefore played by the same functions as JAX games. No compiled program calls back into Python, errors are Python
exceptions, and the order of calls is that of the trace.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from gems_jax.host.call import NotStagedError, call_host
from gems_jax.host.program import ById, build_program, calls_host

__all__ = [
    "NotStagedError",
    "call_at_session_end",
    "call_host",
    "compile_play",
    "is_staging",
    "on_host",
    "session",
    "stage",
    "stage_play",
]


def stage(function: Callable[..., Any], static_argnames: Sequence[str] = ()) -> Callable[..., Any]:
    """Compiles a function like `jax.jit`, in stages with its host calls between them.

    A function without host calls is jitted as a whole. Called inside a trace, the function becomes part of that trace.

    Args:
      function: a traceable function that may call `call_host`.
      static_argnames: names of static arguments, hashed by value.

    Returns:
      A function with the same arguments and results.
    """
    names = dict(enumerate(inspect.signature(function).parameters))

    @functools.cache
    def jit_for(count: int, fixed: tuple[tuple[int | str, Any], ...]) -> Any:
        def traced(given: dict[int | str, Any]) -> Any:
            everything: dict[Any, Any] = given | dict(fixed)
            positional = [everything.pop(number) for number in range(count)]
            _STAGING.append(1)
            try:
                return function(*positional, **everything)
            finally:
                _STAGING.pop()

        return jax.jit(lambda positional, keywords: traced({**positional, **keywords}))

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((arguments, keywords))):
            return function(*arguments, **keywords)  # part of the surrounding trace
        fixed = [(number, value) for number, value in enumerate(arguments) if names.get(number) in static_argnames]
        named = [(name, keywords[name]) for name in static_argnames if name in keywords]
        program = jit_for(len(arguments), (*fixed, *named))
        given = (
            {number: value for number, value in enumerate(arguments) if number not in dict(fixed)},
            {name: value for name, value in keywords.items() if name not in static_argnames},
        )
        traced = program.trace(*given)
        if not calls_host(traced.jaxpr.jaxpr):
            return program(*given)
        with session(), jax.debug_key_reuse(False):  # a key that outlives a stage is not reused
            results = build_program(ById(traced.jaxpr))(*jax.tree.leaves(given))
        return jax.tree.unflatten(jax.tree.structure(traced.out_info), [jnp.asarray(leaf) for leaf in results])

    return call


F = TypeVar("F", bound=Callable[..., Any])


def compile_play(static_argnames: Sequence[str] = ()) -> Callable[[F], F]:
    """Returns a decorator: `jax.jit`, or `stage` if an argument is a game that runs on the host."""
    return lambda function: _dispatch_on_game(
        function, static_argnames, jax.jit(function, static_argnames=static_argnames)
    )


def stage_play(static_argnames: Sequence[str] = ()) -> Callable[[F], F]:
    """Returns a decorator for uncompiled functions that play a game: `stage` if the game runs on the host."""
    return lambda function: _dispatch_on_game(function, static_argnames, function)


def _dispatch_on_game(function: F, static_argnames: Sequence[str], otherwise: Callable[..., Any]) -> F:
    """Calls the staged function if an argument is a game on the host, `otherwise` if none is."""
    on_stages = stage(function, static_argnames)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        hosted = any(map(on_host, (*arguments, *keywords.values())))
        return (on_stages if hosted else otherwise)(*arguments, **keywords)

    return call  # type: ignore[return-value]


_STAGING: list[int] = []


def is_staging() -> bool:
    """Returns whether a function that will run in stages is being traced."""
    return bool(_STAGING)


def on_host(game: Any) -> bool:
    """Returns whether a game runs in Python, so that only staged programs can play it."""
    return getattr(game, "on_host", False) is True


_DEPTH: list[int] = []
_AT_END: list[Callable[[], None]] = []


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Keeps the games that run on the host alive until the outermost session ends."""
    _DEPTH.append(1)
    try:
        yield
    finally:
        _DEPTH.pop()
        if not _DEPTH:
            for finish in _AT_END:
                finish()


def call_at_session_end(finish: Callable[[], None]) -> None:
    """Registers a function that is called whenever the outermost session ends."""
    _AT_END.append(finish)
