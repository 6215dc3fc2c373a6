"""Boards of pgx: scripted games, and whole games beside OpenSpiel's.

Where the rules differ: a position that comes back in Go (pgx: who repeats it loses; OpenSpiel: a draw), and chess after
512 plies (pgx: a draw; OpenSpiel plays on).
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

from gems_jax.games import make_game
from gems_jax.viz.board_words import chess_move

PASS = 81
GO = "go(board_size=9,komi=7.5)"


@cache
def table(name):
    """The game and its two functions, compiled once."""
    game = make_game(name)
    return game, jax.jit(game.init), jax.jit(game.step)


class Script:
    """One game, move by move; what the idle seat is handed does not count."""

    def __init__(self, name, seed=0):
        self.game, init, self.step = table(name)
        self.state, self.total, self.count = jax.device_get(init(jax.random.key(seed))), np.zeros(2), 0

    @property
    def legal(self):
        return np.flatnonzero(self.state.legal[self.count % 2]).tolist()

    def play(self, *moves):
        for move in moves:
            mover = self.count % 2
            assert not self.state.done and not self.total.any()
            assert self.state.to_move.tolist() == [mover == 0, mover == 1]
            assert self.state.legal[mover, move] and not self.state.legal[1 - mover].any()
            joint = jnp.asarray([move, 0] if mover == 0 else [0, move], jnp.int32)
            self.state = jax.device_get(self.step(self.state, joint, jax.random.key(0)))
            self.total, self.count = self.total + self.state.reward, self.count + 1
        return self

    def ends(self, *rewards):
        assert self.state.terminated and not self.state.truncated
        assert not self.state.to_move.any() and not self.state.legal.any()
        assert self.total.tolist() == list(rewards)
        again = self.step(self.state, jnp.zeros(2, jnp.int32), jax.random.key(0))
        assert again.terminated and not np.asarray(again.reward).any()


# --- scripted games; pgx's player 0 begins in seat 0, whatever the key


def columns(text):
    return [int(letter) - 1 for letter in text]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("moves", "rewards"),
    [
        ("1212121", (1, -1)),  # seat 0: four in a column,
        ("7162534", (1, -1)),  # in a row,
        ("12234334464", (1, -1)),  # on a diagonal
        ("21212131", (-1, 1)),  # seat 1: in a column,
        ("14151627", (-1, 1)),  # in a row
        ("441365675334466335442232661515577771217122", (0, 0)),  # full, and no four anywhere
    ],
)
def test_connect_four(moves, rewards, seed):
    script = Script("connect_four", seed)
    assert int(script.state.inner.first) == 0  # whatever the key
    script.play(*columns(moves)).ends(*rewards)


def test_a_full_column_is_closed():
    script = Script("connect_four").play(*columns("333333"))
    assert script.legal == columns("124567")
    seen = script.state.observation[0]  # of the seat that is to move: own discs, then the other's
    np.testing.assert_array_equal(seen[:, 2, 0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(seen[:, 2, 1], [1, 0, 1, 0, 1, 0])
    assert seen.sum() == 6 and not script.state.observation[1].any()


def square(name, black=False):
    """Squares are counted up the files, from the mover's side of the board."""
    rank = int(name[1]) - 1
    return "abcdefgh".index(name[0]) * 8 + (7 - rank if black else rank)


def label(name, plane, black=False):
    return square(name, black) * 73 + plane


@pytest.mark.parametrize("seed", [0, 1])
def test_fools_mate(seed):
    """1. f3 e5 2. g4 Qh4#. Planes 16 and 17 are one and two squares up; 44 to 50 go up to the right.

    Black sees the board upside down, so that its queen goes up, too.
    """
    script = Script("chess", seed)
    assert int(script.state.inner.first) == 0 and len(script.legal) == 20
    script.play(label("f2", 16), label("e7", 17, black=True), label("g2", 17))
    queen = [move for move in script.legal if move // 73 == square("d8", black=True)]
    assert queen == [label("d8", plane, black=True) for plane in (44, 45, 46, 47)]
    assert [chess_move(script.state, move) for move in queen] == ["d8e7", "d8f6", "d8g5", "d8h4"]
    script.play(label("d8", 47, black=True)).ends(-1, 1)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("moves", "rewards"),
    [
        ((PASS, PASS), (-1, 1)),  # nobody has a point: komi decides
        ((40, PASS, PASS), (1, -1)),  # one black stone owns the board
        ((40, 41, PASS, PASS), (-1, 1)),  # a stone each: the rest borders on both
        ((PASS, 40, PASS, PASS), (-1, 1)),
    ],
)
def test_a_passed_out_game_of_go(moves, rewards, seed):
    script = Script("go_9x9", seed)
    assert int(script.state.inner.first) == 0 and script.legal == list(range(82))
    script.play(*moves).ends(*rewards)


def test_go_captures_ko_and_suicide():
    """Black takes the white stone in the corner; a ko is not taken back at once; no stone without a liberty."""
    corner = Script("go_9x9").play(1, 0, 9)
    assert corner.state.inner.state._x.board[0] == 0 and 0 not in corner.legal  # taken, and suicide for white
    ko = Script("go_9x9").play(1, 2, 9, 12, 19, 20, 11, 10)  # white takes 11
    assert ko.state.inner.state._x.board[11] == 0 and 11 not in ko.legal
    assert 11 in ko.play(80, 79).legal


# --- whole games beside OpenSpiel


@pytest.mark.parametrize(("name", "theirs", "games"), [("connect_four", "connect_four", 12), ("go_9x9", GO, 2)])
def test_whole_games_are_those_of_open_spiel(name, theirs, games):
    """The same moves: same turns, legal moves, ends and returns. Go is the same upside down: rows count from below."""
    rng, spiel = np.random.default_rng(0), pyspiel.load_game(theirs)
    for seed in range(games):
        script, other = Script(name, seed), spiel.new_initial_state()
        while not other.is_terminal():
            assert other.current_player() == script.count % 2 and script.legal == other.legal_actions()
            move = rng.choice([move for move in script.legal if move != PASS] or [PASS])
            script.play(move)
            other.apply_action(int(move))
        script.ends(*other.returns())


def test_a_repeated_position_of_go_is_lost_where_open_spiel_calls_it_a_draw():
    moves = [10, 1, 11, 9, 3, 2, 0, 1]  # two white stones are taken, and one black one takes the place again
    other = pyspiel.load_game(GO).new_initial_state()
    for move in moves:
        other.apply_action(move)
    assert other.is_terminal() and other.returns() == [0, 0]
    Script("go_9x9").play(*moves).ends(1, -1)


def chess_games(count, plies):
    """Random games move by move in both, by the names of the moves; returns how many ended within `plies`."""
    rng, spiel, ended = np.random.default_rng(1), pyspiel.load_game("chess"), 0
    for seed in range(count):
        script, other = Script("chess", seed), spiel.new_initial_state()
        while not other.is_terminal() and script.count < plies:
            assert other.current_player() == 1 - script.count % 2  # OpenSpiel calls white player 1
            named = {chess_move(script.state, move): move for move in script.legal}
            board = other.board()
            theirs = {pyspiel.chess.action_to_move(move, board).to_lan(): move for move in other.legal_actions()}
            assert set(named) == set(theirs)
            name = sorted(named)[rng.integers(len(named))]
            script.play(named[name])
            other.apply_action(theirs[name])
        if other.is_terminal():
            script.ends(*other.returns()[::-1])
            ended += 1
        elif script.count == 512:
            script.ends(0, 0)
        else:
            assert not script.state.done
    return ended


def test_chess_moves_are_those_of_open_spiel():
    chess_games(1, 60)


@pytest.mark.slow
def test_whole_games_of_chess_are_those_of_open_spiel():
    assert chess_games(12, 512) > 6
