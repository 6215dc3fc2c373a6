"""Floating-point operations of a traced function, counted in its jaxpr: matrix products and convolutions only.

Everything else that a learner does is linear in what it reads. Loops count as often as they run; a `while` whose
number of turns is not known before counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax

from gems_jax.config import GemsConfig
from gems_jax.gems.state import GemsState
from gems_jax.profiling.phase_times import META, ORACLE, TRAINING, phase_programs
from gems_jax.types import Array, Game


def flops(function: Callable[..., Any], *arguments: Any) -> float:
    """Multiplications and additions of one call; arguments may be shapes (`jax.ShapeDtypeStruct`)."""
    return _of(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of(jaxpr: Any) -> float:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2.0 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel, numbers = equation.invars[1].aval.shape, params["dimension_numbers"]
        per_output = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
        return 2.0 * math.prod(equation.outvars[0].aval.shape) * per_output
    if name == "scan":
        return float(params["length"]) * _of(params["jaxpr"].jaxpr)
    if name == "cond":
        return max(_of(branch.jaxpr) for branch in params["branches"])
    return sum(_of(inner) for value in params.values() for inner in _inner(value))


def _inner(value: Any) -> list[Any]:
    """The jaxprs in a parameter of an equation: of calls, loops and custom derivatives."""
    if hasattr(value, "eqns"):
        return [value]
    if hasattr(value, "jaxpr"):
        return [value.jaxpr]
    return []


def learning_flops(game: Game, config: GemsConfig, state: GemsState, key: Array) -> float:
    """Counts operations of the gradient steps of one iteration, by the cost of one more pass over every round."""
    programs = phase_programs(game, config)
    solution = jax.eval_shape(programs[META], state, key, None)
    found = jax.eval_shape(programs[ORACLE], state, key, solution)

    def total(epochs: int) -> float:
        training = phase_programs(game, config.replace(abr_epochs=epochs))[TRAINING]
        return flops(training, state, key, found)

    return config.abr_epochs * (total(2) - total(1))
