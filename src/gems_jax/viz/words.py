"""Descriptions of positions and actions, for transcripts and for play in the terminal.

This module has two-player poker and the small games; multiplayer poker and Liar's Dice are in `table_words`, boards in
`board_words`, Hanabi in `hanabi_text`. Every other game is described by itself, or by `observation_words`. Functions
take concrete states (not traced ones).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gems_jax.games.deceptive import DeceptiveMessages
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.liars_dice import LiarsDice
from gems_jax.games.particles import ParticleGame
from gems_jax.types import ActionNaming, Array, Described, Game, GameState, supports
from gems_jax.viz import board_words as boards
from gems_jax.viz import hanabi_text, observation_words, table_words

CARDS = "JQK"
_FEW_ACTIONS = 100  # maximum number of actions that a person can choose from by number


class Words(NamedTuple):
    """Functions that describe a game and parse typed actions."""

    title: str
    action: Callable[[GameState, int], str]  # name of an action in a position
    seen: Callable[[GameState, int], str]  # position as a seat sees it
    shown: Callable[[GameState], str]  # position as a spectator with full information sees it
    unit: str
    hint: str  # how to type an action
    of_text: Callable[[GameState, str], int | None]  # parses a typed action; None if it is invalid
    why_not: Callable[[GameState, str], str] | None = (
        None  # explains why a typed action is not possible; default: lists the legal ones
    )
    ending: Callable[[GameState], str] | None = None  # describes how a finished game ended, if it is not obvious
    seats: tuple[str, ...] = ()  # names of the seats; default: `seat 0`, ...
    legend: str = ""  # meaning of the marks of `shown`
    shown_every: int = 1  # moves between two positions of a transcript, which always has the last one
    playable: bool = True  # whether a person can play by these descriptions

    def seat(self, seat: int) -> str:
        """Names a seat."""
        return self.seats[seat] if self.seats else f"seat {seat}"

    def returns(self, returns: Any) -> str:
        """Formats the returns of all seats: `black +1, white -1`."""
        return ", ".join(f"{self.seat(seat)} {float(value):+g}" for seat, value in enumerate(returns))


def words_of(game: Game) -> Words:
    """Returns the descriptions of a game: its own, those of this package, or its observations and plain numbers."""
    own = supports(game, ActionNaming) or supports(game, Described)
    return (_plain if own else _WORDS.get(game.name, _plain))(game)


def legal_actions(state: GameState, seat: int) -> list[int]:
    """Lists the legal actions of a seat."""
    return [int(action) for action in np.nonzero(np.asarray(state.legal[seat]))[0]]


# --- poker


def _card_name(card: Array) -> str:
    return CARDS[int(card) % len(CARDS)]  # whatever its suit


def _card(state: GameState, seat: int) -> str:
    return _card_name(state.inner.state._cards[int(state.inner.first) ^ seat])


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
    """Checks whether the public card is revealed. pgx also counts a round that ended by a fold."""
    position = state.inner.state
    return int(position._round) > int(position.terminated)


def _leduc_public(state: GameState) -> str:
    return _card_name(state.inner.state._cards[2]) if _leduc_open(state) else "not yet"


def _leduc_seen(state: GameState, seat: int) -> str:
    own, other = (int(state.inner.state._chips[int(state.inner.first) ^ each]) for each in (seat, 1 - seat))
    cards = f"your card: {_card(state, seat)}   on the table: {_leduc_public(state)}"
    return f"{cards}   in the pot: {own} of yours, {other} of theirs"


def _leduc_shown(state: GameState) -> str:
    cards = f"seat 0 holds {_card(state, 0)}, seat 1 holds {_card(state, 1)}"
    return f"{cards}, the table shows {_leduc_public(state)}" if _leduc_open(state) else cards


def _match_name(action: Callable[[GameState, int], str]) -> Callable[[GameState, str], int | None]:
    """Makes a parser of actions by name or by any unique prefix."""

    def of_text(state: GameState, text: str) -> int | None:
        seat = int(np.argmax(np.asarray(state.to_move)))
        found = [each for each in legal_actions(state, seat) if action(state, each).lower().startswith(text.lower())]
        return found[0] if text and len(found) == 1 else None

    return of_text


# --- games of one or two choices


def _choices(title: str, *names: str) -> Callable[[Game], Words]:
    """Describes a game of one simultaneous choice. Actions can be typed by name or number."""

    def action(state: GameState, action: int) -> str:
        return names[action]

    def seen(state: GameState, seat: int) -> str:
        return f"you sit in seat {seat}"

    def of_text(state: GameState, text: str) -> int | None:
        return by_name(state, text) if not text.isdigit() else _parse_index(len(names))(state, text)

    by_name = _match_name(action)
    words = Words(title, action, seen, lambda state: "", "points", _BY_NAME, of_text)
    return lambda game: words


def _deceptive(game: Game) -> Words:
    """Describes Deceptive Messages by numbers. The Receiver does not see which arm is best."""
    assert isinstance(game, DeceptiveMessages)

    def action(state: GameState, action: int) -> str:
        return f"{'message' if int(state.inner.turn) == 0 else 'arm'} {action}"

    def seen(state: GameState, seat: int) -> str:
        if seat == 0:
            return f"you are the Sender: arm {int(state.inner.best)} is best, arm {game.target} is your target"
        return f"you are the Receiver: the message is {int(state.inner.message)}"

    def shown(state: GameState) -> str:
        return f"arm {int(state.inner.best)} is best, arm {game.target} is the target"

    names = tuple(name.capitalize() for name in game.player_names)
    of_text, hint = _parse_index(game.arms), "the number of a message or an arm"
    return Words("Deceptive Messages", action, seen, shown, "points", hint, of_text, seats=names)


def _liars_dice(game: Game) -> Words:
    assert isinstance(game, LiarsDice)

    def action(state: GameState, action: int) -> str:
        return table_words.name_bid(game, action)

    def seen(state: GameState, seat: int) -> str:
        return table_words.see_dice(game, state, seat)

    hint = "a bid such as 2x5 (two fives), or liar"
    return Words("Liar's Dice", action, seen, table_words.show_dice, "points", hint, _match_name(action))


def _goofspiel(game: Game) -> Words:
    """Describes bids by their cards. It is not playable, because a position is only a number."""
    return _plain(game)._replace(title="Goofspiel", action=lambda state, action: f"card {action + 1}", playable=False)


# --- boards, Hanabi, particles


def _board(
    title: str,
    action: Callable[[GameState, int], str],
    draw: Callable[[GameState], str],
    hint: str,
    of_text: Callable[[GameState, str], int | None],
    marks: tuple[str, str],
    seats: tuple[str, str],
    **more: Any,
) -> Callable[[Game], Words]:
    """Describes a board game. marks: symbols of the two seats in the text; seats: their names."""
    different = marks != seats

    def seen(state: GameState, seat: int) -> str:
        return f"{draw(state)}\nyou are {seats[seat]}" + f" ({marks[seat]})" * different

    legend = ", ".join(f"{mark} is {seat}" for mark, seat in zip(marks, seats, strict=True)) if different else ""
    words = Words(title, action, seen, draw, "points", hint, of_text, seats=seats, legend=legend, **more)
    return lambda game: words


def _explain_full(state: GameState, text: str) -> str:
    action = boards.parse_number(state, text)
    return "columns are 1 to 7" if action is None else f"column {action + 1} is full"


def _explain_taken(state: GameState, text: str) -> str:
    action = boards.parse_number(state, text)
    return "fields are 1 to 9" if action is None else f"field {action + 1} is taken"


def _hanabi(game: Game) -> Words:
    assert isinstance(game, Hanabi)
    return _plain(game)._replace(title="Hanabi", action=partial(hanabi_text.describe_action, game), playable=False)


def _particles(game: Game) -> Words:
    """Names seats by their kinds: `pursuer 1`, `evader`, `agent 3`."""
    assert isinstance(game, ParticleGame)
    kinds = [body.kind for body in game.bodies[: game.num_seats]]
    names = tuple(
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[: seat + 1].count(kind)}" for seat, kind in enumerate(kinds)
    )
    return _plain(game)._replace(seats=names, playable=False)


# --- everything else


def _parse_index(count: int) -> Callable[[GameState, str], int | None]:
    def of_text(state: GameState, text: str) -> int | None:
        return int(text) if text.isascii() and text.isdigit() and int(text[:6]) < count else None

    return of_text


def _plain(game: Game) -> Words:
    action = partial(observation_words.name_action, game)
    return Words(
        title=game.name,
        action=action,
        seen=partial(observation_words.see_position, game),
        shown=partial(observation_words.show_position, game),
        unit="points",
        hint="the name or the number of an action",
        of_text=_match_word(action),
        playable=not game.continuous and (game.num_actions <= _FEW_ACTIONS or supports(game, ActionNaming)),
    )


def _match_word(action: Callable[[GameState, int], str]) -> Callable[[GameState, str], int | None]:
    """Makes a parser of actions by name, by a word of the name (`2` for `take 2`), or by any unique prefix."""

    def of_text(state: GameState, text: str) -> int | None:
        word, legal = text.strip().lower(), np.asarray(state.legal)[np.asarray(state.to_move)].any(axis=0)
        names = {int(each): action(state, int(each)).lower() for each in np.flatnonzero(legal)}
        rules: tuple[Callable[[str], bool], ...] = (
            lambda name: name == word,
            lambda name: word in name.split(),
            lambda name: bool(word) and name.startswith(word),
        )
        found = ([each for each, name in names.items() if rule(name)] for rule in rules)
        return next((matches[0] for matches in found if len(matches) == 1), None)

    return of_text


_BY_NAME = "the name of an action, or its first letter"
_KUHN = Words("Kuhn poker", _kuhn_action, _kuhn_seen, _kuhn_shown, "chips", _BY_NAME, _match_name(_kuhn_action))
_LEDUC = Words("Leduc hold'em", _leduc_action, _leduc_seen, _leduc_shown, "chips", _BY_NAME, _match_name(_leduc_action))
_KUHN_3P = Words(
    "Kuhn poker for three", table_words.name_kuhn_action, table_words.see_kuhn, table_words.show_kuhn, "chips",
    _BY_NAME, _match_name(table_words.name_kuhn_action),
)  # fmt: skip
_LEDUC_3P = Words(
    "Leduc poker for three", table_words.name_leduc_action, table_words.see_leduc, table_words.show_leduc, "chips",
    _BY_NAME, _match_name(table_words.name_leduc_action),
)  # fmt: skip


def _go(title: str) -> Callable[[Game], Words]:
    return _board(
        title,
        boards.go_move,
        boards.go_board,
        "a point such as d4, or pass",
        boards.parse_go_move,
        ("X", "O"),
        ("black", "white"),
        why_not=boards.explain_go_error,
        ending=boards.go_result,
        shown_every=20,
    )


_WORDS: dict[str, Callable[[Game], Words]] = {
    "kuhn_poker": lambda game: _KUHN,
    "leduc_holdem": lambda game: _LEDUC,
    "kuhn_poker_3p": lambda game: _KUHN_3P,
    "leduc_poker_3p": lambda game: _LEDUC_3P,
    "liars_dice": _liars_dice,
    "goofspiel": _goofspiel,
    "tic_tac_toe": _board(
        "tic-tac-toe",
        lambda state, action: f"field {action + 1}",
        boards.draw_tic_tac_toe,
        "the number of a field",
        boards.parse_number,
        ("X", "O"),
        ("X", "O"),
        why_not=_explain_taken,
    ),
    "connect_four": _board(
        "Connect Four",
        lambda state, action: f"column {action + 1}",
        boards.draw_connect_four,
        "the number of a column",
        boards.parse_number,
        ("X", "O"),
        ("black", "white"),
        why_not=_explain_full,
    ),
    "go_9x9": _go("Go on 9x9"),
    "pgx:go_19x19": _go("Go on 19x19"),
    "chess": _board(
        "chess",
        boards.chess_move,
        boards.chess_board,
        "a move such as e2e4, e7e8q or o-o",
        boards.parse_chess_move,
        ("KQRBNP", "kqrbnp"),
        ("white", "black"),
        why_not=boards.explain_chess_error,
        ending=boards.chess_result,
        shown_every=20,
    ),
    "hanabi": _hanabi,
    "simple_tag": _particles,
    "simple_spread": _particles,
    "rock_paper_scissors": _choices("rock-paper-scissors", "rock", "paper", "scissors"),
    "biased_rps": _choices("biased rock-paper-scissors", "rock", "paper", "scissors"),
    "matching_pennies": _choices("matching pennies", "heads", "tails"),
    "biased_matching_pennies": _choices("biased matching pennies", "heads", "tails"),
    "prisoners_dilemma": _choices("the prisoner's dilemma", "cooperate", "defect"),
    "public_goods": _choices("the Public Goods Game", "withhold", "contribute"),
    "deceptive_messages": _deceptive,
}
