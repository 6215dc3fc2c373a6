"""Play of all entrants against all: cross-play matrix, Elo, alpha-Rank, with intervals by bootstrap over games.

`play_arena` plays, `rank_entrants` computes the statistics. A *match* is entrant i in one position with entrant j in
all others. Matches of i with itself, self-play, are played unless the game is scored, where they say nothing.

In scored games (two players, zero-sum, without names of their own) the score wins + draws / 2 of i against j, mean over
both seats, has a matrix, and Elo ratings are fitted to the points. The mean return of i with j in the other positions,
mean over the positions of i, has a matrix in every game. Scored games without stakes, whose returns are from -1 to 1,
are ranked by Elo, all others by the mean return: in poker the entrant that wins most games may lose the most chips.

Games that share a draw of policies from the mixtures are not independent, so the bootstrap resamples draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from gems_jax.evaluate.head_to_head import compiled_games
from gems_jax.evaluate.sampled import is_scored
from gems_jax.meta.alpha_rank import alpha_rank, alpha_rank_single, profile_marginals
from gems_jax.meta.elo import Elo, rate_entrants
from gems_jax.types import (
    Array,
    Game,
    PRNGKey,
    Profile,
    expect,
    is_two_player_zero_sum,
    num_players,
)

REPLICATES = 1000


class Entrant(NamedTuple):
    """Mixtures that play under one name. One of several is drawn for every game: the seeds of a pooled run."""

    label: str
    profiles: tuple[Profile, ...]


class Match(NamedTuple):
    """Games of entrant `row` in one position against entrant `column` in all others, by draws of policies.

    Attributes:
      row: index of an entrant.
      column: index of the entrant in the other positions.
      position: player position of `row`.
      games: number of games.
      returns: mean return of `row`, and mean return of the other players, per draw, [2, D].
      scores: wins + draws / 2 of both sides per draw, as a fraction of the games, [2, D].
    """

    row: int
    column: int
    position: int
    games: int
    returns: np.ndarray
    scores: np.ndarray


class Spread(NamedTuple):
    """Estimates and the ends of their 95 % intervals, arrays of one shape."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class ArenaRanking(NamedTuple):
    """Statistics of n entrants. Matrices [n, n] are NaN where nothing was played, such as self-play in scored games.

    Attributes:
      by_score: whether scores rank the entrants; otherwise their mean returns do.
      scores: score of i against j, [n, n]; None if the game is not scored.
      returns: mean return of i against j, [n, n].
      average_score: mean of an entrant's row of scores without the diagonal, [n]; None if the game is not scored.
      average_return: mean of its row of returns without the diagonal, [n].
      elo: ratings [n]; None if the game is not scored.
      alpha_rank: masses [n].
    """

    by_score: bool
    scores: Spread | None
    returns: Spread
    average_score: Spread | None
    average_return: Spread
    elo: Elo | None
    alpha_rank: np.ndarray

    @property
    def matrix(self) -> Spread:
        """The matrix that ranks the entrants."""
        return self.scores if self.by_score and self.scores else self.returns

    @property
    def order(self) -> np.ndarray:
        """Entrants from the best: by Elo or by their mean return, [n] int."""
        worth = self.elo.rating if self.by_score and self.elo else self.average_return.mean
        return np.argsort(-worth, kind="stable")


def play_arena(
    key: PRNGKey,
    game: Game,
    entrants: Sequence[Entrant],
    episodes: int,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[Match]:
    """Plays every entrant in every position against every other.

    In games of two players the ordered pair (i, j) has i in the first position, so that a pair plays in both seats.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      entrants: at least two.
      episodes: minimum number of games per match.
      report: called with the number of finished and of all matches.

    Returns:
      The matches.

    Raises:
      ValueError: if there are fewer than two entrants, or the game has one player.
    """
    expect(len(entrants) > 1, f"play_arena: expected at least two entrants, got {len(entrants)}.")
    expect(num_players(game) > 1, f"play_arena: expected a game of several players, got {game.name} with one.")
    pairs = list(_matches(game, len(entrants)))
    played = []
    for row, column, position in pairs:
        own_key = key
        for number in (row, column, position):
            own_key = jax.random.fold_in(own_key, number)
        played.append(_play_match(own_key, game, entrants, (row, column, position), episodes))
        report(len(played), len(pairs))
    return played


def _matches(game: Game, entrants: int) -> Iterator[tuple[int, int, int]]:
    positions = 1 if num_players(game) == 2 else num_players(game)  # (j, i) is the other seat of two players
    for row, column in itertools.product(range(entrants), repeat=2):
        if row != column or not is_scored(game):
            yield from ((row, column, position) for position in range(positions))


def _play_match(
    key: Array, game: Game, entrants: Sequence[Entrant], match: tuple[int, int, int], episodes: int
) -> Match:
    """Plays one match: pooled seeds meet each other in equally many games. key: consumed."""
    row, column, position = match
    meetings = list(itertools.product(entrants[row].profiles, entrants[column].profiles))
    each = -(-episodes // len(meetings))
    returns, scores, games = [], [], 0
    for own_key, (own, other) in zip(jax.random.split(key, len(meetings)), meetings, strict=True):
        found = compiled_games(own_key, game, own, other, position, each)
        both = np.stack([np.asarray(found.own), np.asarray(found.opponent)]).astype(np.float64)  # [2, draws, each]
        returns.append(both.mean(axis=-1))
        scores.append(((both > 0.0) + (both == 0.0) / 2.0).mean(axis=-1))
        games += both[0].size
    return Match(row, column, position, games, np.concatenate(returns, axis=1), np.concatenate(scores, axis=1))


def rank_entrants(
    game: Game, matches: Sequence[Match], entrants: int, *, replicates: int = REPLICATES, seed: int = 0
) -> ArenaRanking:
    """Computes the matrix, averages, Elo and alpha-Rank of played matches, with 95 % bootstrap intervals.

    Args:
      game: the game.
      matches: what `play_arena` returns.
      entrants: n.
      replicates: number of resamplings.
      seed: seed of the resampling.

    Returns:
      The statistics.
    """
    resampled = _resample(matches, replicates, np.random.default_rng(seed))
    tables = _cross_tables(game, matches, resampled, entrants)  # [1 + B, 2, n, n]
    returns, scores = tables[:, 0], tables[:, 1]
    alpha = _rank_by_alpha(game, matches, _spread(returns))
    if not is_scored(game):
        return ArenaRanking(False, None, _spread(returns), None, _spread(_mean_of_others(returns)), None, alpha)
    points = np.nan_to_num(scores * _games_per_pair(matches, entrants))
    return ArenaRanking(
        game.return_bounds == (-1.0, 1.0), _spread(scores), _spread(returns), _spread(_mean_of_others(scores)),
        _spread(_mean_of_others(returns)), rate_entrants(points[0], points[1:]), alpha,
    )  # fmt: skip


def _resample(matches: Sequence[Match], replicates: int, generator: np.random.Generator) -> np.ndarray:
    """Means of every match, and of resampled draws: [matches, 1 + B, 2 (returns, scores), 2 (row, others)]."""
    found = []
    for match in matches:
        draws = np.stack([match.returns, match.scores], axis=-1).transpose(1, 2, 0)  # [D, 2, 2]
        even = np.full((1, len(draws)), 1.0 / len(draws))
        chosen = generator.multinomial(len(draws), even[0], size=replicates) / len(draws)
        weights = np.concatenate([even, chosen])
        found.append(np.tensordot(weights, draws, axes=1))
    return np.stack(found)


def _cross_tables(game: Game, matches: Sequence[Match], means: np.ndarray, entrants: int) -> np.ndarray:
    """Averages matches over the positions of the row's entrant, [1 + B, 2, n, n]; NaN where nothing was played."""
    total = np.zeros((means.shape[1], 2, entrants, entrants))
    for match, mean in zip(matches, means, strict=True):
        total[..., match.row, match.column] += mean[..., 0] / num_players(game)
        if num_players(game) == 2:  # the same games from the other seat
            total[..., match.column, match.row] += mean[..., 1] / 2
    played = np.zeros((entrants, entrants), bool)
    played[[match.row for match in matches], [match.column for match in matches]] = True
    return np.where(played, total, np.nan)


def _games_per_pair(matches: Sequence[Match], entrants: int) -> np.ndarray:
    """Counts the games of entrants i and j in all positions, [n, n]."""
    games = np.zeros((entrants, entrants))
    for match in matches:
        games[match.row, match.column] += match.games
    return games + games.T


def _mean_of_others(tables: np.ndarray) -> np.ndarray:
    """Averages rows [..., n, n] without their diagonal, [..., n]."""
    count = tables.shape[-1]
    return np.where(np.eye(count, dtype=bool), 0.0, tables).sum(axis=-1) / (count - 1)


def _spread(values: np.ndarray) -> Spread:
    """Makes estimates and percentile intervals of values [1 + B, ...], the first of which is the estimate."""
    low, high = np.quantile(values[1:], [0.025, 0.975], axis=0)
    return Spread(values[0], low, high)


def _rank_by_alpha(game: Game, matches: Sequence[Match], returns: Spread) -> np.ndarray:
    """Computes alpha-Rank masses [n] of the entrants.

    Zero-sum games and those of more than two players are ranked by the single-population chain of the matrix. In
    zero-sum games a difference counts as a tie if its interval contains 0. Other games of two players have the chain
    over pairs of entrants, which sees what self-play coordinates on; the masses of both positions are averaged.
    """
    if num_players(game) == 2 and not is_two_player_zero_sum(game):
        payoffs = np.zeros((2, *returns.mean.shape))
        for match in matches:
            payoffs[:, match.row, match.column] = match.returns.mean(axis=1)
        return np.mean(profile_marginals(alpha_rank(payoffs)), axis=0)
    matrix = np.nan_to_num(returns.mean)
    if is_two_player_zero_sum(game):
        tied = (returns.low <= 0.0) & (returns.high >= 0.0)
        matrix = np.where(tied | np.isnan(returns.mean), 0.0, matrix)
    return alpha_rank_single(matrix)
