"""Normal-form games: payoffs by hand, padding, batches of games, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.games import MatrixGame, make_game
from gems_jax.games.matrix import matrix_game
from gems_jax.types import Game

KEY = jax.random.key(0)


def payoff(game, *actions):
    return np.asarray(game.step(game.init(KEY), jnp.asarray(actions, jnp.int32), KEY).reward)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("rock_paper_scissors", {}, {(0, 1): (-1, 1), (1, 2): (-1, 1), (2, 0): (-1, 1), (2, 2): (0, 0)}),
        ("biased_rps", {"a": 1, "b": 2, "c": 3}, {(1, 0): (1, -1), (2, 1): (2, -2), (0, 2): (3, -3), (0, 0): (0, 0)}),
        ("matching_pennies", {}, {(0, 0): (1, -1), (0, 1): (-1, 1)}),
        ("biased_matching_pennies", {}, {(0, 0): (2, -2), (1, 1): (1, -1), (1, 0): (-1, 1)}),
        ("prisoners_dilemma", {}, {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}),
    ],
)
def test_payoffs_by_hand(name, options, expected):
    game = make_game(name, **options)
    assert isinstance(game, Game) and game.name == name
    for actions, rewards in expected.items():
        np.testing.assert_array_equal(payoff(game, *actions), rewards)


def test_declared_properties():
    game = make_game("biased_rps", shared=True)
    assert (game.num_seats, game.num_actions, game.observation_shape, game.max_steps) == (2, 3, (2,), 1)
    assert game.return_bounds == (-3.0, 3.0) and game.zero_sum and game.simultaneous and not game.continuous
    assert game.player_of_seat == (0, 1) and game.population_of_player == (0, 0)
    assert make_game("biased_rps").population_of_player == (0, 1)
    dilemma = make_game("prisoners_dilemma")
    assert not dilemma.zero_sum and dilemma.return_bounds == (0.0, 5.0)
    np.testing.assert_array_equal(game.init(KEY).observation, np.eye(2))


def test_nash_of_the_biased_games_makes_the_other_player_indifferent():
    rps = np.asarray(make_game("biased_rps", a=1, b=2, c=3).payoffs[0])
    np.testing.assert_allclose(rps @ [1 / 3, 1 / 2, 1 / 6], 0.0, atol=1e-6)
    pennies = np.asarray(make_game("biased_matching_pennies").payoffs[0])
    np.testing.assert_allclose(pennies @ [0.4, 0.6], 0.2, atol=1e-6)


def test_own_payoffs_as_matrix_pair_and_tensor():
    matrix = np.array([[1.0, 2.0, -3.0], [0.5, 0.0, 4.0]])
    zero_sum = make_game("matrix", payoffs=matrix)
    assert zero_sum.zero_sum and zero_sum.action_counts == (2, 3) and zero_sum.return_bounds == (-4.0, 4.0)
    np.testing.assert_array_equal(payoff(zero_sum, 1, 2), (4, -4))

    pair = make_game("matrix", payoffs=([[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]))
    assert not pair.zero_sum
    np.testing.assert_array_equal(payoff(pair, 1, 1), (1, 2))

    tensor = np.arange(3 * 2 * 3 * 4, dtype=np.float32).reshape(3, 2, 3, 4)
    three = make_game("matrix", payoffs=tensor)
    assert three.num_seats == 3 and three.num_actions == 4 and three.population_of_player == (0, 1, 2)
    for actions in [(0, 0, 0), (1, 2, 3), (0, 1, 2)]:
        np.testing.assert_array_equal(payoff(three, *actions), tensor[(slice(None), *actions)])


def test_unequal_action_sets_are_masked():
    legal = make_game("matrix", payoffs=np.zeros((3, 2, 3, 4))).init(KEY).legal
    np.testing.assert_array_equal(legal, [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])


def test_finished_is_absorbing():
    game = make_game("prisoners_dilemma")
    over = game.step(game.init(KEY), jnp.array([1, 0]), KEY)
    assert over.terminated and not over.truncated and not over.to_move.any() and not over.legal.any()
    again = game.step(over, jnp.array([0, 0]), KEY)
    np.testing.assert_array_equal(again.reward, 0)
    assert again.terminated


def test_many_games_compile_once():
    traces = []

    @jax.jit
    def corner(game):
        traces.append(1)
        return game.step(game.init(KEY), jnp.zeros(2, jnp.int32), KEY).reward

    matrices = np.random.default_rng(0).uniform(-1, 1, (50, 3, 3)).astype(np.float32)
    for matrix in matrices[:5]:
        np.testing.assert_allclose(corner(matrix_game(matrix, return_bounds=(-1, 1)))[0], matrix[0, 0])
    assert len(traces) == 1

    batch = jax.vmap(lambda m: matrix_game(m, return_bounds=(-1, 1), zero_sum=True))(jnp.asarray(matrices))
    assert isinstance(batch, MatrixGame) and batch.payoffs.shape == (50, 2, 3, 3) and batch.num_actions == 3
    np.testing.assert_allclose(jax.vmap(corner)(batch)[:, 1], -matrices[:, 0, 0])


def test_equal_games_hash_equal():
    game = make_game("rock_paper_scissors")
    assert game == make_game("rock_paper_scissors") and hash(game) == hash(make_game("rock_paper_scissors"))
    assert game != make_game("rock_paper_scissors", shared=True)
    assert game != matrix_game(2 * game.payoffs[0], return_bounds=(-2, 2), name=game.name)
    assert game != "rock_paper_scissors"


def test_made_inside_jit():
    def value():
        game = make_game("matching_pennies")
        return game.step(game.init(KEY), jnp.array([0, 1]), KEY).reward

    np.testing.assert_array_equal(jax.jit(value)(), (-1, 1))


def test_constant_payoffs_have_bounds_of_positive_width():
    low, high = matrix_game(np.zeros((2, 2))).return_bounds
    assert low < 0 < high


@pytest.mark.parametrize(
    ("payoffs", "options", "message"),
    [
        (np.zeros((2, 3)), {"shared": True}, "equally many actions"),
        (np.zeros(3), {}, "payoffs do not define a game"),
        (np.zeros((3, 2, 2)), {}, "payoffs do not define a game"),
        (np.zeros((0, 2)), {}, "payoffs do not define a game"),
        ([[1.0, np.nan], [0.0, 0.0]], {}, "finite"),
        ([[1.0, 2.0], [0.0]], {}, "equal-shaped"),
        ([[1.0, 3.0], [0.0, 0.0]], {"return_bounds": (-1.0, 1.0)}, r"do not contain .* \[-3.0, 3.0\]"),
        (np.ones((2, 2, 2)), {"zero_sum": True}, "expected payoffs that add up to zero"),
    ],
)
def test_bad_payoffs(payoffs, options, message):
    with pytest.raises(ValueError, match=message):
        matrix_game(payoffs, **options)


def test_traced_payoffs_need_their_bounds():
    with pytest.raises(ValueError, match="return_bounds cannot be computed"):
        jax.vmap(lambda m: matrix_game(m))(jnp.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="zero_sum cannot be computed"):
        jax.vmap(lambda m: matrix_game(m, return_bounds=(0, 1)))(jnp.zeros((2, 2, 2)))


def test_bad_parameters():
    with pytest.raises(ValueError, match="a, b, c > 0"):
        make_game("biased_rps", a=0)
    with pytest.raises(ValueError, match="temptation > reward"):
        make_game("prisoners_dilemma", reward=6)
