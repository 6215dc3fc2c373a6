"""Where an iteration of GEMS spends its time: every phase as a program of its own, beside the whole step."""

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
from gems_jax.policies.population import materialise
from gems_jax.types import Array, Game

META, ORACLE, TRAINING = "estimate and meta-strategy", "oracle", "best response"
PHASES = (META, ORACLE, TRAINING)


class PhaseTimes(NamedTuple):
    """Seconds [repeats] of each phase and of the whole step, in turns; and what they play."""

    seconds: dict[str, np.ndarray]
    whole: np.ndarray
    episodes: dict[str, int]
    env_steps: dict[str, int]
    compiling: float


def phase_programs(game: Game, config: GemsConfig) -> dict[str, Callable[..., Any]]:
    """Pure functions (state, key, what the phase before it found[, steps]) -> what this one finds.

    steps: of the meta-strategy or of the training, by default the config's; may be traced.
    """

    def meta(state: GemsState, key: Array, before: None, steps: int | Array | None = None) -> Any:
        del before
        opponents = materialise(population_of(state, game, config), config.capacity)
        return update_meta_strategy(key, state, opponents, game, config, steps)

    def oracle(state: GemsState, key: Array, before: Any) -> Any:
        frozen = population_of(state, game, config)
        return expand(key, state, before, frozen, materialise(frozen, config.capacity), game, config)

    def training(state: GemsState, key: Array, before: Any, steps: int | Array | None = None) -> Any:
        opponents = materialise(population_of(state, game, config), config.capacity)
        return respond(key, state, before.anchor_set, opponents, game, config, steps)

    return {META: meta, ORACLE: oracle, TRAINING: training}


def all_active(state: GemsState, key: Array) -> GemsState:
    """The same with an anchor in every slot and a uniform mixture, as late in a run. key: consumed."""
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
    """Compile the phases and the step, then run them in turns. key: consumed."""
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
            taken, found[name] = seconds_of(ready, state, own_key, inputs[name])
            seconds[name].append(taken)
        whole.append(seconds_of(step, state, turn[-1])[0])
    return PhaseTimes(
        seconds={name: np.asarray(values) for name, values in seconds.items()},
        whole=np.asarray(whole),
        episodes={name: int(result.episodes) for name, result in found.items()},
        env_steps={name: int(result.env_steps) for name, result in found.items()},
        compiling=compiling,
    )


def seconds_of(ready: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Of one call, and its result, arrays waited for."""
    begin = time.perf_counter()
    result = jax.block_until_ready(ready(*arguments))
    return time.perf_counter() - begin, result
