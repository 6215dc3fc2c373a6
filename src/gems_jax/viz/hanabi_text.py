"""Transcripts of Hanabi: one line per move, with its meaning and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gems_jax.games.hanabi.game import Hanabi
from gems_jax.types import GameState

COLORS = ("red", "yellow", "green", "white", "blue", "many-colored")
_LIKELY = 3  # maximum number of alternative actions to print


def describe_card(game: Hanabi, card: int) -> str:
    """Names a card, `red 3`; `nothing` for a gap in a hand."""
    return f"{COLORS[card // game.ranks]} {card % game.ranks + 1}" if card >= 0 else "nothing"


def describe_hand(game: Hanabi, state: GameState, seat: int) -> str:
    """Lists the cards of a seat."""
    return ", ".join(describe_card(game, int(card)) for card in np.asarray(state.inner.hands)[seat])


def _name_cards(numbers: Sequence[int]) -> str:
    """Formats positions in a hand: `card 2 is`, `cards 1, 2 and 4 are`, `no card are`."""
    named = [str(number + 1) for number in numbers]
    if len(named) == 1:
        return f"card {named[0]} is"
    return f"cards {', '.join(named[:-1])} and {named[-1]} are" if named else "no card are"


def describe_action(game: Hanabi, state: GameState, action: int) -> str:
    """Describes an action: `plays card 2`, `tells seat 1 that cards 1 and 3 are red`."""
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
    return f"tells seat {target} that {_name_cards(np.flatnonzero(meant).tolist())} {name}"


def describe_outcome(game: Hanabi, after: GameState) -> str:
    """Describes the card of a play or discard; "" after a hint."""
    table = after.inner
    card = int(table.last.card)
    if card < 0:
        return ""
    name, is_play = describe_card(game, card), int(table.last.action) >= game.hand_size
    if not is_play:
        return f": {name}"
    if not bool(table.last.scored):
        return f": {name} does not fit, {_count(int(table.lives), 'life', 'lives')} left"
    return f": {name} fits" + (", a hint comes back" if bool(table.last.gained) else "")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def describe_table(game: Hanabi, state: GameState) -> str:
    """Describes fireworks, tokens and deck."""
    table = state.inner
    built = ", ".join(f"{COLORS[color]} {int(top)}" for color, top in enumerate(np.asarray(table.fireworks)))
    left = game.deck_size - int(table.drawn)
    tokens = f"{_count(int(table.information), 'hint', 'hints')}, {_count(int(table.lives), 'life', 'lives')}"
    return f"fireworks {built}; {tokens}, {_count(left, 'card', 'cards')} to draw"


def describe_result(game: Hanabi, final: GameState) -> str:
    """Describes the score; if all lives are lost, with and without credit."""
    table, best = final.inner, game.colors * game.ranks
    built = int(np.asarray(table.fireworks).sum())
    if int(table.lives) == 0:
        return f"all lives are lost: score 0 of {best} without credit, {built} with credit"
    why = "every firework is complete" if built == best else "the deck is used up"
    return f"{why}: score {built} of {best}"


def hanabi_transcript(game: Hanabi, record: Any, number: int) -> str:
    """Formats one `GameRecord`: hands, every move with its probability and the likeliest others, the score."""
    turns, lines = record.turns, [f"game {number}"]
    if turns:
        lines += [f"  seat {seat} holds {describe_hand(game, turns[0].state, seat)}" for seat in range(game.players)]
    after = [*(turn.state for turn in turns[1:]), record.final]
    built = [0] * game.colors
    for index, (turn, following) in enumerate(zip(turns, after, strict=True), 1):
        lines += _describe_turn(game, turn, following, index)
        now = np.asarray(following.inner.fireworks).tolist()
        if now != built:
            lines.append(f"      {describe_table(game, following)}")
        built = now
    lines.append(f"  result: {describe_result(game, record.final)}")
    return "\n".join(lines)


def _describe_turn(game: Hanabi, turn: Any, following: GameState, index: int) -> list[str]:
    """Formats a move with its outcome, and the card drawn, if any."""
    ((seat, action),) = turn.actions.items()
    probs = turn.probabilities[seat]
    others = [int(other) for other in np.argsort(-probs) if other != action and probs[other] >= 0.05][:_LIKELY]
    rest = "".join(f"; {describe_action(game, turn.state, other)} {probs[other]:.2f}" for other in others)
    done = f"{describe_action(game, turn.state, action)}{describe_outcome(game, following)}"
    lines = [f"  {index:>2}. seat {seat} {done}  ({probs[action]:.2f}{rest})"]
    drawn = int(following.inner.hands[seat][-1])
    if action < 2 * game.hand_size and drawn >= 0 and not bool(following.done):
        lines.append(f"      and draws {describe_card(game, drawn)}")
    return lines
