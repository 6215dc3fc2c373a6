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
    """`card 2`, `cards 1, 2 and 4`."""
    named = [str(number + 1) for number in numbers]
    if len(named) == 1:
        return f"card {named[0]}"
    return f"cards {', '.join(named[:-1])} and {named[-1]}"


def action_in_words(game: Hanabi, state: GameState, action: int) -> str:
    """What playing `action` in this position means: `plays card 2`, `tells seat 1 that cards 1 and 3 are red`."""
    hand, mover = game.hand_size, int(state.inner.turn) % game.players
    if action < 2 * hand:
        return f"{'plays' if action >= hand else 'discards'} card {action % hand + 1}"
    code, others = action - 2 * hand, game.players - 1
    by_color = code < others * game.colors
    distance, value = divmod(code, game.colors) if by_color else divmod(code - others * game.colors, game.ranks)
    target = (mover + 1 + distance) % game.players
    cards = np.asarray(state.inner.hands)[target]
    meant = cards // game.ranks == value if by_color else (cards % game.ranks == value) & (cards >= 0)
    name = COLORS[value] if by_color else f"of rank {value + 1}"
    numbers = [int(number) for number in np.flatnonzero(meant)]
    verb = "is" if len(numbers) == 1 else "are"
    return f"tells seat {target} that {_places(numbers) if numbers else 'no card'} {verb} {name}"


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
    """One game (a `GameRecord`): the hands, every move with its probability and the likeliest others, the score."""
    turns, lines = record.turns, [f"game {number}"]
    after = [*(turn.state for turn in turns[1:]), record.final]
    if turns:
        lines += [f"  seat {seat} holds {hand_in_words(game, turns[0].state, seat)}" for seat in range(game.players)]
    built = None
    for index, (turn, following) in enumerate(zip(turns, after, strict=True), 1):
        ((seat, action),) = turn.actions.items()
        probs = turn.probabilities[seat]
        others = [int(other) for other in np.argsort(-probs) if other != action and probs[other] >= 0.05][:_LIKELY]
        rest = "".join(f"; {action_in_words(game, turn.state, other)} {probs[other]:.2f}" for other in others)
        done = f"{action_in_words(game, turn.state, action)}{outcome_in_words(game, following)}"
        lines.append(f"  {index:>2}. seat {seat} {done}  ({probs[action]:.2f}{rest})")
        drew = action < 2 * game.hand_size and int(following.inner.hands[seat][-1]) >= 0 and not bool(following.done)
        if drew:
            lines.append(f"      and draws {card_in_words(game, int(following.inner.hands[seat][-1]))}")
        now = np.asarray(following.inner.fireworks).tolist()
        if now != built and (built is not None or any(now)):
            lines.append(f"      {table_in_words(game, following)}")
        built = now
    lines.append(f"  result: {result_in_words(game, record.final)}")
    return "\n".join(lines)
