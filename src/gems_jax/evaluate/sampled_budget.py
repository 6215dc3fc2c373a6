"""The error budget of `error_budget.py` for games that are not enumerable, measured by held-out episodes.

Every mean has its own held-out episodes with one opponent each, so that they are independent, and an
empirical-Bernstein interval. By a union bound all intervals hold simultaneously at the stated confidence, and with them

    meta_regret     max_i v_i - u          newcomer_gain   max(0, f(z*) - max_i v_i)
    oracle_gap      max(0, max_pool f - max(f(z*), max_i v_i))
    best_response   max(0, BR - max f) with max f over pool and anchors: bounded from below by an exploiter trained
                    against the mixture, from above by the largest possible return

Where several players share a population, v and f are means over its player positions, as GEMS measures them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import return_scale
from gems_jax.evaluate.certificates import Bounds
from gems_jax.evaluate.held_out import measure_mixture, measure_policies
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, Struct, num_players, num_populations, num_slots


class SampledBudget(Struct):
    """Terms of the error budget, bounds [P] each in units of returns, which hold simultaneously."""

    best_response_gap: Bounds
    oracle_gap: Bounds
    newcomer_gain: Bounds
    meta_regret: Bounds
    monte_carlo_error: Bounds  # max over active anchors of |v-hat - v|; not part of the sum
    total: Bounds  # BR - u(sigma), bounded from below by the exploiter
    episodes: Array  # [] int32, number of episodes played for it


class Candidates(NamedTuple):
    """Measurements of the oracle: its candidates and the anchors it added."""

    policies: StackedPolicies  # [P, C, ...], C >= 1
    chosen: Array  # [P] int32, index of z*, -1 when nothing was added


class MeasuredValues(NamedTuple):
    """The values v-hat of the anchors and the mixture they were measured against."""

    values: Array  # [P, K], in units of returns
    sigma: Array | None = None  # [P, K]; None for the played mixture


@compile_play(static_argnames=("game", "episodes"))
def sampled_budget(
    key: Array,
    game: Game,
    *,
    anchors: StackedPolicies,
    active: Array,
    sigma: Array,
    pool: Candidates,
    exploiters: StackedPolicies,
    estimate: MeasuredValues,
    episodes: int,
    confidence: float | Array = 0.95,
) -> SampledBudget:
    """Measures the error budget of a mixture by held-out episodes.

    Args:
      key: consumed.
      game: the game.
      anchors: the played population, [P, K, ...].
      active: [P, K] bool.
      sigma: the mixture, [P, K].
      pool: candidates of the oracle.
      exploiters: policies trained against the mixture, [P, X, ...].
      estimate: the method's own estimate of the values.
      episodes: episodes for each mean.
      confidence: probability with which all intervals hold simultaneously.

    Returns:
      Bounds [P] of every term.
    """
    low, width = return_scale(game)
    parts = {"anchor": (anchors, sigma), "pool": (pool.policies, sigma), "exploiter": (exploiters, sigma)}
    if estimate.sigma is not None:
        parts["measured"] = (anchors, estimate.sigma)
    slots = {name: num_slots(take_population(part, 0).params) for name, (part, _) in parts.items()}
    delta = (1.0 - confidence) / (num_populations(game) * (sum(slots.values()) + 1))
    *keys, key_joint = jax.random.split(key, len(parts) + 1)
    found = {}
    for part_key, (name, (part, faced)) in zip(keys, parts.items(), strict=True):
        found[name] = measure_policies(part_key, game, part, anchors, faced, delta=delta, episodes=episodes)
    played = measure_mixture(key_joint, game, anchors, sigma, delta=delta, episodes=episodes)

    best_anchor = found["anchor"].max_over(active)
    is_chosen = jnp.arange(slots["pool"])[None, :] == pool.chosen[:, None]
    newcomer, proposed = found["pool"].max_over(is_chosen), found["pool"].max_over(jnp.ones_like(is_chosen))
    retained = newcomer.maximum(best_anchor)
    exploiter = found["exploiter"].max_over(jnp.ones_like(found["exploiter"].low, bool))
    best = exploiter.maximum(proposed.maximum(best_anchor))
    best = Bounds(best.low, best.estimate, jnp.ones_like(best.high))  # the best response may reach the largest return
    error = distance((estimate.values - low) / width, found.get("measured", found["anchor"])).max_over(active)
    return SampledBudget(
        best_response_gap=best.excess_over(proposed.maximum(best_anchor)).scale(width),
        oracle_gap=proposed.excess_over(retained).scale(width),
        newcomer_gain=newcomer.excess_over(best_anchor).scale(width),
        meta_regret=best_anchor.excess_over(played).scale(width),
        monte_carlo_error=error.scale(width),
        total=best.excess_over(played).scale(width),
        episodes=jnp.int32((num_players(game) * sum(slots.values()) + 1) * episodes),
    )


def distance(points: Array, means: Bounds) -> Bounds:
    """Bounds |point - mean| elementwise."""
    nearest = jnp.maximum(means.low - points, points - means.high)
    farthest = jnp.maximum(means.high - points, points - means.low)
    return Bounds(jnp.maximum(nearest, 0.0), jnp.abs(points - means.estimate), farthest)
