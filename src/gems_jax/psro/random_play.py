"""`random`: everybody takes any legal action, and nobody learns. What all other figures stand beside."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.config import Settings, size
from gems_jax.evaluate.sampled import random_profile
from gems_jax.host.stages import on_host
from gems_jax.types import Array, Game, PyTree, Solver


class RandomConfig(Settings):
    """Nothing to set but the length of a run."""

    iterations: int = size(1)
    """Iterations, all alike."""


class RandomMetrics(NamedTuple):
    """What it costs: nothing."""

    episodes: Array
    env_steps: Array


def random_solver(game: Game, config: RandomConfig) -> Solver:
    """The state counts iterations."""
    del config

    def step(state: PyTree, key: Array) -> tuple[PyTree, RandomMetrics]:
        del key
        return {"step": state["step"] + 1}, RandomMetrics(jnp.int32(0), jnp.int32(0))

    return Solver(
        init=lambda key: {"step": jnp.int32(0)},
        step=step,
        profile=lambda state, which="iterate": random_profile(game),
        jittable=not on_host(game),
    )
