"""Settings whose iterations play a given number of environment steps.

`fit_budget` divides the environment steps of an iteration between the four phases. The same rule raises and lowers
settings:

    1. A phase gets its fraction of the steps by the given settings, but no less than `LEAST`, and no less than its
       smallest settings cost. The other phases give up steps in proportion.
    2. Estimating scales `num_opponents` and `meta_steps`, each by the square root of the change; a single update stays
       single. Estimators that play joint samples scale `mixture_samples`, and buffers grow to hold two iterations.
    3. The oracle scales `oracle_opponents`. Below 8 opponents the pool shrinks first.
    4. The trust region scales `kl_opponents`.
    5. Training gets the remaining steps: smaller batches of down to 64 games, then fewer `abr_steps`; above the given
       steps, `abr_opponents` and `abr_steps` both grow. Settings that train on stored episodes only (`abr_steps=0`,
       `replay_steps`) give the remaining steps to estimating.

Only then are `episodes`, `oracle_episodes`, `abr_episodes` and `abr_anchors` lowered. `capacity`, `abr_segment` and all
other settings do not change. Settings within the bounds that already play the requested number do not change either,
except for rounding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import joint_returns
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.gems.state import init_gems, population_of
from gems_jax.host.stages import on_host, stage
from gems_jax.policies.population import materialize
from gems_jax.types import Game

_SAMPLE = 1024  # episodes in the estimate of the mean length
_GAMES = 64  # least games of a training batch; below it there are fewer batches
_PULLS = 8  # least opponents per candidate; below it there are fewer candidates
_NEAR = 0.05  # accepted relative error of the steps of training
_BUFFERED = 2  # least number of iterations whose episodes a buffer holds
_LARGEST, _FINEST = 1e9, 1e-9  # largest factor of a setting, and its relative precision


class Division(NamedTuple):
    """Environment steps of an iteration by phase, or fractions of them."""

    estimating: float
    oracle: float
    trust_region: float
    training: float


LEAST = Division(estimating=0.05, oracle=0.05, trust_region=0.01, training=0.4)


def mean_length(game: Game, config: GemsConfig) -> float:
    """Measures the environment steps per episode between the policies of the first iteration."""

    def lengths(key: jax.Array) -> jax.Array:
        key_init, key_play = jax.random.split(key)
        state = init_gems(key_init, game, config)
        policies = materialize(population_of(state, game, config), config.capacity)
        return jnp.mean(joint_returns(key_play, game, policies, state.log_sigma, samples=_SAMPLE, episodes=1)[1])

    return float((stage if on_host(game) else jax.jit)(lengths)(jax.random.key(0)))


def planned_steps(game: Game, config: GemsConfig, length: float, iterations: int | None = None) -> Division:
    """Counts the environment steps of an iteration by phase, the mean over a run.

    Args:
      game: the game that is played.
      config: settings.
      length: environment steps per episode.
      iterations: number of iterations of the run; by default the config's.

    Returns:
      Environment steps of each phase.
    """
    iterations = config.iterations if iterations is None else iterations
    sums = Counter[str]()
    for (anchors, called), times in _iterations_by_kind(config, iterations).items():
        units = episodes_per_phase(game, config, anchors)
        quiet = units.sum_without_training(config, oracle=False)
        sums["estimating"] += times * (quiet - units.protection)
        sums["oracle"] += times * (units.sum_without_training(config, called) - quiet)
    units = episodes_per_phase(game, config, 1)
    return Division(
        estimating=length * sums["estimating"] / iterations,
        oracle=length * sums["oracle"] / iterations,
        trust_region=length * units.protection,
        training=config.abr_steps * units.abr_step * (config.abr_segment or length),
    )


def _iterations_by_kind(config: GemsConfig, iterations: int) -> Counter[tuple[int, bool]]:
    """Counts the iterations by the number of anchors in each population and whether the oracle is called."""
    kinds = Counter[tuple[int, bool]]()
    for done in range(iterations):
        calls = -(-done // config.oracle_period) if config.mutations + config.randoms else 0
        anchors = min(config.initial_anchors + calls * config.anchors_per_call, config.capacity)
        kinds[anchors, done % config.oracle_period == 0] += 1
    return kinds


def divide_steps(own: Division, least: Division, env_steps: float) -> Division:
    """Divides environment steps between the phases in the proportions of `own`, none below `least` or `LEAST`.

    Args:
      own: weights of the phases, at least one of them positive. A phase of weight 0 gets its minimum.
      least: minimum of each phase, in environment steps; their sum is at most `env_steps`.
      env_steps: environment steps to divide.

    Returns:
      Environment steps of each phase, with sum `env_steps`.
    """
    wanted = [
        max(low, fraction * env_steps * (weight > 0)) for low, weight, fraction in zip(least, own, LEAST, strict=True)
    ]
    bounds = wanted if sum(wanted) <= env_steps else least
    bound = {phase for phase, weight in enumerate(own) if not weight}
    while True:
        left = env_steps - sum(bounds[phase] for phase in bound)
        free = sum(weight for phase, weight in enumerate(own) if phase not in bound)
        each = [bounds[phase] if phase in bound else left * weight / free for phase, weight in enumerate(own)]
        low = {phase for phase, steps in enumerate(each) if phase not in bound and steps < bounds[phase]}
        if not low:
            return Division(*each)
        bound |= low


def fit_budget(game: Game, config: GemsConfig, env_steps: int, iterations: int | None = None) -> GemsConfig:
    """Fits the settings of all phases so that an iteration plays about `env_steps`, the mean over the run.

    The module's docstring describes how the steps are divided. Episodes are counted exactly; their length is measured
    between the first policies, and changes with learning.

    Args:
      game: the game that is played.
      config: settings, whose proportions between the phases are preserved within bounds.
      env_steps: environment steps per iteration.
      iterations: number of iterations of the run; by default the config's.

    Returns:
      The settings with adjusted numbers of opponents, updates, samples, candidates and steps.

    Raises:
      ValueError: if the smallest settings play more than `env_steps`; the message has the least budget.
    """
    length = mean_length(game, config)
    trains = config.abr_steps or not config.replay_steps
    trained = config.replace(abr_steps=max(config.abr_steps, 1)) if trains else config

    def count(settings: GemsConfig) -> Division:
        return planned_steps(game, settings, length, iterations)

    least = count(_fit_phases(trained, count, Division(0.0, 0.0, 0.0, 0.0)))
    if env_steps < sum(least):
        raise ValueError(
            f"a budget of {env_steps} env steps per iteration is too small: expected at least "
            f"{math.ceil(sum(least))} for the fewest opponents and candidates. Raise the budget, or lower capacity."
        )
    return _fit_phases(trained, count, divide_steps(count(trained), least, env_steps))


# --- the phases; `count` computes the steps by phase

_Count = Callable[[GemsConfig], Division]


def _fit_phases(config: GemsConfig, count: _Count, goal: Division) -> GemsConfig:
    """Fits the phases one after the other; training gets the remaining steps."""
    if not config.abr_steps:
        return _fit_without_training(config, count, goal)
    config = _fit_estimating(config, lambda settings: count(settings).estimating, goal.estimating)
    config = _fit_oracle(config, lambda settings: count(settings).oracle, goal.oracle)
    config = _shrink_or_grow(
        config, {"kl_opponents": 1}, lambda settings: count(settings).trust_region, goal.trust_region
    )
    left = sum(goal) - sum(count(config)[:3])
    return _fit_training(config, lambda settings: count(settings).training, left)


def _fit_without_training(config: GemsConfig, count: _Count, goal: Division) -> GemsConfig:
    """Fits settings that learn from stored episodes only: estimating gets the remaining steps."""
    config = _fit_oracle(config, lambda settings: count(settings).oracle, goal.oracle)
    config = _shrink_or_grow(
        config, {"kl_opponents": 1}, lambda settings: count(settings).trust_region, goal.trust_region
    )
    left = sum(goal) - sum(count(config)[1:])
    return _fit_estimating(config, lambda settings: count(settings).estimating, left)


_Steps = Callable[[GemsConfig], float]


def _shrink_or_grow(config: GemsConfig, least: Mapping[str, int], steps: _Steps, goal: float) -> GemsConfig:
    """Scales the fields of `least` together to the largest integers, none below their minimum, that meet the goal.

    Fields of 0 stay 0. If even the minimum exceeds the goal, the minimum is used.
    """

    def scale_fields(factor: float) -> GemsConfig:
        now = {name: getattr(config, name) for name in least}
        return config.replace(
            **{name: max(int(value * factor), min(least[name], value)) for name, value in now.items() if value}
        )

    if not steps(config):
        return config
    low, high = 0.0, min(max(2.0 * goal / steps(config), 2.0), _LARGEST)
    while scale_fields(low) != scale_fields(high) and high - low > _FINEST * high:
        middle = (low + high) / 2
        low, high = (middle, high) if steps(scale_fields(middle)) <= goal else (low, middle)
    return scale_fields(low)


def _shrink(config: GemsConfig, least: Mapping[str, int], steps: _Steps, goal: float) -> GemsConfig:
    """Scales the fields of `least` down if the steps exceed the goal."""
    return config if steps(config) <= goal else _shrink_or_grow(config, least, steps, goal)


def _fit_estimating(config: GemsConfig, steps: _Steps, goal: float) -> GemsConfig:
    own = steps(config)
    if not own:
        return config

    def counts(name: str) -> bool:
        return steps(config.replace(**{name: 2 * getattr(config, name)})) > own

    sampled = {name: 1 for name in ("num_opponents", "mixture_samples") if counts(name)}
    repeated = config.meta_steps > 1 and counts("meta_steps")
    if repeated:
        config = config.replace(meta_steps=max(round(config.meta_steps * math.sqrt(goal / own)), 1))
    config = _shrink_or_grow(config, sampled, steps, goal)
    if repeated:
        config = _shrink(config, {"meta_steps": 1}, steps, goal)
    config = _shrink(config, {"episodes": 1}, steps, goal)
    if config.estimator != "trajectories":
        return config
    return config.replace(buffer_episodes=max(config.buffer_episodes, _BUFFERED * config.joint_episodes))


def _fit_oracle(config: GemsConfig, steps: _Steps, goal: float) -> GemsConfig:
    if not steps(config):
        return config
    config = _shrink_or_grow(config, {"oracle_opponents": max(_PULLS, config.oracle_rounds)}, steps, goal)
    config = _shrink(config, dict.fromkeys(("mutations", "randoms"), config.anchors_per_call), steps, goal)
    config = _shrink(config, {"oracle_opponents": 1}, steps, goal)
    config = _shrink(config, {"oracle_episodes": 1}, steps, goal)
    return config.replace(oracle_rounds=min(config.oracle_rounds, config.oracle_opponents))


def _fit_training(config: GemsConfig, steps: _Steps, goal: float) -> GemsConfig:
    """Fits smaller batches, then fewer batches, or more of both; uses the first rounding that is close enough."""
    factor = goal / steps(config)
    games = config.abr_anchors * config.abr_episodes
    least = min(config.abr_opponents, max(-(-_GAMES // games), 1))
    grown = config.abr_opponents * (math.sqrt(factor) if factor > 1 else factor)
    config = config.replace(abr_opponents=max(round(grown), least))
    config = _shrink(config.replace(abr_steps=1), {"abr_opponents": 1}, steps, goal)
    config = _shrink(config, {"abr_episodes": 1}, steps, goal)
    config = _shrink(config, {"abr_anchors": 1}, steps, goal)
    finer: tuple[dict[str, int], ...] = ({}, {"abr_episodes": 1}, {"abr_episodes": 1, "abr_anchors": 1})
    ways = [way for numbers in finer for way in _round_training(config.replace(**numbers), steps, goal)]

    def distance(settings: GemsConfig) -> float:
        return abs(steps(settings) - goal)

    return next((way for way in ways if distance(way) <= _NEAR * goal), min(ways, key=distance))


def _round_training(config: GemsConfig, steps: _Steps, goal: float) -> tuple[GemsConfig, GemsConfig]:
    """Rounds the number of batches to the goal, and then their size."""
    by_steps = config.replace(abr_steps=max(round(goal / steps(config.replace(abr_steps=1))), 1))
    per_opponent = steps(by_steps) / config.abr_opponents
    return by_steps, by_steps.replace(abr_opponents=max(round(goal / per_opponent), 1))
