"""Time of each phase of a GEMS iteration, compiled separately, and of the complete step."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.compile import program
from gems_jax.accelerator.prng import fused_key
from gems_jax.config import GemsConfig
from gems_jax.gems.meta_game import update_meta_strategy
from gems_jax.gems.oracle import expand
from gems_jax.gems.response import respond
from gems_jax.gems.state import GemsState, population_of
from gems_jax.gems.step import gems_step
from gems_jax.policies.population import materialize
from gems_jax.types import Array, Game

META, ORACLE, TRAINING = "estimate and meta-strategy", "oracle", "best response"
PHASES = (META, ORACLE, TRAINING)


class PhaseTimes(NamedTuple):
    """Seconds [repeats] of each phase and of the complete step; episodes and environment steps of each phase."""

    seconds: dict[str, np.ndarray]
    whole: np.ndarray
    episodes: dict[str, int]
    env_steps: dict[str, int]
    compiling: float


def phase_programs(game: Game, config: GemsConfig) -> dict[str, Callable[..., Any]]:
    """Makes a pure function `(state, key, result of the previous phase[, steps]) -> result` for each phase.

    `steps` is the number of meta-strategy updates or ABR steps, by default the config's. It may be traced.
    """

    def meta(state: GemsState, key: Array, before: None, steps: int | Array | None = None) -> Any:
        del before
        opponents = materialize(population_of(state, game, config), config.capacity)
        return update_meta_strategy(key, state, opponents, game, config, steps)

    def oracle(state: GemsState, key: Array, before: Any) -> Any:
        frozen = population_of(state, game, config)
        return expand(key, state, before, frozen, materialize(frozen, config.capacity), game, config)

    def training(state: GemsState, key: Array, before: Any, steps: int | Array | None = None) -> Any:
        opponents = materialize(population_of(state, game, config), config.capacity)
        return respond(key, state, before.anchor_set, opponents, game, config, steps)

    return {META: meta, ORACLE: oracle, TRAINING: training}


def fill_slots(state: GemsState, key: Array) -> GemsState:
    """Fills every slot with an anchor and makes the mixture uniform, as late in a run. key: consumed."""
    empty = ~state.active[..., None]
    fresh = jax.random.normal(key, state.anchors.shape, state.anchors.dtype)
    slots = state.active.shape[1]
    return dataclasses.replace(
        state,
        anchors=jnp.where(empty, fresh, state.anchors),
        active=jnp.ones_like(state.active),
        anchor_id=jnp.broadcast_to(jnp.arange(slots, dtype=state.anchor_id.dtype), state.anchor_id.shape),
        log_sigma=jnp.full_like(state.log_sigma, -np.log(slots)),
        sigma=jnp.full_like(state.sigma, 1.0 / slots),
    )


def measure_phases(game: Game, config: GemsConfig, state: GemsState, key: Array, repeats: int) -> PhaseTimes:
    """Compiles the phases and the step, then measures them alternately.

    Args:
      game: a game implemented in JAX.
      config: settings.
      state: state before the measured iteration.
      key: typed PRNG key; consumed.
      repeats: measurements of each phase.
    """
    first, *turns = jax.random.split(key, (repeats + 1, len(PHASES) + 1))
    begin = time.perf_counter()
    compiled: dict[str, Callable[..., Any]] = {}
    before: Any = None
    inputs: dict[str, Any] = {}
    for (name, phase), own_key in zip(phase_programs(game, config).items(), first, strict=False):
        inputs[name] = before
        compiled[name] = program(phase).lower(state, own_key, before).compile()
        before = jax.block_until_ready(compiled[name](state, own_key, before))
    step = program(lambda state, key: gems_step(state, fused_key(key), game, config)).lower(state, first[-1]).compile()
    compiling = time.perf_counter() - begin
    seconds: dict[str, list[float]] = {name: [] for name in compiled}
    whole, found = [], {}
    for turn in turns:
        for own_key, (name, ready) in zip(turn, compiled.items(), strict=False):
            taken, found[name] = time_call(ready, state, own_key, inputs[name])
            seconds[name].append(taken)
        whole.append(time_call(step, state, turn[-1])[0])
    return PhaseTimes(
        seconds={name: np.asarray(values) for name, values in seconds.items()},
        whole=np.asarray(whole),
        episodes={name: int(result.episodes) for name, result in found.items()},
        env_steps={name: int(result.env_steps) for name, result in found.items()},
        compiling=compiling,
    )


def time_call(ready: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Measures the seconds of one call, including the wait for its arrays; returns them with its result."""
    begin = time.perf_counter()
    result = jax.block_until_ready(ready(*arguments))
    return time.perf_counter() - begin, result
