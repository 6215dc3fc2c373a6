"""Runs that differ in numbers alone: one compiled program for all of them, whose arguments the numbers are."""

from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig, is_real
from gems_jax.runner.engine import Family, Parts
from gems_jax.types import PyTree, Solver


def traced_fields(config: Any, solver: Solver) -> tuple[str, ...]:
    """The fields that may be tracers: all real-valued fields of GEMS, where a step is one compiled program.

    Numbers for each player (a tuple) stay as they are: arms that differ in them have programs of their own.

    Step sizes, weights, shares, caps and scales alike: no phase branches in Python on any of them
    (`tests/sweep/test_cells.py` runs with all of them traced). The other methods look at some of theirs.
    """
    if not solver.jittable or not isinstance(config, GemsConfig):
        return ()
    hints = typing.get_type_hints(type(config))
    return tuple(name for name, hint in hints.items() if is_real(hint) and not isinstance(getattr(config, name), tuple))


def family_of(
    parts: Callable[[dict[str, Any]], Parts], numbers: Mapping[str, Sequence[float]], program: Hashable = None
) -> Family:
    """One run for each of the `numbers` of a field. parts(own): of the run whose fields have the values `own`."""

    def member(own: PyTree) -> Parts:
        with jax.ensure_compile_time_eval():  # a game is walked now, whoever traces
            return parts(own)

    columns = {name: jnp.asarray(column, jnp.float32) for name, column in numbers.items()}
    return Family(member, columns, program)
