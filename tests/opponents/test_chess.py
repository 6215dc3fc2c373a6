"""Material players of chess: hand-made positions, attacks against a plain ray walk, and play against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.opponents.chess import (
    attacked_squares,
    capture_gains,
    material_exchange,
    material_greedy,
    move_table,
)
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.uniform import random_policy

PIECES = "PNBRQK"
_GREEDY, _EXCHANGE = (
    jax.jit(lambda seen, legal, make=make: make().apply((), seen, legal).logits > -1.0)
    for make in (material_greedy, material_exchange)
)
_GAINS = jax.jit(capture_gains)


def observe(*ranks):
    """The observation of a board from the eighth rank down, own pieces in capitals; missing ranks are empty."""
    seen = np.zeros((8, 8, 119), np.float32)
    for row, rank in enumerate(ranks):
        for column, piece in enumerate(rank):
            if piece != ".":
                seen[row, column, PIECES.index(piece.upper()) + 6 * piece.islower()] = 1.0
    return jnp.asarray(seen)


def square(name):
    return 8 * (ord(name[0]) - ord("a")) + int(name[1]) - 1


def action(move):
    """The action of a move such as e2e4, or e7e8n for an underpromotion."""
    table = move_table()
    there = (table.origin == square(move[:2])) & (table.target == square(move[2:4]))
    piece = "PNBRQK".index(move[4:].upper() or "Q")
    (found,) = np.flatnonzero(there & ((np.arange(4672) % 73 >= 9) == (piece == 4)) & (table.promoted == piece))
    return int(found)


def chosen(play, seen, moves):
    codes = {action(move): move for move in moves.split()}
    legal = np.zeros(4672, bool)
    legal[list(codes)] = True
    return {codes[code] for code in np.flatnonzero(np.asarray(play(seen, jnp.asarray(legal)))).tolist()}


def test_actions_are_those_of_pgx():
    from pgx._src.games import chess

    table = move_table()
    inside = np.asarray(chess.FROM_PLANE).reshape(-1) >= 0
    np.testing.assert_array_equal(table.target[inside], np.asarray(chess.FROM_PLANE).reshape(-1)[inside])
    np.testing.assert_array_equal(table.origin, np.arange(4672) // 73)


def test_gains_of_captures_and_promotions():
    seen = observe("..r.....", "...P....", "........", "...pP...", "..q.....", "...P....", "K......k")
    gains = np.asarray(_GAINS(seen))
    expected = {"d7c8": 13, "d7d8": 8, "d7c8n": 7, "d7d8r": 4, "e5d6": 1, "e5e6": 0, "d3c4": 9, "a2a3": 0}
    assert {move: gains[action(move)] for move in expected} == expected


def test_the_greedy_player_takes_the_most_valuable_piece():
    seen = observe("........", "........", "........", "...q.r..", "....P...", "........", "........", "K......k")
    assert chosen(_GREEDY, seen, "e4d5 e4f5 a1a2") == {"e4d5"}
    assert chosen(_GREEDY, seen, "a1a2 a1b1 e4e5") == {"a1a2", "a1b1", "e4e5"}


@pytest.mark.parametrize(
    ("ranks", "moves", "best"),
    [
        # the queen may take a pawn that a pawn defends, or a lone knight
        (("....k...", "..p.....", "...p....", "........", "...Q..n."), "d4d6 d4g4 d4d5", {"d4g4"}),
        # a rook that a bishop attacks leaves, but not to another square that the bishop attacks
        (("b...k...", "........", "........", "...R...."), "d5d4 d5e4 d5d6", {"d5d4", "d5d6"}),
        # an interposed pawn is worth less than the rook
        (("b...k...", "........", "........", "........", "....R...", "...P...."), "d3d4 e4h4 e4h1", {"e4h4"}),
        # en passant removes the pawn that attacks the knight
        (("....k...", "........", "........", "...pP...", "..N....."), "e5d6 e5e6 c4a3", {"e5d6"}),
        # whatever the pawn becomes is captured: it costs a pawn
        (("..r.k...", "P......."), "a7a8 a7a8n a7a8r", {"a7a8", "a7a8n", "a7a8r"}),
        (("....k...", "P......."), "a7a8 a7a8n a7a8r", {"a7a8"}),
    ],
)
def test_the_exchange_player_expects_the_best_capture(ranks, moves, best):
    assert chosen(_EXCHANGE, observe(*ranks), moves) == best


def plain_attacks(board):
    """Squares (rank, file) that lowercase pieces attack; board[rank][file], rank 0 first."""
    found = set()
    lines, corners = ((1, 0), (-1, 0), (0, 1), (0, -1)), ((1, 1), (1, -1), (-1, 1), (-1, -1))
    leaps = [(a, b) for a in (-2, -1, 1, 2) for b in (-2, -1, 1, 2) if abs(a) != abs(b)]
    kinds = {
        "p": (((-1, 1), (-1, -1)), 1), "n": (leaps, 1), "b": (corners, 7), "r": (lines, 7),
        "q": (lines + corners, 7), "k": (lines + corners, 1),
    }  # fmt: skip
    for rank, file in np.ndindex(8, 8):
        for up, right in kinds.get(board[rank][file], ((), 0))[0]:
            for far in range(1, kinds[board[rank][file]][1] + 1):
                r, c = rank + far * up, file + far * right
                if not (0 <= r < 8 and 0 <= c < 8):
                    break
                found.add((r, c))
                if board[r][c] != ".":
                    break
    return found


def test_attacked_squares_are_those_of_a_plain_walk():
    generator = np.random.default_rng(0)
    boards = generator.choice(list(".pnbrqkPNB"), (50, 8, 8), p=[0.55, *[0.05] * 9])
    weights = 1 << np.arange(8)
    pieces = jnp.asarray([((boards == piece) * weights).sum(-1) for piece in "pnbrqk"], jnp.int32)
    filled = jnp.asarray(((boards != ".") * weights).sum(-1), jnp.int32)
    found = np.asarray(jax.jit(attacked_squares)(pieces, filled))
    for board, rows in zip(boards, found, strict=True):
        assert {(r, c) for r, c in np.ndindex(8, 8) if rows[r] >> c & 1} == plain_attacks(board)


@pytest.mark.slow
def test_each_player_beats_the_weaker_one():
    game = make_game("chess")
    for player, weaker in ((material_greedy(), random_policy(game)), (material_exchange(), material_greedy())):
        found = head_to_head(jax.random.key(0), game, fixed_profile(game, player), weaker, episodes=64)
        assert found.mean - found.interval > 0.0
