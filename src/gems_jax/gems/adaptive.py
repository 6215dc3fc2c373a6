"""Adaptive budgets: each iteration gives more episodes to the phase with the larger error, within a fixed total.

The episodes that an iteration plays by its settings are redistributed between meta updates, later oracle rounds and ABR
steps. Shapes are unchanged: only the numbers of updates, rounds and steps are traced. The errors are measured by the
previous iteration, from its own episodes, in scaled returns:

    meta     estimated external regret of the iterates, averaged over the meta updates (in two-player zero-sum games its
             mean over players is the restricted exploitability); if returns are reused, the regret on the estimate plus
             the standard error of the best anchor's value
    oracle   expected loss of a choice by noisy means instead of the best candidate, at most the advantage of the chosen
             candidate over the best anchor
    abr      increase of the new anchor's return during training: while it increases, more steps help
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.gems.budget import phase_episodes
from gems_jax.meta.bandit import Pulls
from gems_jax.types import Array, Game, num_players

_TINY = 1e-6


class Counts(NamedTuple):
    """Numbers of repetitions within the phases: static, or traced if budgets are adaptive."""

    estimates: int | Array  # estimates of the meta-game: one per meta update, or rounds of play if returns are reused
    later_rounds: Array | None  # oracle rounds beyond the first; None for the number of the settings
    abr_steps: int | Array


def plan_counts(shares: Array | None, game: Game, config: GemsConfig, active: Array) -> Counts:
    """Plans the repetitions of an iteration.

    Args:
      shares: fractions of the episodes for each phase, [3], or None if budgets are not adaptive.
      game: the game.
      config: settings.
      active: which slots hold an anchor, [P, K] bool.

    Returns:
      The numbers of the settings, or those of `allot_counts`.
    """
    if shares is None:
        return Counts(config.num_estimates, None, config.abr_steps)
    return allot_counts(shares, game, config, active)


def unit_costs(game: Game, config: GemsConfig, active: Array) -> Array:
    """Counts the episodes [3] of a meta update, of a later oracle round, and of an ABR step; active: [P, K] bool."""
    anchors = active.sum(axis=1)[jnp.asarray(game.population_of_player)].sum()
    units = phase_episodes(config, num_players(game), anchors)
    return jnp.stack([jnp.asarray(n, jnp.float32) for n in (units.meta_update, units.oracle_round, units.abr_step)])


def planned_episodes(game: Game, config: GemsConfig, active: Array) -> Array:
    """Counts the episodes [3] of the phases by the settings; active: [P, K] bool."""
    counts = (config.num_estimates, config.oracle_rounds - 1, config.abr_steps)
    return jnp.asarray(counts, jnp.float32) * unit_costs(game, config, active)


def start_shares(game: Game, config: GemsConfig, active: Array) -> Array:
    """Computes the fractions [3] of the episodes for each phase by the settings; active: [P, K] bool."""
    spent = planned_episodes(game, config, active)
    return spent / jnp.maximum(spent.sum(), 1.0)


def allot_counts(shares: Array, game: Game, config: GemsConfig, active: Array) -> Counts:
    """Allots integer numbers of updates, rounds and steps; the total differs from the settings' by at most an ABR step.

    Args:
      shares: fractions of the episodes for each phase, [3].
      game: the game.
      config: settings, which determine the total.
      active: which slots hold an anchor, [P, K] bool.

    Returns:
      The numbers, [] int32 each.
    """
    cost, total = unit_costs(game, config, active), planned_episodes(game, config, active).sum()
    meta = jnp.maximum(jnp.floor(shares[0] * total / jnp.maximum(cost[0], 1.0)), 1.0)
    later = jnp.floor(shares[1] * total / jnp.maximum(cost[1], 1.0)) if config.oracle_rounds > 1 else jnp.float32(0)
    left = total - meta * cost[0] - later * cost[1]
    abr = jnp.maximum(jnp.floor(left / jnp.maximum(cost[2], 1.0)), 0.0) if config.abr_steps else jnp.float32(0)
    return Counts(*(count.astype(jnp.int32) for count in (meta, later, abr)))


def selection_loss(stats: Pulls, chosen: Array, best_anchor: Array) -> Array:
    """Estimates the expected loss of choosing the candidate with the best measured mean.

        loss = sqrt(2 ln C) tau (1 - tau / sqrt(tau^2 + s^2))

    If the true means of C candidates are normal with deviation tau and are measured with standard errors s, the best
    candidate is about sqrt(2 ln C) tau above the mean, and the one with the best measured mean
    sqrt(2 ln C) tau^2 / sqrt(tau^2 + s^2). The loss is clipped to the chosen candidate's advantage over the best
    anchor, minus its own standard error: without an advantage a better choice gains nothing.

    Args:
      stats: measurements of C candidates.
      chosen: [] int32, the chosen candidate.
      best_anchor: [], measured value of the best anchor.

    Returns:
      The loss [], at least 0.
    """
    errors = stats.variance / jnp.maximum(stats.count, 1)
    noise = jnp.mean(errors)
    signal = jnp.maximum(jnp.var(stats.mean) - noise, 0.0)
    spread = jnp.sqrt(signal)
    reliability = spread / jnp.sqrt(jnp.maximum(signal + noise, _TINY**2))
    loss = jnp.sqrt(2.0 * jnp.log(float(len(stats.mean)))) * spread * (1.0 - reliability)
    offered = stats.mean[chosen] - jnp.sqrt(errors[chosen]) - best_anchor
    return jnp.clip(loss, 0.0, jnp.maximum(offered, 0.0))


def update_shares(
    shares: Array | None, errors: tuple[Array, Array, Array], config: GemsConfig
) -> tuple[Array | None, Array | None]:
    """Moves the fractions of the phases towards their errors, averaged over populations.

    Args:
      shares: fractions of the episodes for each phase, [3], or None if budgets are not adaptive.
      errors: errors of the phases, [P] each.
      config: settings.

    Returns:
      The next fractions [3] and the mean errors [3], or (None, None).
    """
    if shares is None:
        return None, None
    means = jnp.stack([jnp.mean(error) for error in errors])
    return next_shares(shares, means, config), means


def next_shares(shares: Array, errors: Array, config: GemsConfig) -> Array:
    """Moves the fractions [3] of the phases towards proportions of their errors [3], none below `adaptive_floor`.

    shares + rate (wanted - shares),    wanted = floor + (1 - sum floor) errors / sum errors
    """
    adapted = jnp.asarray([True, config.oracle_rounds > 1, config.abr_steps > 0])
    weight = jnp.where(adapted, jnp.maximum(errors, _TINY), 0.0)
    wanted = weight / weight.sum()
    floor = jnp.where(adapted, config.adaptive_floor, 0.0)
    wanted = floor + (1.0 - floor.sum()) * wanted
    moved = (1.0 - config.adaptive_rate) * shares + config.adaptive_rate * wanted
    return moved / moved.sum()
