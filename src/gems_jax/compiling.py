"""How top-level programs are compiled: with the options of XLA that measured faster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# XLA's CPU back end hands reductions to YNNPACK, also those over two legal actions or three steps of an episode, of
# which a solver has hundreds: its own loops take half of the time there, compile faster, and are as fast elsewhere.
_CPU: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}


@functools.cache
def compiler_options() -> dict[str, str | bool]:
    """For `jax.jit(..., compiler_options=...)` of an outermost program; none where this XLA does not know them."""
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda: 0, compiler_options=_CPU).lower().compile()
    except Exception:
        return {}
    return _CPU


def program(function: Callable[..., Any], **options: Any) -> Any:
    """`jax.jit` for an outermost program: it may call others, but is not to be called from within one."""
    return jax.jit(function, compiler_options=compiler_options() or None, **options)


def once(flag: jax.Array) -> jax.Array:
    """The same flag, worked out once where something large is selected by it.

    XLA's CPU back end puts cheap operations into every kernel that needs their result: a flag that a hundred of them
    lead to would be worked out anew for every element. An exponential counts as expensive, and is kept.
    """
    return jnp.exp(jnp.where(flag, 0.0, -jnp.inf)) > 0.0
