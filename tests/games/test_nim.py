"""Nim: rules, observations and options, and the history that a wrapper adds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.games import Nim, make_game, with_history

KEY = jax.random.key(0)


def play(game, moves):
    """States after each move of the seat to move; the other seat's action is noise."""
    states = [game.init(KEY)]
    for turn, move in enumerate(moves):
        actions = jnp.full(2, 1, jnp.int32).at[turn % 2].set(move)
        states.append(game.step(states[-1], actions, KEY))
    return states


@pytest.mark.parametrize("misere", [False, True])
def test_the_last_stone_decides(misere):
    """Heaps 2 and 1: seat 0 takes the 1 (action 2), seat 1 one of the 2 (action 0), seat 0 the last (action 0)."""
    states = play(Nim(heaps=(2, 1), misere=misere), [2, 0, 0, 0])
    assert [state.inner.stones.tolist() for state in states] == [[2, 1], [2, 0], [1, 0], [0, 0], [0, 0]]
    assert states[0].legal.tolist() == [[True, True, True, False], [False] * 4]
    assert states[1].legal.tolist() == [[False] * 4, [True, True, False, False]]
    np.testing.assert_array_equal(states[1].observation, [[0, 0, 1, 1, 0]] * 2)
    won = -1.0 if misere else 1.0
    assert [state.reward.tolist() for state in states] == [[0, 0], [0, 0], [0, 0], [won, -won], [0, 0]]
    assert states[3].terminated and not states[3].to_move.any() and not states[4].legal.any()


@pytest.mark.parametrize("heaps", [(), (0, 1), (1.5,), (70,), "12"])
def test_heaps_are_checked(heaps):
    with pytest.raises(ValueError, match="heaps must be positive integers"):
        make_game("nim", heaps=heaps)


def test_one_heap_may_be_a_number():
    assert make_game("nim", heaps=3) == Nim(heaps=(3,)) == Nim(heaps=[3])


def test_history_holds_the_own_observations_and_moves():
    """Each seat remembers its own moves only, and the heaps that it saw before them."""
    plain = play(Nim(heaps=(2, 1)), [2, 0, 0])
    game = with_history(Nim(heaps=(2, 1)))
    states = play(game, [2, 0, 0])
    size = 5 + 3 * (5 + 4)
    assert game.observation_shape == (size,) and states[0].observation.shape == (2, size)
    for number, state in enumerate(states):
        np.testing.assert_array_equal(state.observation[:, :5], plain[number].observation)
        np.testing.assert_array_equal(state.reward, plain[number].reward)
    memory = states[3].observation[:, 5:].reshape(2, 3, 9)
    first, second = np.asarray([0, 0, 1, 0, 1, 0, 0, 1, 0]), np.asarray([0, 0, 1, 1, 0, 1, 0, 0, 0])
    third = np.asarray([0, 1, 0, 1, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(memory[0], [first, third, np.zeros(9)])
    np.testing.assert_array_equal(memory[1], [second, np.zeros(9), np.zeros(9)])


def test_history_is_for_games_in_jax_with_discrete_actions():
    with pytest.raises(ValueError, match="discrete actions"):
        with_history(make_game("simple_spread", continuous=True))
    with pytest.raises(ValueError, match="needs a Game"):
        with_history("nim")


def test_the_name_of_the_wrapper_imports_nothing_of_one_s_own():
    """Files may hold this name, so it must not run a user's code."""
    with pytest.raises(ValueError, match="for the games of gems_jax, got 'os:system'"):
        make_game("history:os:system")
