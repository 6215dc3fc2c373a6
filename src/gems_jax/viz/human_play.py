"""Play of a person against a trained mixture, in the terminal.

`play(policy, ask, show)`: `ask(prompt)` returns the typed text (or raises EOFError), `show(text)` prints. If the game
is not enumerable, one policy is sampled from the mixture per game.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.runner.errors import RunError
from gems_jax.types import Array, Game, GameState
from gems_jax.viz.transcripts import GameTable, check_discrete, choose_action, movers
from gems_jax.viz.words import Words, legal_actions, words_of

QUIT = ("q", "quit", "exit")
LISTED = 9  # maximum number of moves to list in a prompt; otherwise the prompt explains how to type one


class Leave(Exception):
    """Raised when the person quits."""


class Person(NamedTuple):
    """Input and output of the person who plays."""

    ask: Callable[[str], str]
    show: Callable[[str], None]


def check_playable(game: Game) -> None:
    """Checks that a game can be played in a terminal. Raises RunError."""
    try:
        check_discrete(game)
    except ValueError as error:
        raise RunError(str(error)) from None
    if not words_of(game).playable:
        raise RunError(
            f"{game.name} cannot be played in a terminal: expected discrete actions, at most 100 or with names "
            "(`action_name`), and positions that can be read, as those of kuhn_poker. `gems replay` shows its games"
        )


def play(
    policy: LoadedPolicy,
    ask: Callable[[str], str],
    show: Callable[[str], None],
    *,
    seat: int | None = None,
    seed: int = 0,
    games: int = 0,
) -> list[float]:
    """Plays games of a person against the mixture.

    Args:
      policy: the mixture.
      ask: returns the text typed after a prompt.
      show: prints a text.
      seat: seat of the person; None alternates.
      seed: seed of the deals.
      games: number of games; 0 until the person quits.

    Returns:
      The returns of the person.
    """
    check_playable(policy.game)
    table, words, person = GameTable(policy.game), words_of(policy.game), Person(ask, show)
    earned: list[float] = []
    how = f"Type {words.hint}; ? lists the actions, q leaves."
    show(f"{words.title} against {policy.method} (iteration {policy.iteration}). {how}")
    try:
        while not games or len(earned) < games:
            number = len(earned)
            own = number % policy.game.num_seats if seat is None else seat
            show(f"\ngame {number + 1}: {_introduce(policy.game, words, own)}")
            key = jax.random.fold_in(jax.random.key(seed), number)
            earned.append(_one_game(table, words, policy, own, key, person))
            show(f"you earned {earned[-1]:+g} {words.unit}; so far {sum(earned):+g} in {_count(earned)}")
    except (Leave, EOFError):
        show("")
    per_game = f"{_count(earned)}, {np.mean(earned):+.3f} {words.unit} per game. " if earned else ""
    show(f"{per_game}Good-bye.")
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
                actions[seat], _ = choose_action(drawn, state, seat, jax.random.fold_in(key_act, seat))
        for seat in [seat for seat in actions if seat != own]:  # after all have chosen: choices are simultaneous
            person.show(f"opponent: {words.action(state, actions[seat])}")
        state = table.advance(state, actions, key_step)
        total += float(state.reward[own])
        number += 1
    for text in filter(None, (words.shown(state), words.ending(state) if words.ending else "")):
        person.show(text)
    return total


def _ask(words: Words, state: GameState, seat: int, person: Person) -> int:
    """Shows the position, and asks until a legal action is typed."""
    person.show(words.seen(state, seat))
    legal = legal_actions(state, seat)
    names = ", ".join(words.action(state, action) for action in legal)
    asked = names if len(legal) <= LISTED else words.hint
    while True:
        text = person.ask(f"{asked} > ").strip()
        if text.lower() in QUIT:
            raise Leave
        if text == "?":
            person.show(textwrap.fill(names, 78))
            continue
        action = words.of_text(state, text)
        if action in legal:
            return action  # type: ignore[return-value]
        why = f"only {names}" if words.why_not is None else words.why_not(state, text)
        person.show(f"{text!r} is not possible here: {why} (q leaves)")
