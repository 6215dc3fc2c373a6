"""Positions and actions in words, for transcripts and for people who play: Kuhn, Leduc, tic-tac-toe, Connect Four.

Every other game gets plain numbers. Functions take concrete states (not traced ones).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gems_jax.types import Game, GameState

CARDS = "JQK"
MARKS = "XO"


class Words(NamedTuple):
    """How to speak of one game."""

    title: str
    action: Callable[[GameState, int], str]  # what playing it in this position is called
    seen: Callable[[GameState, int], str]  # the position as a seat sees it
    shown: Callable[[GameState], str]  # what a spectator sees who is shown everything
    unit: str
    hint: str  # how to type an action
    of_text: Callable[[GameState, str], int | None]  # what somebody typed, None when it is no action at all


def words_of(game: Game) -> Words:
    """The game's own words, or plain numbers."""
    return _WORDS.get(game.name, _plain(game))


def has_words(game: Game) -> bool:
    return game.name in _WORDS


def legal_actions(state: GameState, seat: int) -> list[int]:
    return [int(action) for action in np.nonzero(np.asarray(state.legal[seat]))[0]]


# --- poker


def _card(state: GameState, seat: int) -> str:
    return CARDS[int(state.inner.state._cards[int(state.inner.first) ^ seat])]


def _kuhn_action(state: GameState, action: int) -> str:
    facing_bet = int(state.inner.state._last_action) == 0
    return (("call", "fold") if facing_bet else ("bet", "check"))[action]


def _kuhn_seen(state: GameState, seat: int) -> str:
    own, other = (int(state.inner.state._pot[int(state.inner.first) ^ each]) + 1 for each in (seat, 1 - seat))
    return f"your card: {_card(state, seat)}   in the pot: {own} of yours, {other} of theirs"


def _kuhn_shown(state: GameState) -> str:
    return f"seat 0 holds {_card(state, 0)}, seat 1 holds {_card(state, 1)}"


def _leduc_action(state: GameState, action: int) -> str:
    chips = state.inner.state._chips
    return ("check" if int(chips[0]) == int(chips[1]) else "call", "raise", "fold")[action]


def _leduc_open(state: GameState) -> bool:
    """Whether the table's card was turned. pgx counts a round that a fold has ended as over, too."""
    position = state.inner.state
    return int(position._round) > int(position.terminated)


def _leduc_public(state: GameState) -> str:
    return CARDS[int(state.inner.state._cards[2])] if _leduc_open(state) else "not yet"


def _leduc_seen(state: GameState, seat: int) -> str:
    own, other = (int(state.inner.state._chips[int(state.inner.first) ^ each]) for each in (seat, 1 - seat))
    cards = f"your card: {_card(state, seat)}   on the table: {_leduc_public(state)}"
    return f"{cards}   in the pot: {own} of yours, {other} of theirs"


def _leduc_shown(state: GameState) -> str:
    cards = f"seat 0 holds {_card(state, 0)}, seat 1 holds {_card(state, 1)}"
    return f"{cards}, the table shows {_leduc_public(state)}" if _leduc_open(state) else cards


def _named(action: Callable[[GameState, int], str]) -> Callable[[GameState, str], int | None]:
    """Actions typed by name or by any beginning of it."""

    def of_text(state: GameState, text: str) -> int | None:
        seat = int(np.argmax(np.asarray(state.to_move)))
        found = [each for each in legal_actions(state, seat) if action(state, each).startswith(text.lower())]
        return found[0] if text and len(found) == 1 else None

    return of_text


# --- boards


def _board(state: GameState, columns: int) -> str:
    cells = [" " if int(mark) < 0 else MARKS[int(mark)] for mark in state.inner.state._x.board]
    rows = [" " + " | ".join(cells[start : start + columns]) for start in range(0, len(cells), columns)]
    return ("\n" + "-" * (4 * columns - 1) + "\n").join(rows)


def _tic_tac_toe(state: GameState, *seat: int) -> str:
    cells = [str(n + 1) if int(mark) < 0 else MARKS[int(mark)] for n, mark in enumerate(state.inner.state._x.board)]
    return "\n---+---+---\n".join(" " + " | ".join(cells[start : start + 3]) for start in (0, 3, 6))


def _connect_four(state: GameState, *seat: int) -> str:
    return f"{_board(state, 7)}\n " + "   ".join("1234567")


def _with_mark(draw: Callable[..., str]) -> Callable[[GameState, int], str]:
    return lambda state, seat: f"{draw(state)}\nyou are {MARKS[seat]}"


def _numbered(state: GameState, text: str) -> int | None:
    """Fields and columns are counted from 1."""
    number = int(text) - 1 if text.isascii() and text.isdigit() and len(text) < 6 else -1
    return number if 0 <= number < state.legal.shape[1] else None


def _plain(game: Game) -> Words:
    def number(state: GameState, text: str) -> int | None:
        return int(text) if text.isascii() and text.isdigit() and int(text[:6]) < game.num_actions else None

    return Words(
        title=game.name,
        action=lambda state, action: f"action {action}",
        seen=lambda state, seat: f"you sit in seat {seat}",
        shown=lambda state: "",
        unit="points",
        hint="the number of an action",
        of_text=number,
    )


_BY_NAME = "the name of an action, or its first letter"
_WORDS: dict[str, Words] = {
    "kuhn_poker": Words("Kuhn poker", _kuhn_action, _kuhn_seen, _kuhn_shown, "chips", _BY_NAME, _named(_kuhn_action)),
    "leduc_holdem": Words(
        "Leduc hold'em", _leduc_action, _leduc_seen, _leduc_shown, "chips", _BY_NAME, _named(_leduc_action)
    ),
    "tic_tac_toe": Words(
        "tic-tac-toe",
        lambda state, action: f"field {action + 1}",
        _with_mark(_tic_tac_toe),
        _tic_tac_toe,
        "points",
        "the number of a field",
        _numbered,
    ),
    "connect_four": Words(
        "Connect Four",
        lambda state, action: f"column {action + 1}",
        _with_mark(_connect_four),
        _connect_four,
        "points",
        "the number of a column",
        _numbered,
    ),
}


def returns_in_words(returns: Any) -> str:
    """`seat 0 +1, seat 1 -1`."""
    return ", ".join(f"seat {seat} {float(value):+g}" for seat, value in enumerate(returns))
