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


def once(flags: jax.Array) -> jax.Array:
    """The same flags, worked out once where something larger is made of them.

    XLA's CPU back end puts cheap operations into every kernel that needs their result: a flag that a hundred of them
    lead to would be worked out anew for every element. A square root counts as expensive, and is kept.
    """
    return jnp.sqrt(flags.astype(jnp.float32)) > 0.0


def kept(x: jax.Array) -> jax.Array:
    """The same numbers, worked out once and kept, where XLA would do so in every kernel that needs them.

    A reduction keeps what it reduces to: this one adds nothing.
    """
    first = (jnp.arange(2) == 0).reshape(2, *(1,) * x.ndim)
    return jnp.sum(jnp.where(first, x[None], jnp.zeros((), x.dtype)), axis=0, dtype=x.dtype)


@jax.custom_jvp
def kept_gradient(x: jax.Array) -> jax.Array:
    """The same numbers, whose gradient is `kept`."""
    return x


@kept_gradient.defjvp
def _kept_tangent(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return kept_gradient(primals[0]), kept(tangents[0])  # linear, and its own transpose
