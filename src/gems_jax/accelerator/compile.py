"""Compilation of outermost programs, with the XLA options that measured faster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

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
    return jax.jit(function, compiler_options=compiler_options() or None, **options)
