"""The error budget of `error_budget.py` where no tree can be walked: the same terms, by held-out episodes.

Every mean is measured by episodes of its own that nobody has learned from, one opponent each, so that they are
independent, and gets an empirical-Bernstein interval. All intervals hold together with the stated confidence (a union
bound), and with them what follows:

    meta_regret     max_i v_i - u          newcomer_gain   max(0, f(z*) - max_i v_i)
    oracle_gap      max(0, max_pool f - max(f(z*), max_i v_i))
    best_response   max(0, BR - max f) with max f over pool and anchors: from below by an exploiter that was trained
                    against the mixture, from above by no more than the largest return there is

Where several players share a population, v and f are means over the places that it fills, as GEMS measures them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import return_scale
from gems_jax.evaluate.certificates import Bounds
from gems_jax.evaluate.held_out import measure_policies, played_value
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, Struct, num_players, num_populations, num_slots


class SampledBudget(Struct):
    """Bounds [P] each, in units of returns; they hold all at once."""

    best_response_gap: Bounds
    oracle_gap: Bounds
    newcomer_gain: Bounds
    meta_regret: Bounds
    monte_carlo_error: Bounds  # max over active anchors of |v-hat - v|; not part of the sum
    total: Bounds  # BR - u(sigma), from below by the exploiter
    episodes: Array  # [] int32, what was played for it


class Candidates(NamedTuple):
    """Measurements of the oracle: its candidates and the anchors it added."""

    policies: StackedPolicies  # [P, C, ...], C >= 1
    chosen: Array  # [P] int32, index of z*, -1 when nothing was added


class MeasuredValues(NamedTuple):
    """The values v-hat of the anchors, and the mixture that they were measured against."""

    values: Array  # [P, K], in units of returns
    sigma: Array | None = None  # [P, K], by default the mixture that is played


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
      anchors: the population that is played, [P, K, ...].
      active: [P, K] bool.
      sigma: [P, K], the mixture.
      pool: what the oracle proposed.
      exploiters: what was trained against the mixture, [P, X, ...].
      estimate: the values that the method measured itself.
      episodes: for each mean.
      confidence: with which all intervals hold together.

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
    played = played_value(key_joint, game, anchors, sigma, delta=delta, episodes=episodes)

    best_anchor = found["anchor"].most(active)
    is_chosen = jnp.arange(slots["pool"])[None, :] == pool.chosen[:, None]
    newcomer, proposed = found["pool"].most(is_chosen), found["pool"].most(jnp.ones_like(is_chosen))
    kept = newcomer.larger(best_anchor)
    exploiter = found["exploiter"].most(jnp.ones_like(found["exploiter"].low, bool))
    best = exploiter.larger(proposed.larger(best_anchor))
    best = Bounds(best.low, best.estimate, jnp.ones_like(best.high))  # nobody knows how much more there is
    error = distance((estimate.values - low) / width, found.get("measured", found["anchor"])).most(active)
    return SampledBudget(
        best_response_gap=best.beyond(proposed.larger(best_anchor)).scaled(width),
        oracle_gap=proposed.beyond(kept).scaled(width),
        newcomer_gain=newcomer.beyond(best_anchor).scaled(width),
        meta_regret=best_anchor.beyond(played).scaled(width),
        monte_carlo_error=error.scaled(width),
        total=best.beyond(played).scaled(width),
        episodes=jnp.int32((num_players(game) * sum(slots.values()) + 1) * episodes),
    )


def distance(points: Array, means: Bounds) -> Bounds:
    """Of |point - mean|, elementwise."""
    nearest = jnp.maximum(means.low - points, points - means.high)
    farthest = jnp.maximum(means.high - points, points - means.low)
    return Bounds(jnp.maximum(nearest, 0.0), jnp.abs(points - means.estimate), farthest)
