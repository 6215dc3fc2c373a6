"""Solved positions of Connect Four: the stored values, proved by an independent search, and measurements on them."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.solve_connect_four import Solver, solve_positions
from gems_jax import make_game
from gems_jax.evaluate.greedy import greedy_profile
from gems_jax.evaluate.solved_moves import solved_move_rate
from gems_jax.opponents.connect_four import minimax
from gems_jax.opponents.solved import SOLVED_FILE, format_position, solved_positions
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import PolicyOutput, Profile
from plain_connect_four import completes, drop, exact_values, legal_columns, observe

GAME = make_game("connect_four")


def replay(moves):
    """The position after some moves, none of which wins."""
    board = ("",) * 7
    for column in map(int, moves):
        assert not completes(board, column, "x")
        board = drop(board, column)
    return board


def check(index):
    solved = solved_positions()
    board = replay(solved.moves[index])
    values = exact_values(board)
    assert {int(c): int(solved.values[index, c]) for c in np.flatnonzero(solved.legal[index])} == values
    assert set(np.flatnonzero(solved.keeps[index])) == {c for c in values if values[c] == max(values.values())}


def by_stones(low, high):
    return [index for index, moves in enumerate(solved_positions().moves) if low <= len(moves) <= high]


def test_stored_values_are_proved_by_an_independent_search():
    late = by_stones(33, 35)
    assert len(late) == 180
    for index in late[::6]:
        check(index)


@pytest.mark.slow
def test_stored_values_of_earlier_positions():
    for index in [*by_stones(30, 35), *by_stones(26, 29)[::8], *by_stones(24, 25)[::30]]:
        check(index)


def test_stored_positions():
    """Observations are the game's, nobody wins at once, some move fails and none occurs twice."""
    solved = solved_positions()
    assert solved.observation.shape == (960, 6, 7, 2) and SOLVED_FILE.stat().st_size < 200_000
    assert len(set(solved.moves)) == 960
    assert (solved.keeps.any(axis=1) & (solved.legal & ~solved.keeps).any(axis=1)).all()
    for index in range(0, 960, 40):
        board = replay(solved.moves[index])
        np.testing.assert_array_equal(solved.observation[index], observe(board))
        assert np.flatnonzero(solved.legal[index]).tolist() == legal_columns(board)
        assert not any(completes(board, column, "x") for column in legal_columns(board))
        assert solved.seat[index] == len(solved.moves[index]) % 2


def test_the_file_is_what_the_command_writes():
    """The generator is deterministic; the first of its lines are made again, and later ones are solved again."""
    lines = [line for line in SOLVED_FILE.read_text().splitlines() if not line.startswith("#")]
    assert format_position("3342", (1, 0, -1, None, None, 1, -1)) == "3342 wdl..wl"
    late = [line for line in lines if len(line.split()[0]) >= 30]
    for line in late[::5]:
        moves, values = line.split()
        own = filled = 0
        for column in map(int, moves):
            own, filled = own ^ filled, filled | (filled + (1 << 7 * column)) & (127 << 7 * column)
        assert format_position(moves, Solver().move_values(own, filled)) == f"{moves} {values}"


@pytest.mark.slow
def test_the_command_writes_the_stored_file():
    lines = [line for line in SOLVED_FILE.read_text().splitlines() if not line.startswith("#")]
    assert solve_positions() == lines


def _fixed(phi, observation, legal):
    """Plays logits."""
    return PolicyOutput(logits=jnp.where(legal, phi, -1e9))


def test_rates_of_known_policies():
    solved = solved_positions()
    share = (solved.keeps.sum(axis=1) / solved.legal.sum(axis=1)).mean()
    found = solved_move_rate(GAME, random_policy(GAME))
    np.testing.assert_allclose([found.sampled, found.greedy], share, rtol=1e-5)
    # leftmost column with probability 2/3, else uniform, in one of two policies; the other is uniform
    first = jnp.asarray([np.log(13.0), 0, 0, 0, 0, 0, 0])
    rows = jnp.broadcast_to(jnp.stack([first, jnp.zeros(7)]), (2, 2, 7))
    profile = Profile(StackedPolicies(rows, _fixed), jnp.asarray([[0.5, 0.5], [0.25, 0.75]]))
    weights = np.where(solved.legal, np.exp(np.asarray(first)), 0.0)
    skewed = (weights / weights.sum(axis=1, keepdims=True) * solved.keeps).sum(axis=1)
    even = solved.keeps.sum(axis=1) / solved.legal.sum(axis=1)
    own = np.where(solved.seat == 0, 0.5, 0.25)
    found = solved_move_rate(GAME, profile)
    np.testing.assert_allclose(found.sampled, (own * skewed + (1 - own) * even).mean(), rtol=1e-5)
    leftmost = np.where(solved.legal[:, 0], solved.keeps[:, 0], even)
    expected = (own * leftmost + (1 - own) * even).mean()
    np.testing.assert_allclose(found.greedy, expected, rtol=1e-5)
    greedy = solved_move_rate(GAME, greedy_profile(profile))
    np.testing.assert_allclose(greedy.sampled, expected, rtol=1e-5)
    np.testing.assert_allclose(found.greedy_interval, greedy.sampled_interval, rtol=1e-5)


def test_deeper_search_keeps_more_values():
    rates = [float(solved_move_rate(GAME, minimax(depth)).sampled) for depth in (1, 2, 4)]
    assert rates[0] + 0.02 < rates[1] and rates[1] + 0.05 < rates[2] < 1.0


def test_other_games_are_refused():
    with pytest.raises(ValueError, match="expected connect_four on 6 rows of 7, got tic_tac_toe"):
        solved_move_rate(make_game("tic_tac_toe"), random_policy(make_game("tic_tac_toe")))
