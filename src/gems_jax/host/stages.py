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
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from gems_jax.host.call import NotStagedError, call_host
from gems_jax.host.program import ById, calls_host, program_of

__all__ = [
    "NotStagedError",
    "at_session_end",
    "call_host",
    "compile_play",
    "on_host",
    "session",
    "stage_play",
    "staged",
    "staging",
]


def staged(function: Callable[..., Any], static_argnames: Sequence[str] = ()) -> Callable[..., Any]:
    """`jax.jit(function)`, run as stages of it with the host calls between them; jit itself where there are none."""
    names = dict(enumerate(inspect.signature(function).parameters))

    @functools.cache
    def of_static(count: int, fixed: tuple[tuple[int | str, Any], ...]) -> Any:
        def traced(given: dict[int | str, Any]) -> Any:
            everything: dict[Any, Any] = given | dict(fixed)
            places = [everything.pop(number) for number in range(count)]
            _STAGING.append(1)
            try:
                return function(*places, **everything)
            finally:
                _STAGING.pop()

        return jax.jit(lambda places, keywords: traced({**places, **keywords}))

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((arguments, keywords))):
            return function(*arguments, **keywords)  # a part of what is being traced
        fixed = [(number, value) for number, value in enumerate(arguments) if names.get(number) in static_argnames]
        named = [(name, keywords[name]) for name in static_argnames if name in keywords]
        program = of_static(len(arguments), (*fixed, *named))
        given = (
            {number: value for number, value in enumerate(arguments) if number not in dict(fixed)},
            {name: value for name, value in keywords.items() if name not in static_argnames},
        )
        traced = program.trace(*given)
        if not calls_host(traced.jaxpr.jaxpr):
            return program(*given)
        with session(), jax.debug_key_reuse(False):  # a key that outlives a stage is no key used twice
            results = program_of(ById(traced.jaxpr))(*jax.tree.leaves(given))
        return jax.tree.unflatten(jax.tree.structure(traced.out_info), [jnp.asarray(leaf) for leaf in results])

    return call


F = TypeVar("F", bound=Callable[..., Any])


def compile_play(static_argnames: Sequence[str] = ()) -> Callable[[F], F]:
    """A decorator: `jax.jit`, but `staged` where an argument is a game that is played on the host."""
    return lambda function: _by_game(function, static_argnames, jax.jit(function, static_argnames=static_argnames))


def stage_play(static_argnames: Sequence[str] = ()) -> Callable[[F], F]:
    """A decorator for what plays a game and is called as it is, not compiled: `staged` where the host plays it."""
    return lambda function: _by_game(function, static_argnames, function)


def _by_game(function: F, static_argnames: Sequence[str], otherwise: Callable[..., Any]) -> F:
    on_stages = staged(function, static_argnames)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        hosted = any(map(on_host, (*arguments, *keywords.values())))
        return (on_stages if hosted else otherwise)(*arguments, **keywords)

    return call  # type: ignore[return-value]


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
