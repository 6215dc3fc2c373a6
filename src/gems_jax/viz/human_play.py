"""A person against a trained mixture, in the terminal.

`play(policy, ask, tell)` is the whole of it: `ask(prompt)` returns what was typed (or raises EOFError), `tell(text)`
shows something. One policy is drawn from the mixture per game where the game is too large to mix exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from gems_jax.runner.errors import RunError
from gems_jax.runner.load import LoadedPolicy
from gems_jax.types import Array, Game, GameState
from gems_jax.viz.transcripts import GameTable, check_discrete, choose, movers
from gems_jax.viz.words import Words, legal_actions, words_of

QUIT = ("q", "quit", "exit")
LISTED = 9  # as many moves are listed when asking; of more, only how to type one is told


class Leave(Exception):
    """The person wants no more."""


class Person(NamedTuple):
    """Who plays: what was typed after a prompt, and how something is shown."""

    ask: Callable[[str], str]
    tell: Callable[[str], None]


def check_playable(game: Game) -> None:
    """RunError for games that cannot be shown in a terminal."""
    try:
        check_discrete(game)
    except ValueError as error:
        raise RunError(str(error)) from None
    if not words_of(game).playable:
        raise RunError(
            f"{game.name} cannot be played in a terminal; there are kuhn_poker, leduc_holdem, tic_tac_toe, "
            "connect_four, go_9x9, chess, deceptive_messages, public_goods and matrix games"
        )


def play(
    policy: LoadedPolicy,
    ask: Callable[[str], str],
    tell: Callable[[str], None],
    *,
    seat: int | None = None,
    seed: int = 0,
    games: int = 0,
) -> list[float]:
    """Plays until the person leaves, or `games` games (0: no end); returns what the person earned in each.

    seat: the person's, by default changing from game to game.
    """
    check_playable(policy.game)
    table, words, person = GameTable(policy.game), words_of(policy.game), Person(ask, tell)
    earned: list[float] = []
    tell(f"{words.title} against {policy.method} (iteration {policy.iteration}). Type {words.hint}; q leaves.")
    try:
        while not games or len(earned) < games:
            number = len(earned)
            own = number % policy.game.num_seats if seat is None else seat
            tell(f"\ngame {number + 1}: {_introduce(policy.game, words, own)}")
            key = jax.random.fold_in(jax.random.key(seed), number)
            earned.append(_one_game(table, words, policy, own, key, person))
            tell(f"you earned {earned[-1]:+g} {words.unit}; so far {sum(earned):+g} in {_count(earned)}")
    except (Leave, EOFError):
        tell("")
    per_game = f"{_count(earned)}, {np.mean(earned):+.3f} {words.unit} per game. " if earned else ""
    tell(f"{per_game}Good-bye.")
    return earned


def _introduce(game: Game, words: Words, own: int) -> str:
    called = f" ({words.seat(own)})" if words.seats else ""
    return f"you sit in seat {own}{called}" + " and begin" * (own == 0 and not game.simultaneous)


def _count(games: list[float]) -> str:
    return f"{len(games)} game{'s' * (len(games) > 1)}"


def _one_game(table: GameTable, words: Words, policy: LoadedPolicy, own: int, key: Array, person: Person) -> float:
    key_slots, key_deal, key_play = jax.random.split(key, 3)
    drawn, state, total, number = policy.episode(key_slots), table.init(key_deal), 0.0, 0
    while number < table.game.max_steps and not bool(state.done):
        key_act, key_step = jax.random.split(jax.random.fold_in(key_play, number))
        actions = {}
        for seat in movers(state):
            if seat == own:
                actions[seat] = _ask(words, state, own, person)
            else:
                actions[seat], _ = choose(drawn, state, seat, jax.random.fold_in(key_act, seat))
        for seat in [
            seat for seat in actions if seat != own
        ]:  # after all have chosen: nobody sees the others' choice before
            person.tell(f"opponent: {words.action(state, actions[seat])}")
        state = table.advance(state, actions, key_step)
        total += float(state.reward[own])
        number += 1
    for told in filter(None, (words.shown(state), words.ending(state) if words.ending else "")):
        person.tell(told)
    return total


def _ask(words: Words, state: GameState, seat: int, person: Person) -> int:
    """Show the position, and ask until a legal action was typed."""
    person.tell(words.seen(state, seat))
    legal = legal_actions(state, seat)
    names = ", ".join(words.action(state, action) for action in legal)
    asked = names if len(legal) <= LISTED else words.hint
    while True:
        text = person.ask(f"{asked} > ").strip()
        if text.lower() in QUIT:
            raise Leave
        action = words.of_text(state, text)
        if action in legal:
            return action  # type: ignore[return-value]
        why = f"only {names}" if words.why_not is None else words.why_not(state, text)
        person.tell(f"{text!r} is not possible here: {why} (q leaves)")
