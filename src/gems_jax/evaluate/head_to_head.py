"""Mixtures against fixed opponents: what a game that cannot be enumerated is measured by.

Whole episodes only, in every place that a player can fill, with the normal 95 % interval of the mean.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimate import draw_opponents, player_return
from gems_jax.population import materialise
from gems_jax.roles import at
from gems_jax.rollout import play_episode
from gems_jax.types import Array, Game, Policy, Profile, num_players, take_slot

DRAWS = 64  # policies drawn per measurement; the episodes of each share its weights


class Results(NamedTuple):
    """Returns of the measured player."""

    mean: Array  # []
    interval: Array  # [], half of the 95 % interval of the mean
    win: Array  # [], share of episodes with a positive return
    draw: Array  # [], with return zero
    length: Array  # [], mean number of steps
    episodes: int


def half_interval(returns: Array) -> Array:
    """Half of the normal 95 % interval of the mean of all `returns`, []."""
    return 1.96 * jnp.std(returns) / jnp.sqrt(returns.size)


def head_to_head(key: Array, game: Game, profile: Profile, opponent: Policy, player: int, episodes: int) -> Results:
    """`player` drawn from the profile's sigma, everybody else `opponent`, for at least `episodes`. key: consumed."""
    draws = min(DRAWS, episodes)
    each = -(-episodes // draws)
    key_draw, key_play = jax.random.split(key)
    slots = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)[:, player]
    stacked = at(materialise(profile.population, profile.sigma.shape[1]), game.population_of_player[player])

    def one(slot: Array, play_key: Array) -> tuple[Array, Array]:
        own = Policy(take_slot(stacked.params, slot), stacked.apply)
        policies = tuple(own if other == player else opponent for other in range(num_players(game)))
        episode = play_episode(play_key, game, policies)
        return player_return(game, player, episode.returns), episode.length

    keys = jax.random.split(key_play, (draws, each))
    returns, lengths = jax.vmap(jax.vmap(one, in_axes=(None, 0)))(slots, keys)
    won, drawn = jnp.mean(returns > 0.0), jnp.mean(returns == 0.0)
    return Results(returns.mean(), half_interval(returns), won, drawn, lengths.mean(), returns.size)


def against(key: Array, game: Game, profile: Profile, opponent: Policy, episodes: int) -> Results:
    """`head_to_head` in every player's place, the episodes shared out evenly, pooled. key: consumed."""
    places = range(num_players(game))
    keys = jax.random.split(key, len(places))
    each = -(-episodes // len(places))
    parts = [head_to_head(k, game, profile, opponent, p, each) for k, p in zip(keys, places, strict=True)]
    mean, _, win, draw, length = (
        jnp.mean(jnp.stack(column), axis=0) for column in zip(*(p[:5] for p in parts), strict=True)
    )
    # every place has as many episodes: the mean's variance is the mean of theirs over their number
    interval = jnp.sqrt(jnp.sum(jnp.stack([part.interval for part in parts]) ** 2)) / len(parts)
    return Results(mean, interval, win, draw, length, sum(part.episodes for part in parts))
