"""Mixtures against fixed opponents: what a game that cannot be enumerated is measured by.

Whole episodes only, in every place that a player can fill, with the normal 95 % interval of the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import draw_opponents, player_return
from gems_jax.evaluate.statistics import normal_half_width
from gems_jax.host.stages import stage_play
from gems_jax.policies.population import materialise
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, Policy, Profile, num_players, take_slot

DRAWS = 64  # policies drawn per measurement; the episodes of each share its weights


class Results(NamedTuple):
    """Returns of the measured player, [] each but for the number of episodes."""

    mean: Array
    interval: Array  # half of the 95 % interval of the mean
    opponent: Array  # mean return of an opponent in the same episodes
    opponent_interval: Array
    win: Array  # share of episodes with a positive return
    draw: Array  # with return zero
    length: Array  # mean number of steps
    episodes: int


def half_interval(returns: Array) -> Array:
    """Half of the normal 95 % interval of the mean of all `returns`, []."""
    return normal_half_width(jnp.std(returns), jnp.sqrt(returns.size))


@stage_play(static_argnames=("game", "player", "episodes"))
def head_to_head(key: Array, game: Game, profile: Profile, opponent: Policy, player: int, episodes: int) -> Results:
    """`player` drawn from the profile's sigma, everybody else `opponent`, for at least `episodes`. key: consumed."""
    draws = min(DRAWS, episodes)
    each = -(-episodes // draws)
    key_draw, key_play = jax.random.split(key)
    slots = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)[:, player]
    stacked = take_population(
        materialise(profile.population, profile.sigma.shape[1]), game.population_of_player[player]
    )

    places = range(num_players(game))

    def one(slot: Array, play_key: Array) -> tuple[Array, Array, Array]:
        own = Policy(take_slot(stacked.params, slot), stacked.apply)
        policies = tuple(own if other == player else opponent for other in places)
        episode = play_episode(play_key, game, policies)
        rivals = [player_return(game, other, episode.returns) for other in places if other != player]
        return player_return(game, player, episode.returns), jnp.mean(jnp.stack(rivals)), episode.length

    keys = jax.random.split(key_play, (draws, each))
    returns, rivals, lengths = jax.vmap(jax.vmap(one, in_axes=(None, 0)))(slots, keys)
    won, drawn = jnp.mean(returns > 0.0), jnp.mean(returns == 0.0)
    own, theirs = ((earned.mean(), half_interval(earned)) for earned in (returns, rivals))
    return Results(*own, *theirs, won, drawn, lengths.mean(), returns.size)


@stage_play(static_argnames=("game", "episodes"))
def against(key: Array, game: Game, profile: Profile, opponent: Policy, episodes: int) -> Results:
    """`head_to_head` in every player's place, the episodes shared out evenly, pooled. key: consumed."""
    places = range(num_players(game))
    keys = jax.random.split(key, len(places))
    each = -(-episodes // len(places))
    parts = [head_to_head(k, game, profile, opponent, p, each) for k, p in zip(keys, places, strict=True)]

    def pooled(field: str) -> Array:
        column = jnp.stack([getattr(part, field) for part in parts])
        if field.endswith("interval"):  # every place has as many episodes: variances of the mean add up
            return jnp.sqrt(jnp.sum(column**2)) / len(parts)
        return jnp.mean(column)

    columns: dict[str, Any] = {field: pooled(field) for field in Results._fields if field != "episodes"}
    return Results(**columns, episodes=sum(part.episodes for part in parts))
