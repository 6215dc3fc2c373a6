"""Adaptive budgets: episodes go, iteration by iteration, to the phase whose error dominates, within a fixed total.

What an iteration would play by its settings is shared out anew between meta updates, later oracle rounds and ABR
steps. Shapes stay as they are: only the number of updates, rounds and steps is traced. The errors are measured by the
iteration before, from its own episodes, in scaled returns:

    meta     what the best anchor would have earned more than the iterates did, an average over the meta updates
             (estimated external regret: in two-player zero-sum games their mean is the restricted exploitability)
    oracle   what choosing by noisy means is expected to lose against the best candidate, as far as a candidate may be
             better than the best anchor at all
    abr      what the newcomer's return rose by during training: where it still rises, more steps help
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.meta.bandit import Pulls
from gems_jax.types import Array, Game, num_players

_TINY = 1e-6


class Counts(NamedTuple):
    """Numbers of repetitions within the phases: static, or traced where budgets are adaptive."""

    meta_steps: int | Array
    later_rounds: Array | None  # of the oracle, beyond the first; None: as many as the settings say
    abr_steps: int | Array


def plan_counts(shares: Array | None, game: Game, config: GemsConfig, active: Array) -> Counts:
    """Plans the repetitions of an iteration: those of the settings, or by `shares` [3] where budgets are adaptive."""
    if shares is None:
        return Counts(config.meta_steps, None, config.abr_steps)
    return allot(shares, game, config, active)


def planned(game: Game, config: GemsConfig, active: Array) -> Array:
    """[3] episodes of the phases as the settings say."""
    counts = (config.meta_steps, config.oracle_rounds - 1, config.abr_steps)
    return jnp.asarray(counts, jnp.float32) * costs(game, config, active)


def costs(game: Game, config: GemsConfig, active: Array) -> Array:
    """[3] episodes of a meta update, of a later oracle round, and of an ABR step. active: [P, K]."""
    joint = jnp.int32(config.joint_episodes)
    if config.estimator == "per_anchor":
        places = jnp.asarray(game.population_of_player)
        held = active.sum(axis=1)[places].sum()
        joint = joint + held * config.num_opponents * config.episodes
    pool = config.pool_size()
    share = config.oracle_opponents // config.oracle_rounds
    judging = num_players(game) * pool * share * config.oracle_episodes
    training = num_players(game) * config.abr_anchors * config.abr_opponents * config.abr_episodes
    return jnp.stack([jnp.asarray(cost, jnp.float32) for cost in (joint, judging, training)])


def start_shares(game: Game, config: GemsConfig, active: Array) -> Array:
    """[3], what the settings themselves give the phases in the first iteration."""
    spent = planned(game, config, active)
    return spent / jnp.maximum(spent.sum(), 1.0)


def allot(shares: Array, game: Game, config: GemsConfig, active: Array) -> Counts:
    """Whole numbers of updates, rounds and steps that cost what the settings would have, to within one ABR step."""
    cost, total = costs(game, config, active), planned(game, config, active).sum()
    meta = jnp.maximum(jnp.floor(shares[0] * total / jnp.maximum(cost[0], 1.0)), 1.0)
    later = jnp.floor(shares[1] * total / jnp.maximum(cost[1], 1.0)) if config.oracle_rounds > 1 else jnp.float32(0)
    left = total - meta * cost[0] - later * cost[1]
    abr = jnp.maximum(jnp.floor(left / jnp.maximum(cost[2], 1.0)), 0.0) if config.abr_steps else jnp.float32(0)
    return Counts(*(count.astype(jnp.int32) for count in (meta, later, abr)))


def selection_loss(stats: Pulls, chosen: Array, best_anchor: Array) -> Array:
    """[], of C candidates whose true means spread like a normal of deviation tau, seen with standard errors s.

    The best of them stands about sqrt(2 ln C) tau above their mean, the one with the best measured mean only about
    sqrt(2 ln C) tau^2 / sqrt(tau^2 + s^2). The loss counts as far as the chosen one is better than the best anchor, by
    more than its own standard error: where no candidate is, choosing better is worth nothing.
    """
    errors = stats.variance / jnp.maximum(stats.count, 1)
    noise = jnp.mean(errors)
    signal = jnp.maximum(jnp.var(stats.mean) - noise, 0.0)
    spread = jnp.sqrt(signal)
    share = spread / jnp.sqrt(jnp.maximum(signal + noise, _TINY**2))
    loss = jnp.sqrt(2.0 * jnp.log(float(len(stats.mean)))) * spread * (1.0 - share)
    offered = stats.mean[chosen] - jnp.sqrt(errors[chosen]) - best_anchor
    return jnp.clip(loss, 0.0, jnp.maximum(offered, 0.0))


def update_shares(
    shares: Array | None, errors: tuple[Array, Array, Array], config: GemsConfig
) -> tuple[Array | None, Array | None]:
    """Averages the phases' errors [P] over populations, and moves the shares [3] towards them; None if not adaptive."""
    if shares is None:
        return None, None
    means = jnp.stack([jnp.mean(error) for error in errors])
    return next_shares(shares, means, config), means


def next_shares(shares: Array, errors: Array, config: GemsConfig) -> Array:
    """[3], moved towards the errors [3] of this iteration, none below `adaptive_floor`."""
    adapted = jnp.asarray([True, config.oracle_rounds > 1, config.abr_steps > 0])
    weight = jnp.where(adapted, jnp.maximum(errors, _TINY), 0.0)
    wanted = weight / weight.sum()
    floor = jnp.where(adapted, config.adaptive_floor, 0.0)
    wanted = floor + (1.0 - floor.sum()) * wanted
    moved = (1.0 - config.adaptive_rate) * shares + config.adaptive_rate * wanted
    return moved / moved.sum()
