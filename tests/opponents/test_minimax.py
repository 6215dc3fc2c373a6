"""Minimax players of Connect Four: hand-made positions, an independent negamax, and play against each other."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.opponents.connect_four import Minimax, minimax, tactician
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import cheap_opponents, opponents_of
from plain_connect_four import move_scores, observe, random_board

EMPTY = "......."
GAME = make_game("connect_four")


def board(*rows):
    """The lowest rows of a board, x the mover's stones, o the other's."""
    cells = np.asarray([list(row) for row in (EMPTY,) * (6 - len(rows)) + rows])
    return jnp.asarray(np.stack([cells == "x", cells == "o"], axis=-1), jnp.float32)


def chosen(depth, seen):
    legal = seen.sum(axis=2)[0] == 0
    chance = jax.nn.softmax(minimax(depth).apply((), seen, legal).logits)
    np.testing.assert_allclose(chance[chance > 0], 1.0 / np.sum(chance > 0), rtol=1e-6)
    return np.flatnonzero(np.asarray(chance)).tolist()


@pytest.mark.parametrize(
    ("depth", "rows", "columns"),
    [
        (1, ("xxx.ooo",), [3]),  # wins
        (1, (".ooo...",), list(range(7))),  # one ply shows no threat
        (2, ("xooo...",), [4]),  # blocks
        (2, (".ooo...",), list(range(7))),  # two threats: every move loses in two plies
        (2, ("ooo....", "xxo...."), [0, 1, 2, 4, 5, 6]),  # a stone in column 3 would raise it to the row that o needs
        (3, ("..oo...", "..xx..."), [1, 4]),  # an open three wins with the third ply
        (4, ("...oo..",), [2, 5]),  # o would make an open three with its next stone
    ],
)
def test_moves_worked_out_by_hand(depth, rows, columns):
    assert chosen(depth, board(*rows)) == columns


def compare(depth, positions):
    """Scores of all moves equal those of the independent search."""
    scores = jax.jit(jax.vmap(Minimax(depth).scores))(jnp.stack([observe(one) for one in positions]))
    for position, row in zip(positions, np.asarray(scores), strict=True):
        expected = move_scores(position, depth)
        assert {column: row[column] for column in expected} == expected, position


def positions(count, seed):
    """Random positions of 0 to 40 stones."""
    generator = random.Random(seed)
    return [random_board(generator, generator.randrange(41)) for _ in range(count)]


@pytest.mark.parametrize(("depth", "count"), [(1, 200), (2, 100), (3, 40), (4, 6)])
def test_scores_are_those_of_an_independent_search(depth, count):
    compare(depth, positions(count, depth))


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "count"), [(1, 1000), (2, 1000), (3, 1000), (4, 100), (5, 40)])
def test_scores_of_many_positions(depth, count):
    compare(depth, positions(count, 100 + depth))


def play(depth, opponent, episodes, seed=0):
    return head_to_head(jax.random.key(seed), GAME, fixed_profile(GAME, minimax(depth)), opponent, episodes=episodes)


def test_depth_2_beats_the_tactician():
    found = play(2, tactician(), 256)
    assert found.mean - found.interval > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 4, 5])
def test_each_further_ply_is_stronger(depth):
    found = play(depth, minimax(depth - 1), 400)
    assert found.mean - found.interval > 0.0


def test_opponents_of_connect_four():
    assert list(cheap_opponents(GAME)) == ["random", "tactician"]
    assert list(opponents_of(GAME)) == ["random", "tactician", *(f"minimax_{depth}" for depth in range(1, 6))]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        minimax(0)
