"""Games of Hanabi in plain words: one line per move, with what was meant and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gems_jax.games.hanabi.game import Hanabi
from gems_jax.types import GameState

COLORS = ("red", "yellow", "green", "white", "blue", "many-colored")
_LIKELY = 3  # other actions that are told with their probabilities


def card_in_words(game: Hanabi, card: int) -> str:
    """`red 3`; `nothing` for a gap in a hand."""
    return f"{COLORS[card // game.ranks]} {card % game.ranks + 1}" if card >= 0 else "nothing"


def hand_in_words(game: Hanabi, state: GameState, seat: int) -> str:
    return ", ".join(card_in_words(game, int(card)) for card in np.asarray(state.inner.hands)[seat])


def _places(numbers: Sequence[int]) -> str:
    """`card 2 is`, `cards 1, 2 and 4 are`, `no card are`."""
    named = [str(number + 1) for number in numbers]
    if len(named) == 1:
        return f"card {named[0]} is"
    return f"cards {', '.join(named[:-1])} and {named[-1]} are" if named else "no card are"


def action_in_words(game: Hanabi, state: GameState, action: int) -> str:
    """Describes what playing `action` means here: `plays card 2`, `tells seat 1 that cards 1 and 3 are red`."""
    hand, mover = game.hand_size, int(state.inner.turn) % game.players
    if action < 2 * hand:
        return f"{'plays' if action >= hand else 'discards'} card {action % hand + 1}"
    code, colors = action - 2 * hand, (game.players - 1) * game.colors
    if code < colors:
        distance, value = divmod(code, game.colors)
        kind, name = "color", COLORS[value]
    else:
        distance, value = divmod(code - colors, game.ranks)
        kind, name = "rank", f"of rank {value + 1}"
    target = (mover + 1 + distance) % game.players
    cards = np.asarray(state.inner.hands)[target]
    meant = {"color": cards // game.ranks == value, "rank": (cards % game.ranks == value) & (cards >= 0)}[kind]
    return f"tells seat {target} that {_places(np.flatnonzero(meant).tolist())} {name}"


def outcome_in_words(game: Hanabi, after: GameState) -> str:
    """What a play or discard turned out to be; empty after a hint."""
    table = after.inner
    card = int(table.last.card)
    if card < 0:
        return ""
    name, is_play = card_in_words(game, card), int(table.last.action) >= game.hand_size
    if not is_play:
        return f": {name}"
    if not bool(table.last.scored):
        return f": {name} does not fit, {_count(int(table.lives), 'life', 'lives')} left"
    return f": {name} fits" + (", a hint comes back" if bool(table.last.gained) else "")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def table_in_words(game: Hanabi, state: GameState) -> str:
    table = state.inner
    built = ", ".join(f"{COLORS[color]} {int(top)}" for color, top in enumerate(np.asarray(table.fireworks)))
    left = game.deck_size - int(table.drawn)
    tokens = f"{_count(int(table.information), 'hint', 'hints')}, {_count(int(table.lives), 'life', 'lives')}"
    return f"fireworks {built}; {tokens}, {_count(left, 'card', 'cards')} to draw"


def result_in_words(game: Hanabi, final: GameState) -> str:
    """The score, and what it would be by the other way of counting when the lives ran out."""
    table, best = final.inner, game.colors * game.ranks
    built = int(np.asarray(table.fireworks).sum())
    if int(table.lives) == 0:
        return f"all lives are lost: score 0 of {best} without credit, {built} with credit"
    why = "every firework is complete" if built == best else "the deck is used up"
    return f"{why}: score {built} of {best}"


def hanabi_transcript(game: Hanabi, record: Any, number: int) -> str:
    """Writes one game (a `GameRecord`): hands, every move with its probability and the likeliest others, the score."""
    turns, lines = record.turns, [f"game {number}"]
    if turns:
        lines += [f"  seat {seat} holds {hand_in_words(game, turns[0].state, seat)}" for seat in range(game.players)]
    after = [*(turn.state for turn in turns[1:]), record.final]
    built = [0] * game.colors
    for index, (turn, following) in enumerate(zip(turns, after, strict=True), 1):
        lines += _turn_in_words(game, turn, following, index)
        now = np.asarray(following.inner.fireworks).tolist()
        if now != built:
            lines.append(f"      {table_in_words(game, following)}")
        built = now
    lines.append(f"  result: {result_in_words(game, record.final)}")
    return "\n".join(lines)


def _turn_in_words(game: Hanabi, turn: Any, following: GameState, index: int) -> list[str]:
    """The move with what came of it, and the card that was drawn, where one was."""
    ((seat, action),) = turn.actions.items()
    probs = turn.probabilities[seat]
    others = [int(other) for other in np.argsort(-probs) if other != action and probs[other] >= 0.05][:_LIKELY]
    rest = "".join(f"; {action_in_words(game, turn.state, other)} {probs[other]:.2f}" for other in others)
    done = f"{action_in_words(game, turn.state, action)}{outcome_in_words(game, following)}"
    lines = [f"  {index:>2}. seat {seat} {done}  ({probs[action]:.2f}{rest})"]
    drawn = int(following.inner.hands[seat][-1])
    if action < 2 * game.hand_size and drawn >= 0 and not bool(following.done):
        lines.append(f"      and draws {card_in_words(game, drawn)}")
    return lines
