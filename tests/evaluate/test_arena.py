"""All against all: matrices, alpha-Rank and intervals of games whose results are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, matrix_game
from gems_jax.evaluate.arena import (
    Entrant,
    Match,
    play_arena,
    rank_entrants,
)
from gems_jax.evaluate.greedy import greedy_profile
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Profile
from toy_games import constant, pure

RPS = make_game("rock_paper_scissors")


def entrant(game, label: str, *actions: int, populations: int = 2) -> Entrant:
    """An even mixture of pure actions, the same for every player."""
    stacked = StackedPolicies(jnp.stack([pure(game.num_actions, *actions)] * populations), constant)
    return Entrant(label, (Profile(stacked, jnp.full((populations, len(actions)), 1.0 / len(actions))),))


def play(game, entrants, episodes: int = 64, seed: int = 0):
    matches = play_arena(jax.random.key(seed), game, entrants, episodes)
    return matches, rank_entrants(game, matches, len(entrants))


def test_a_cycle_is_even() -> None:
    """Rock, paper and scissors: known scores, equal ratings and equal masses."""
    reported = []
    entrants = [entrant(RPS, name, action) for action, name in enumerate(("rock", "paper", "scissors"))]
    matches = play_arena(jax.random.key(0), RPS, entrants, 8, lambda *counts: reported.append(counts))
    found = rank_entrants(RPS, matches, 3)
    assert reported == [(n, 6) for n in range(1, 7)] and all(match.games == 8 for match in matches)
    nothing = np.nan
    np.testing.assert_array_equal(found.scores.mean, [[nothing, 0, 1], [1, nothing, 0], [0, 1, nothing]])
    np.testing.assert_array_equal(found.returns.mean, 2 * found.scores.mean - 1)
    np.testing.assert_allclose(found.elo.rating, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.alpha_rank, 1 / 3, atol=1e-6)
    np.testing.assert_allclose(found.average_score.mean, 0.5)
    assert found.by_score and found.matrix is found.scores


def test_scores_of_a_mixture_and_their_interval() -> None:
    """Half rock, half paper against scissors scores 1/2; against rock 3/4, which is 190.85 Elo between the two."""
    found = play(RPS, [entrant(RPS, "both", 0, 1), entrant(RPS, "rock", 0)], episodes=256)[1]
    np.testing.assert_array_equal(found.scores.mean[0, 1], 0.75)
    np.testing.assert_allclose(found.elo.rating, [95.424, -95.424], atol=1e-3)
    assert list(found.order) == [0, 1] and found.alpha_rank[0] > 0.999
    # the 4 games of a draw are equal: 128 draws of deviation 1/4 in both seats, not 512 games
    half = (found.scores.high - found.scores.low)[0, 1] / 2
    assert half == pytest.approx(1.96 * 0.25 / np.sqrt(128), rel=0.2)


def test_stakes_rank_by_return() -> None:
    """Winning 1 twice of three times and losing 4 otherwise: the better score is the worse return."""
    game = matrix_game([[0.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], return_bounds=(-4.0, 4.0))
    matches = [
        Match(0, 1, 0, 64, np.stack([np.full(64, -2 / 3), np.full(64, 2 / 3)]), np.full((2, 64), [[2 / 3], [1 / 3]])),
        Match(1, 0, 0, 64, np.stack([np.full(64, 2 / 3), np.full(64, -2 / 3)]), np.full((2, 64), [[1 / 3], [2 / 3]])),
    ]
    found = rank_entrants(game, matches, 2)
    assert not found.by_score and found.matrix is found.returns
    assert found.elo.rating[0] > 50 > -50 > found.elo.rating[1] and list(found.order) == [1, 0]
    np.testing.assert_allclose(found.alpha_rank, [0.0, 1.0], atol=1e-6)


def test_cross_play_of_a_coordination_game() -> None:
    """Both must choose the same: self-play earns (3, 1) or (1, 2), cross-play nothing. Seats are averaged."""
    game = matrix_game([[[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]])
    matches, found = play(game, [entrant(game, "left", 0), entrant(game, "right", 1)])
    assert len(matches) == 4 and found.elo is None and found.scores is None and found.average_score is None
    np.testing.assert_array_equal(found.returns.mean, [[2.0, 0.0], [0.0, 1.5]])
    np.testing.assert_array_equal(found.average_return.mean, [0.0, 0.0])
    np.testing.assert_allclose(found.alpha_rank, [0.5, 0.5], atol=1e-6)  # both conventions are stable


def test_three_players_have_three_positions() -> None:
    """Seat s earns 4, 2 or 1 times its action if it alone chose 1: the mean over positions is 7/3."""
    payoffs = np.zeros((3, 2, 2, 2))
    payoffs[0, 1, 0, 0], payoffs[1, 0, 1, 0], payoffs[2, 0, 0, 1] = 4.0, 2.0, 1.0
    game = matrix_game(payoffs)
    entrants = [entrant(game, "zero", 0, populations=3), entrant(game, "one", 1, populations=3)]
    matches, found = play(game, entrants, episodes=4)
    assert len(matches) == 12
    np.testing.assert_allclose(found.returns.mean, [[0.0, 0.0], [7 / 3, 0.0]])
    alone = [match.returns[0].mean() for match in matches if (match.row, match.column) == (1, 0)]
    assert alone == [4.0, 2.0, 1.0] and list(found.order) == [1, 0]


def test_a_pool_meets_everybody_equally_often() -> None:
    rock, paper, scissors = (entrant(RPS, str(action), action) for action in range(3))
    pool = Entrant("pool", (*rock.profiles, *paper.profiles))
    matches, found = play(RPS, [pool, scissors], episodes=10)
    assert found.scores.mean[0, 1] == 0.5 and all(match.games == 10 for match in matches)


def test_greedy_play_meets_fixed_policies() -> None:
    """A policy that leans towards rock plays rock, and loses every game to paper: its rating has no lower bound."""
    leaning = StackedPolicies(jnp.broadcast_to(jnp.asarray([0.3, 0.2, 0.0]), (2, 1, 3)), constant)
    profile = greedy_profile(Profile(leaning, jnp.ones((2, 1))))
    found = play(RPS, [Entrant("rock", (profile,)), entrant(RPS, "paper", 1)])[1]
    assert found.scores.mean[1, 0] == 1.0 and np.isinf(found.elo.low[0]) and found.elo.high[0] < 0.0


def test_random_play_needs_no_parameters() -> None:
    chance = Entrant("random", (fixed_profile(RPS, random_policy(RPS)),))
    found = play(RPS, [chance, entrant(RPS, "rock", 0)], episodes=1024)[1]
    assert abs(found.scores.mean[0, 1] - 0.5) < 0.05
    np.testing.assert_allclose(found.alpha_rank, 0.5, atol=1e-6)  # their interval contains a tie


def test_one_entrant_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two entrants, got 1"):
        play_arena(jax.random.key(0), RPS, [entrant(RPS, "rock", 0)], 4)
