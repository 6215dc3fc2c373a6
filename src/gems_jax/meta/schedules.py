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
    """eta_t of eq:eta-schedules, with eta_0 = eta / slowdown.

        const: eta_0        sqrt: eta_0 / sqrt(t)        harmonic: eta_0 / (1 + alpha t)

    `t` counts iterations from 1. `schedule` is static; the others may be traced, and broadcast like scalars. An eta of
    one number per player, a tuple or [P], gives [P].
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
    raise ValueError(f"step_size got the unknown schedule {schedule!r}; expected one of: {known}.")
