"""Sampled monitoring of games that are not enumerable: one row of scalars per iteration from whole episodes.

`sampled_columns(game, solver, episodes)` returns the function `sample(state, iteration) -> row` that a driver calls at
the iterations to measure. Every column is a mean over at least `episodes` fresh episodes, which do not count towards
the solver's budget; `<column>_interval` is half of its 95 % interval.

    column                      meaning
    return_<player>             return of the player when everybody is drawn from the mixture, in games that are not
                                zero-sum or whose players have names
    score_<opponent>            against a fixed opponent, in all positions: wins + draws / 2 (two players, zero-sum)
    win_<opponent>, draw_<opponent>
                                fractions of episodes won and drawn
    <player>_vs_<opponent>, <opponent>_vs_<player>
                                return of the player with that opponent in all other positions, and the mean return
                                of such an opponent (other games; not if all are on one side)
    length                      mean number of steps of the measured episodes
    first_wins, second_wins, self_draws, decisive
                                fractions of the games that the mixture plays against itself, on boards (two players,
                                zero-sum, in turns, won by 1): won by the first player (white in chess), won by the
                                second, drawn, not drawn. A quarter of the episodes; 64 if games exceed 256 steps
    centre                      chess, in those games: fraction of d4, d5, e4, e5 that hold a piece, mean over the
                                positions after 16 to 40 plies
    captures                    simple_tag, all drawn from the mixture: how often per episode the evader becomes touched
                                by any pursuer after a step without touch
    encirclement                largest angle between pursuers as seen from the evader, in degrees, mean over the steps
                                of the episode: 120 is an equilateral triangle, 360 one direction
    pursuer_spread              mean distance between two pursuers, over the steps of the episode
    covered                     simple_spread, all drawn from the mixture: fraction of landmarks with an agent within
                                0.1 at the end
    collisions                  how often per episode two agents begin to touch each other
    distinct                    fraction of episodes at whose end no two agents have the same nearest landmark

    <player>_with_<opponent>    return of the player with that partner in all other positions (cooperative games of
                                several players, and only where the partner is named)

A run plays against `cheap_opponents(game)`: uniformly random play, and opponents that cost about as much. `sampled_row`
takes the labels of any that `opponents_of(game)` lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import draw_opponents, player_return
from gems_jax.evaluate.behavior import behavior_columns, make_watch
from gems_jax.evaluate.head_to_head import DRAWS, Results, half_interval, head_to_head, measure_against
from gems_jax.evaluate.monitor import Row
from gems_jax.evaluate.statistics import normal_half_width
from gems_jax.host.stages import stage_play
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import cheap_opponents, opponents_of
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import materialize
from gems_jax.rollout.episode import watch_episode
from gems_jax.rollout.groups import play_joint
from gems_jax.types import (
    Array,
    Cooperative,
    Episode,
    Game,
    Profile,
    PyTree,
    Solver,
    is_two_player_zero_sum,
    num_players,
    num_populations,
    player_names,
    supports,
)

LONG_GAME = 256  # steps


def sampled_columns(game: Game, solver: Solver, episodes: int = 256, seed: int = 0) -> Callable[[PyTree, Array], Row]:
    """Makes a function that measures a solver by playing episodes; the module docstring lists its columns.

    Args:
      game: the game.
      solver: the solver whose profile is measured.
      episodes: minimum number of episodes behind each column.
      seed: seed of the episodes, folded with the iteration.

    Returns:
      `sample(state, iteration) -> {column: []}`, pure.
    """

    def sample(state: PyTree, iteration: Array) -> Row:
        key = jax.random.fold_in(jax.random.key(seed), iteration)
        return sampled_row(key, game, solver.profile(state), episodes)

    return sample


@stage_play(static_argnames=("game", "episodes", "labels"))
def sampled_row(key: Array, game: Game, profile: Profile, episodes: int, labels: tuple[str, ...] | None = None) -> Row:
    """Measures all columns of one profile.

    Args:
      key: consumed.
      game: the game.
      profile: the mixtures.
      episodes: minimum number of episodes behind each column.
      labels: the opponents of `opponents_of(game)` to play against; by default those of `cheap_opponents(game)`.

    Returns:
      `{column: []}`.
    """
    key_joint, key_fixed = jax.random.split(key)
    row = _own_columns(key_joint, game, profile, episodes)
    opponents = cheap_opponents(game) if labels is None else {label: opponents_of(game)[label] for label in labels}
    for opponent_key, label in zip(jax.random.split(key_fixed, len(opponents)), opponents, strict=True):
        if is_scored(game):
            row |= _score_columns(label, measure_against(opponent_key, game, profile, opponents[label], episodes))
        elif not _is_cooperative(game):
            row |= _contest_columns(opponent_key, game, profile, label, episodes)
        elif labels is not None and num_players(game) > 1:
            row |= _partner_columns(opponent_key, game, profile, label, episodes)
    return row


def _own_columns(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    """Measures play in which every player is drawn from the mixture."""
    if not is_scored(game):
        return _joint_columns(key, game, profile, episodes, player_labels(game))
    return _self_play_columns(key, game, profile, episodes) if _is_board(game) else {}


def _contest_columns(key: Array, game: Game, profile: Profile, label: str, episodes: int) -> Row:
    """Plays every player alone against the opponent called `label` in all other positions."""
    names, opponent = player_labels(game), opponents_of(game)[label]
    row: Row = {}
    for player, player_key in enumerate(jax.random.split(key, len(names))):
        found = head_to_head(player_key, game, profile, opponent, player, episodes)
        column, reverse = f"{names[player]}_vs_{label}", f"{label}_vs_{names[player]}"
        row |= {column: found.mean, f"{column}_interval": found.interval}
        row |= {reverse: found.opponent, f"{reverse}_interval": found.opponent_interval}
    return row


def _partner_columns(key: Array, game: Game, profile: Profile, label: str, episodes: int) -> Row:
    """Plays every player with the policy called `label` as all of its partners."""
    names, partner = player_labels(game), opponents_of(game)[label]
    row: Row = {}
    for player, player_key in enumerate(jax.random.split(key, len(names))):
        found = head_to_head(player_key, game, profile, partner, player, episodes)
        column = f"{names[player]}_with_{label}"
        row |= {column: found.mean, f"{column}_interval": found.interval}
    return row


def headlines(game: Game) -> tuple[str, ...]:
    """Returns the columns that rank mixtures, higher is better; the first one defines "best".

    They measure play against the opponents of training, hardest first, or the joint return of a team without opponents.
    """
    names, opponents = player_labels(game), tuple(cheap_opponents(game))
    if is_scored(game):
        return tuple(f"score_{label}" for label in reversed(opponents))
    if _is_cooperative(game):
        return tuple(map("return_{}".format, names))
    return tuple(f"{name}_vs_{label}" for label, name in itertools.product(opponents, names))


def random_profile(game: Game) -> Profile:
    """Makes the profile of uniformly random play, as a reference."""
    return fixed_profile(game, random_policy(game))


def is_scored(game: Game) -> bool:
    """Returns whether the game is won, drawn or lost."""
    return is_two_player_zero_sum(game) and player_names(game) is None


def _is_board(game: Game) -> bool:
    """Returns whether a scored game is played in turns for returns of -1, 0 or 1."""
    return not game.simultaneous and game.return_bounds == (-1.0, 1.0)


def _is_cooperative(game: Game) -> bool:
    """Returns whether all players are on one side."""
    return num_populations(game) == 1 or (supports(game, Cooperative) and game.cooperative)


def player_labels(game: Game) -> tuple[str, ...]:
    """Returns the game's names for its players, or `player_<index>`."""
    return player_names(game) or tuple(f"player_{p}" for p in range(num_players(game)))


def _score_columns(label: str, found: Results) -> Row:
    return {
        f"score_{label}": found.win + found.draw / 2,
        # A score is (return + 1) / 2 in games that are won, drawn or lost by 1.
        f"score_{label}_interval": found.interval / 2,
        f"win_{label}": found.win,
        f"win_{label}_interval": normal_half_width(jnp.sqrt(found.win * (1.0 - found.win) / found.episodes)),
        f"draw_{label}": found.draw,
        "length": found.length,
    }


def _joint_columns(key: Array, game: Game, profile: Profile, episodes: int, names: tuple[str, ...]) -> Row:
    played, row = _play_mixture(key, game, profile, episodes)
    row["length"] = played.length.mean()
    for player, name in enumerate(names):
        returns = player_return(game, player, played.returns)
        row[f"return_{name}"] = returns.mean()
        row[f"return_{name}_interval"] = half_interval(returns)
    return row


def _self_play_columns(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    played, row = _play_mixture(key, game, profile, min(episodes, _self_play_games(game, episodes)))
    earned = player_return(game, 0, played.returns)
    results = {"first_wins": earned > 0, "second_wins": earned < 0, "self_draws": earned == 0, "decisive": earned != 0}
    for column, held in results.items():
        row |= {column: held.mean(), f"{column}_interval": half_interval(held.astype(jnp.float32))}
    return row


def _self_play_games(game: Game, episodes: int) -> int:
    """Plays a quarter of the episodes, so that play against others dominates the cost; few if games are long."""
    return DRAWS if game.max_steps > LONG_GAME else max(DRAWS, episodes // 4)


def _play_mixture(key: Array, game: Game, profile: Profile, episodes: int) -> tuple[Episode, Row]:
    """Plays episodes [n] of the mixture against itself; also returns their behavior columns."""
    key_draw, key_play = jax.random.split(key)
    stacked = materialize(profile.population, profile.sigma.shape[1])
    draws = min(DRAWS, episodes)
    indices = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)
    watch = make_watch(game)
    play = partial(watch_episode, start=watch.start, add=watch.add)
    played, seen = play_joint(play, key_play, game, stacked, indices, -(-episodes // draws))
    played, seen = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (played, seen))
    return played, behavior_columns(watch, seen, played.length)
