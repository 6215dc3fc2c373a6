"""Equal budgets: how many rounds of learning an iteration may take, so that its environment steps come to a number.

What an iteration plays is not known beforehand: episodes have different lengths, and payoffs are measured besides. So
the account is kept over iterations, and every iteration takes as many rounds as bring the run's total nearest to what
it is allowed by then. All arithmetic may be traced.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.psro.settings import Budgeted
from gems_jax.types import Array, Game, Struct, num_players


class Pace(Struct):
    """The account of a run."""

    balance: Array  # [] float32, env steps that were allowed so far and not taken
    per_round: Array  # [] float32, env steps of one round, as the last iteration found
    aside: Array  # [] float32, env steps of the last iteration besides learning


def new_pace(game: Game, config: Budgeted) -> Pace:
    """Before anything was played a round is taken to be as long as it can be."""
    longest = num_players(game) * config.opponents * config.episodes * (config.segment or game.max_steps)
    return Pace(jnp.float32(0.0), jnp.float32(longest), jnp.float32(0.0))


def rounds_of(pace: Pace, config: Budgeted) -> Array:
    """Rounds of the next iteration [] int32: `rounds`, or what the budget allows, at least one."""
    if not config.env_steps:
        return jnp.int32(config.rounds)
    allowed = pace.balance + config.env_steps - pace.aside
    return jnp.maximum(jnp.round(allowed / pace.per_round), 1).astype(jnp.int32)


def settle(pace: Pace, config: Budgeted, rounds: ArrayLike, learning: ArrayLike, total: ArrayLike) -> Pace:
    """After an iteration of `rounds` rounds that took `learning` of `total` env steps."""
    if not config.env_steps:
        return pace
    learnt, taken = jnp.asarray(learning, jnp.float32), jnp.asarray(total, jnp.float32)
    return Pace(pace.balance + config.env_steps - taken, jnp.maximum(learnt / rounds, 1.0), taken - learnt)
