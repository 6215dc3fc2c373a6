"""Descriptions of positions and actions of multiplayer poker and Liar's Dice.

Functions take concrete states (not traced ones). `gems_jax.viz.words` combines them to the `Words` of a game.
"""

from __future__ import annotations

from gems_jax.games.liars_dice import LiarsDice
from gems_jax.games.multiplayer_leduc import CALL, FOLD, betting_tree
from gems_jax.types import GameState

CARDS = "23456789TJQKA"


def card_name(card: int, count: int) -> str:
    """Names a card of a deck with `count` ranks, of which the highest is a king (three ranks) or an ace."""
    return "JQK"[card] if count == 3 else CARDS[len(CARDS) - count + card]


# --- Kuhn poker for n players


def name_kuhn_action(state: GameState, action: int) -> str:
    """Names an action: check or bet before the first bet, fold or call after it."""
    return (("check", "bet") if int(state.inner.bets) == 0 else ("fold", "call"))[action]


def see_kuhn(state: GameState, seat: int) -> str:
    """Describes the position as `seat` sees it: its card and the actions so far."""
    cards = state.inner.cards
    return f"your card: {card_name(int(cards[seat]), len(cards) + 1)}   so far: {_list_kuhn_actions(state)}"


def show_kuhn(state: GameState) -> str:
    """Lists all cards."""
    cards = state.inner.cards
    return ", ".join(f"seat {seat} holds {card_name(int(c), len(cards) + 1)}" for seat, c in enumerate(cards))


def _list_kuhn_actions(state: GameState) -> str:
    bets, moves, players = int(state.inner.bets), int(state.inner.moves), len(state.inner.cards)
    actions = []
    for move in range(moves):
        before, bet = bets & ((1 << move) - 1), bets >> move & 1
        actions.append(f"seat {move % players} {(('folds', 'calls') if before else ('checks', 'bets'))[bet]}")
    return ", ".join(actions) or "nothing"


# --- Leduc poker for n players


def name_leduc_action(state: GameState, action: int) -> str:
    """Names an action: fold, raise, and call or check."""
    if action == FOLD:
        return "fold"
    paid = betting_tree(len(state.inner.ranks)).paid[int(state.inner.node)]
    mover = int(state.to_move.argmax())
    return ("check" if paid[mover] == max(paid) else "call") if action == CALL else "raise"


def see_leduc(state: GameState, seat: int) -> str:
    """Describes the position as `seat` sees it: its card, the public card and all chips."""
    ranks, tree = state.inner.ranks, betting_tree(len(state.inner.ranks))
    paid = tree.paid[int(state.inner.node)]
    others = ", ".join(f"{chips:g} of seat {other}" for other, chips in enumerate(paid) if other != seat)
    own = card_name(int(ranks[seat]), len(ranks) + 1)
    return f"your card: {own}   on the table: {_public(state)}   in the pot: {paid[seat]:g} of yours, {others}"


def show_leduc(state: GameState) -> str:
    """Lists all cards."""
    ranks = state.inner.ranks
    cards = ", ".join(f"seat {seat} holds {card_name(int(r), len(ranks) + 1)}" for seat, r in enumerate(ranks))
    return cards if _public(state) == "not yet" else f"{cards}, the table shows {_public(state)}"


def _public(state: GameState) -> str:
    count = len(state.inner.ranks)
    revealed = bool(betting_tree(count).second[int(state.inner.node)])
    return card_name(int(state.inner.public), count + 1) if revealed else "not yet"


# --- Liar's Dice


def name_bid(game: LiarsDice, action: int) -> str:
    """Names an action: two fives are bid as `2x5`, and the last action is `liar`."""
    return "liar" if action == game.num_bids else f"{action // game.sides + 1}x{action % game.sides + 1}"


def see_dice(game: LiarsDice, state: GameState, seat: int) -> str:
    """Describes the position as `seat` sees it: its die, the wild face and the last bid."""
    made = int(state.inner.made)
    last = name_bid(game, made.bit_length() - 1) if made else "none yet"
    return f"your die: {int(state.inner.dice[seat]) + 1} ({game.sides} is wild)   the last bid: {last}"


def show_dice(state: GameState) -> str:
    """Lists both dice."""
    return ", ".join(f"seat {seat} has a {int(die) + 1}" for seat, die in enumerate(state.inner.dice))
