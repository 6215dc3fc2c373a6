"""Step sizes of the meta-strategy update (eq:eta-schedules)."""

from __future__ import annotations

from typing import Literal, get_args

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array

Schedule = Literal["const", "sqrt", "harmonic"]


def step_size(
    schedule: Schedule,
    eta: ArrayLike | tuple[ArrayLike, ...],
    alpha: ArrayLike,
    t: ArrayLike,
    slowdown: ArrayLike = 1.0,
) -> Array:
    """Computes the step size eta_t of the OMWU update (eq:eta-schedules), with eta_0 = eta / slowdown.

        const: eta_0        sqrt: eta_0 / sqrt(t)        harmonic: eta_0 / (1 + alpha t)

    Args:
      schedule: "const", "sqrt" or "harmonic"; static.
      eta: eta_0 before the slowdown, [] or one per population, a tuple or [P]; may be traced, as may the rest.
      alpha: decay of the harmonic schedule, [].
      t: meta update, counted from 1, [].
      slowdown: s of the paper, which divides eta_0, [].

    Returns:
      eta_t, [] or [P] as `eta`.

    Raises:
      ValueError: if the schedule is unknown.
    """
    eta_0 = jnp.asarray(eta, jnp.float32) / jnp.asarray(slowdown, jnp.float32)
    t = jnp.asarray(t, jnp.float32)
    if schedule == "const":
        return eta_0
    if schedule == "sqrt":
        return eta_0 / jnp.sqrt(t)
    if schedule == "harmonic":
        return eta_0 / (1.0 + jnp.asarray(alpha, jnp.float32) * t)
    known = ", ".join(get_args(Schedule))
    raise ValueError(f"step_size: unknown schedule, expected one of {known}, got {schedule!r}.")
