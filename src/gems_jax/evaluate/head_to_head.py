"""Head-to-head play of mixtures against opponents: how games that cannot be enumerated are measured.

Plays whole episodes in every player position. Intervals are normal 95 % intervals of the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import draw_opponents, player_return
from gems_jax.evaluate.statistics import normal_half_width
from gems_jax.host.stages import compile_play, stage_play
from gems_jax.policies.population import materialize
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.views import take_population
from gems_jax.types import (
    Array,
    Game,
    Mixture,
    Policy,
    PRNGKey,
    Profile,
    describe_value,
    format_fields,
    num_players,
    profile_of,
    take_slot,
)

DRAWS = 64  # policies drawn per measurement; each is played in several episodes


class Results(NamedTuple):
    """Statistics of the measured player, [] each except the number of episodes."""

    mean: Array
    interval: Array  # half of the 95 % interval of the mean
    opponent: Array  # mean return of an opponent in the same episodes
    opponent_interval: Array
    win: Array  # fraction of episodes with a positive return
    draw: Array  # fraction of episodes with return zero
    length: Array  # mean number of steps
    episodes: int

    def __repr__(self) -> str:
        """Shows the numbers without their types."""
        return format_fields("Results", {name: describe_value(value) for name, value in self._asdict().items()})


class PlayedGames(NamedTuple):
    """Games of one position: `draws` draws of policies, each of which plays several episodes; [draws, each] arrays."""

    own: Array  # returns of the measured player
    opponent: Array  # mean returns of the others in the same episodes
    length: Array  # steps


def half_interval(returns: Array) -> Array:
    """Returns half of the normal 95 % interval of the mean of all `returns`, []."""
    return normal_half_width(jnp.std(returns), jnp.sqrt(returns.size))


def head_to_head(
    key: PRNGKey,
    game: Game,
    policy: Mixture,
    opponent: Policy | Mixture,
    player: int | None = None,
    episodes: int = 1024,
) -> Results:
    """Plays a mixture against an opponent.

    Draws up to 64 policies of each mixture, in proportion to its sigma, and plays each of them in several episodes.
    Compiled, unless it is called inside a trace.

    >>> import jax
    >>> from gems_jax import head_to_head, load
    >>> from gems_jax.opponents.uniform import random_policy
    >>> policy = load("kuhn")
    >>> found = head_to_head(jax.random.key(0), policy.game, policy, random_policy(policy.game))
    >>> bool(found.mean - found.interval > 0.0), found.episodes
    (True, 1024)

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policy: the measured mixture: a `Profile`, or what `gems_jax.load` returns.
      opponent: a `Policy` or mixture that all other players are drawn from.
      player: the position that the measured mixture plays; by default all positions, equally often.
      episodes: minimum number of episodes.

    Returns:
      Statistics of the measured player and of its opponents.

    Raises:
      ValueError: if a mixture is of another game, or there is no such player.
    """
    if player is not None and not 0 <= player < num_players(game):
        raise ValueError(f"head_to_head in {game.name}: expected a player 0..{num_players(game) - 1}, got {player}.")
    profile = profile_of(game, policy)
    rival = opponent if isinstance(opponent, Policy) else profile_of(game, opponent)
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((key, game, profile, rival)))
    if traced:
        return _play_positions(key, game, profile, rival, player, episodes)
    found = _compiled_play(key, game, profile, rival, player, episodes)
    return found._replace(episodes=int(found.episodes))


def _play_positions(
    key: Array, game: Game, profile: Profile, opponent: Policy | Profile, player: int | None, episodes: int
) -> Results:
    """Plays one position, or all of them if `player` is None. key: consumed."""
    if player is None:
        return measure_against(key, game, profile, opponent, episodes)
    return _play_position(key, game, profile, opponent, player, episodes)


_compiled_play = compile_play(static_argnames=("game", "player", "episodes"))(_play_positions)


@stage_play(static_argnames=("game", "player", "episodes"))
def play_games(
    key: Array, game: Game, profile: Profile, opponent: Policy | Profile, player: int, episodes: int
) -> PlayedGames:
    """Plays a player drawn from the profile's sigma against an opponent in all other positions.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      profile: the mixtures.
      opponent: the policy, or the mixture, of every other player.
      player: the position that the profile plays.
      episodes: minimum number of episodes.

    Returns:
      Returns and lengths of the episodes, by drawn policies.
    """
    draws = min(DRAWS, episodes)
    each = -(-episodes // draws)
    key_draw, key_play = jax.random.split(key)
    players, owner = range(num_players(game)), game.population_of_player
    met = jnp.zeros((draws, 0), jnp.int32)
    if isinstance(opponent, Profile):
        key_draw, key_met = jax.random.split(key_draw)
        met = draw_opponents(key_met, game, jnp.log(opponent.sigma), (draws,), stratified=True)
        rivals = materialize(opponent.population, opponent.sigma.shape[1])
    slots = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)[:, player]
    stacked = take_population(materialize(profile.population, profile.sigma.shape[1]), owner[player])

    def rival(met: Array, other: int) -> Policy:
        if not isinstance(opponent, Profile):
            return opponent
        own = take_population(rivals, owner[other])
        return Policy(take_slot(own.params, met[other]), own.apply)

    def one(slot: Array, met: Array, play_key: Array) -> PlayedGames:
        own = Policy(take_slot(stacked.params, slot), stacked.apply)
        policies = tuple(own if other == player else rival(met, other) for other in players)
        episode = play_episode(play_key, game, policies)
        theirs = [player_return(game, other, episode.returns) for other in players if other != player]
        return PlayedGames(player_return(game, player, episode.returns), jnp.mean(jnp.stack(theirs)), episode.length)

    keys = jax.random.split(key_play, (draws, each))
    return jax.vmap(jax.vmap(one, in_axes=(None, None, 0)))(slots, met, keys)


compiled_games = compile_play(static_argnames=("game", "player", "episodes"))(play_games)


@stage_play(static_argnames=("game", "player", "episodes"))
def _play_position(
    key: Array, game: Game, profile: Profile, opponent: Policy | Profile, player: int, episodes: int
) -> Results:
    """Summarizes the games of one position. key: consumed."""
    returns, returns_met, lengths = play_games(key, game, profile, opponent, player, episodes)
    won, drawn = jnp.mean(returns > 0.0), jnp.mean(returns == 0.0)
    own, theirs = ((earned.mean(), half_interval(earned)) for earned in (returns, returns_met))
    return Results(*own, *theirs, won, drawn, lengths.mean(), returns.size)


@stage_play(static_argnames=("game", "episodes"))
def measure_against(key: Array, game: Game, profile: Profile, opponent: Policy | Profile, episodes: int) -> Results:
    """Plays the profile in every player position against the opponent, and pools the results.

    Args:
      key: consumed.
      game: the game.
      profile: the mixtures.
      opponent: the policy, or the mixture, of every other player.
      episodes: minimum number of episodes, split evenly among the positions.

    Returns:
      Means over the positions.
    """
    players = range(num_players(game))
    keys = jax.random.split(key, len(players))
    each = -(-episodes // len(players))
    parts = [_play_position(k, game, profile, opponent, p, each) for k, p in zip(keys, players, strict=True)]

    def pool(field: str) -> Array:
        column = jnp.stack([getattr(part, field) for part in parts])
        if field.endswith("interval"):  # equally many episodes per position: variances add up
            return jnp.sqrt(jnp.sum(column**2)) / len(parts)
        return jnp.mean(column)

    columns: dict[str, Any] = {field: pool(field) for field in Results._fields if field != "episodes"}
    return Results(**columns, episodes=sum(part.episodes for part in parts))
