"""Boards in words: moves are named and typed as people write them, and what is not possible is explained."""

import re

import jax
import numpy as np
import pytest

from gems_jax.games import make_game
from gems_jax.viz.animation import board_of
from gems_jax.viz.board_words import (
    chess_board,
    chess_move,
    chess_result,
    explain_chess_error,
    explain_go_error,
    go_area,
    go_board,
    go_move,
    go_result,
    list_moves,
    parse_chess_move,
    parse_go_move,
)
from gems_jax.viz.human_play import play
from gems_jax.viz.transcripts import GameTable
from gems_jax.viz.words import legal_actions, words_of


@pytest.fixture(scope="module")
def tables() -> dict[str, GameTable]:
    return {name: GameTable(make_game(name)) for name in ("go_9x9", "chess", "connect_four")}


def played(table: GameTable, text: str):
    """The position after some moves, typed."""
    words, state = words_of(table.game), table.init(jax.random.key(0))
    for move in text.split():
        seat = int(np.argmax(np.asarray(state.to_move)))
        action = words.of_text(state, move)
        assert action in legal_actions(state, seat), move
        assert words.action(state, action) == move
        state = jax.device_get(table.advance(state, {seat: action}, jax.random.key(0)))
    return state


def test_points_of_go(tables: dict[str, GameTable]) -> None:
    """Letters without i from the left, numbers from below; the text and the picture agree with each other."""
    state = played(tables["go_9x9"], "a1 j9 e5 d4 pass")
    rows = go_board(state).splitlines()
    assert rows[0].split() == list("abcdefghj")
    assert rows[1].split() == ["9", *"........O"] and rows[9].split() == ["1", *"X........"]
    assert rows[5] == " 5  .  .  .  .  X  .  .  .  ." and rows[6] == " 4  .  .  .  O  .  .  .  .  ."
    assert "(" not in go_board(state)  # the last move was a pass
    assert "(O)" in go_board(played(tables["go_9x9"], "a1 j9"))
    assert [go_move(state, action) for action in (0, 8, 72, 80, 81)] == ["a9", "j9", "a1", "j1", "pass"]
    assert {parse_go_move(state, go_move(state, action)) for action in range(82)} == set(range(82))
    assert parse_go_move(state, "D4") == parse_go_move(state, "d4") == 48 and parse_go_move(state, "PASS") == 81
    board = board_of(state.inner.state)
    assert board is not None and board.moved(state, 81) == [] and board.moved(state, 72) == [(0, 8)]
    assert board.columns[0] == "a" and board.rows[8] == "1"


@pytest.mark.parametrize("text", ["", "i5", "a0", "a10", "k1", "44", "d", "d4d4", "d-1", "d²", "passs", "\x00"])
def test_what_is_no_point(tables: dict[str, GameTable], text: str) -> None:
    state = played(tables["go_9x9"], "")
    assert parse_go_move(state, text) is None and "a1 to j9" in explain_go_error(state, text)


def test_why_a_stone_cannot_be_set(tables: dict[str, GameTable]) -> None:
    state = played(tables["go_9x9"], "a2 j9 b1")
    assert explain_go_error(state, "a2") == "there is a stone"
    assert "no liberty" in explain_go_error(state, "a1") and parse_go_move(state, "a1") not in list_moves(state)


def test_results_of_go(tables: dict[str, GameTable]) -> None:
    table = tables["go_9x9"]
    assert go_result(played(table, "pass pass")) == "both passed: white wins by 7.5 (0 to 0 + 7.5)"
    assert go_result(played(table, "e5 pass pass")) == "both passed: black wins by 73.5 (81 to 0 + 7.5)"
    repeated = played(table, "b8 b9 c8 a8 d9 c9 a9 b9")
    assert bool(repeated.terminated) and go_result(repeated).startswith("the position was there before")
    wall = np.zeros((9, 9), int)
    wall[:, 4], wall[:, 6] = 1, -1  # black has four columns, white two, the one between them nobody
    assert go_area(wall) == (9 * 5, 9 * 3)


def test_moves_of_chess(tables: dict[str, GameTable]) -> None:
    """Both sides see the board as white does, and the board says what was played."""
    state = played(tables["chess"], "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5")
    rows = chess_board(state).splitlines()
    assert rows[0] == "8  r . b q k . n r" and rows[4] == "4  . . B . P . . ." and rows[-1] == "   a b c d e f g h"
    assert rows[3] == "5  . . b . p . . ."
    castled = tables["chess"].advance(state, {0: parse_chess_move(state, "O-O")}, jax.random.key(0))
    assert chess_board(castled).splitlines()[7] == "1  R N B Q . R K ."
    assert (
        parse_chess_move(state, "e1-g1") == parse_chess_move(state, "0-0") and parse_chess_move(state, "o-o-o") is None
    )
    board = board_of(state.inner.state)
    assert board is not None and board.moved(state, parse_chess_move(state, "c4f7")) == [(2, 4), (5, 1)]
    taken = parse_chess_move(state, "c4xf7+")
    assert taken is not None and chess_move(state, taken) == "c4f7"


def test_a_pawn_turns_into_what_was_typed(tables: dict[str, GameTable]) -> None:
    state = played(tables["chess"], "a2a4 b7b5 a4b5 b8c6 b5b6 c6b8 b6b7 b8c6")
    names = [chess_move(state, action) for action in list_moves(state)]
    turned_into = {f"b7{square}{turned}" for square in ("a8", "b8", "c8") for turned in "qrbn"}
    assert {name for name in names if name[:2] == "b7"} == turned_into
    for turned, piece in zip("qrbn", "QRBN", strict=True):
        action = parse_chess_move(state, f"b7a8{turned}")
        assert action is not None
        after = tables["chess"].advance(state, {0: action}, jax.random.key(0))
        assert chess_board(after).splitlines()[0].split()[1] == piece


def test_why_a_move_of_chess_is_not_possible(tables: dict[str, GameTable]) -> None:
    state = played(tables["chess"], "e2e4")
    assert "a move is two squares, from and to" in explain_chess_error(state, "e5")
    assert explain_chess_error(state, "e7e4") == "from e7 there are only e7e6, e7e5"
    assert explain_chess_error(state, "d2d4") == "no piece of yours is on d2"
    assert explain_chess_error(state, "a8a5") == "the piece on a8 cannot move"


def test_results_of_chess(tables: dict[str, GameTable]) -> None:
    table = tables["chess"]
    assert chess_result(played(table, "f2f3 e7e5 g2g4 d8h4")) == "checkmate: white has lost"
    there_and_back = "g1f3 g8f6 f3g1 f6g8 "
    assert "third time: a draw" in chess_result(played(table, there_and_back * 2))
    stalemate = "e2e3 a7a5 d1h5 a8a6 h5a5 h7h5 h2h4 a6h6 a5c7 f7f6 c7d7 e8f7 d7b7 d8d3 b7b8 d3h7 b8c8 f7g6 c8e6"
    state = played(table, stalemate)
    assert bool(state.terminated) and chess_result(state) == "stalemate, black cannot move: a draw"


class Person:
    """The other side of a game against the first legal moves: any policy will do."""

    game = make_game("go_9x9")
    method, iteration = "a script", 1

    def episode(self, key):
        return self

    def probabilities(self, observation, legal, seat):
        return np.asarray(legal, np.float64) / np.asarray(legal).sum()


def test_a_game_of_go_against_a_person() -> None:
    """Prompts stay short, errors say why, both pass in the end."""
    told: list[str] = []
    typed = iter(["i5", "d4", "d4", "castle"])

    def ask(prompt: str) -> str:
        told.append(prompt)
        return next(typed, "pass")

    (earned,) = play(Person(), ask, told.append, seat=0, games=1, seed=0)  # type: ignore[arg-type]
    text = "\n".join(told)
    assert "Go on 9x9 against a script" in text and "you sit in seat 0 (black) and begin" in text
    assert max(len(line) for line in text.splitlines()) <= 120 and "a point such as d4, or pass > " in told
    assert (
        "'i5' is not possible here: it is neither a point" in text
        and "'d4' is not possible here: there is a stone" in text
    )
    assert re.search(r"(black|white) wins by [\d.]+ \(", text) and earned in (-1.0, 1.0)
