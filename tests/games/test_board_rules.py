"""Go, chess and Connect Four in this package's forms against pgx's own: the same states, move by move."""

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest
from pgx._src.games import chess, connect_four
from pgx.experimental.chess import from_fen

from gems_jax.games.boards.chess import ChessRules, legal_action_mask
from gems_jax.games.boards.connect_four import has_line
from gems_jax.games.boards.games import board_env

LANES = 16


@pytest.fixture(autouse=True)
def lenient():
    """pgx broadcasts between ranks."""
    with jax.numpy_rank_promotion("allow"):
        yield


def random_play(env, key, steps, look):
    """`look(state, actions, following)` of `steps` random moves in LANES games of pgx, stacked over time."""

    def advance(carry, _):
        state, key = carry
        key, key_act = jax.random.split(key)
        legal = state.legal_action_mask
        actions = jnp.argmax(jnp.where(legal, jax.random.uniform(key_act, legal.shape), -1.0), axis=1)
        following = jax.vmap(env.step)(state, actions)
        return (following, key), look(state, actions, following)

    key_start, key_play = jax.random.split(key)
    start = jax.vmap(env.init)(jax.random.split(key_start, LANES))
    return jax.jit(lambda start, key: jax.lax.scan(advance, (start, key), length=steps))(start, key_play)


def test_go_is_that_of_pgx():
    """Whole games: every field of every state, captures, ko and scores included."""
    theirs, ours = pgx.make("go_9x9"), board_env("go_9x9")

    def differences(state, actions, following):
        return jax.tree.map(lambda a, b: jnp.sum(a != b), following, jax.vmap(ours.step)(state, actions))

    (last, _), found = random_play(theirs, jax.random.key(0), 165, differences)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(found))
    assert last.terminated.all() and last._x.num_captured.sum() > 100


def test_connect_four_is_that_of_pgx():
    """Whole games and beyond: every field of every state, and what an illegal move leads to."""
    theirs, ours = pgx.make("connect_four"), board_env("connect_four")

    def differences(state, actions, following):
        anything = (actions + state._step_count) % 7  # a full column at times
        either = [jax.vmap(env.step)(state, anything) for env in (theirs, ours)]
        pairs = ((following, jax.vmap(ours.step)(state, actions)), either)
        return [jax.tree.map(lambda a, b: jnp.sum(a != b), *pair) for pair in pairs], following.rewards

    (last, _), (found, rewards) = random_play(theirs, jax.random.key(0), 45, differences)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(found))
    assert last.terminated.all() and (np.abs(rewards).sum(axis=(0, 2)) == 2).sum() >= 12  # the rest are draws


def test_every_line_of_four_is_found_and_nothing_else():
    """Each of the 69 lines alone, and boards of random stones by the definition."""
    lines = np.zeros((69, 42), bool)
    np.put_along_axis(lines, np.asarray(connect_four.IDX), True, axis=1)
    found = jax.jit(jax.vmap(lambda stones: has_line(stones.reshape(6, 7))))
    assert found(lines).all()
    boards = np.random.default_rng(0).random((2000, 42)) < 0.4
    np.testing.assert_array_equal(found(boards), (boards[:, np.asarray(connect_four.IDX)]).all(axis=2).any(axis=1))
    assert 200 < found(boards).sum() < 1800


def test_chess_is_that_of_pgx_in_random_games():
    """Legal moves and observations."""

    def differences(state, actions, following):
        x = following._x
        wrong = (jax.vmap(legal_action_mask)(x) != x.legal_action_mask).any(axis=1)
        unseen = (jax.vmap(ChessRules().observe)(x) != following.observation).any(axis=(1, 2, 3))
        return (wrong | unseen) & ~state.terminated, jax.vmap(chess._is_checked)(x) & ~state.terminated

    _, (wrong, checked) = random_play(pgx.make("chess"), jax.random.key(0), 200, differences)
    assert not wrong.any() and checked.sum() > 20


@pytest.mark.parametrize(
    ("fen", "count"),
    [
        ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", 48),  # both ways of castling
        ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 14),  # pins
        ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", 6),  # in check
        ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", 44),  # promotions
        ("8/8/8/K2pP2r/8/8/8/7k w - d6 0 2", 6),  # en passant would open the rank: one push and five king's moves
        ("8/8/8/3pP3/8/8/8/K6k w - d6 0 2", 5),  # en passant
        ("4k3/8/8/8/7b/8/8/r3K3 w - - 0 1", 2),  # two checks: the king must go
    ],
)
def test_chess_moves_of_known_positions(fen, count):
    """The first four are standard positions of move generators, whose counts are published."""
    x = from_fen(fen)._x
    mask = jax.jit(legal_action_mask)(x)
    assert int(mask.sum()) == count
    np.testing.assert_array_equal(mask, x.legal_action_mask)
