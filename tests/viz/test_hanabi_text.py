"""Hanabi in words: moves mean what the rules say, and a whole replay tells the score."""

import re
from pathlib import Path

import jax
import numpy as np

from cli import SMALL, untrained_run
from gems_jax.games import make_game
from gems_jax.runner.load import load
from gems_jax.viz.hanabi_text import describe_action, describe_card, describe_outcome, describe_result, describe_table
from gems_jax.viz.transcripts import write_replays

GAME = make_game("hanabi")
STEP = jax.jit(GAME.step)


def deck(first):
    """Cards as `r1 y3`, the rest of the deck behind them."""
    rest = [
        color * 5 + rank for color in range(5) for rank, copies in enumerate((3, 2, 2, 2, 1)) for _ in range(copies)
    ]
    cards = ["rygwb".index(name[0]) * 5 + int(name[1]) - 1 for name in first.split()]
    for card in cards:
        rest.remove(card)
    return np.asarray([*cards, *rest], np.int32)


def move(state, action):
    return STEP(state, np.asarray([action, action], np.int32), jax.random.key(0))


START = "r1 y3 b5 w2 r4  g1 g1 y2 b3 g4"


def test_cards_and_moves():
    state = GAME.start_from_deck(deck(START))
    assert (
        describe_card(GAME, 0) == "red 1"
        and describe_card(GAME, 24) == "blue 5"
        and describe_card(GAME, -1) == "nothing"
    )
    assert describe_action(GAME, state, 1) == "discards card 2" and describe_action(GAME, state, 9) == "plays card 5"
    assert describe_action(GAME, state, 12) == "tells seat 1 that cards 1, 2 and 5 are green"
    assert describe_action(GAME, state, 17) == "tells seat 1 that card 4 is of rank 3"
    assert describe_action(GAME, move(state, 12), 10) == "tells seat 0 that cards 1 and 5 are red"


def test_what_came_of_it():
    state = GAME.start_from_deck(deck(START))
    assert describe_outcome(GAME, move(state, 12)) == ""
    assert describe_outcome(GAME, move(state, 5)) == ": red 1 fits"
    assert describe_outcome(GAME, move(state, 6)) == ": yellow 3 does not fit, 2 lives left"
    hinted = move(state, 12)
    assert describe_outcome(GAME, move(hinted, 4)) == ": green 4"
    told = describe_table(GAME, move(state, 5))
    assert told == "fireworks red 1, yellow 0, green 0, white 0, blue 0; 8 hints, 3 lives, 39 cards to draw"


def test_results():
    state = move(GAME.start_from_deck(deck(f"{START} r1 b4 b2")), 5)
    for _ in range(3):  # seat 1 plays its last card, which never fits; seat 0 hints
        state = move(state, 9)
        if not state.done:
            state = move(state, 12)
    assert describe_result(GAME, state) == "all lives are lost: score 0 of 25 without credit, 1 with credit"
    full = state.inner.replace(fireworks=np.full(5, 5), lives=np.int32(1))
    assert describe_result(GAME, state.replace(inner=full)) == "every firework is complete: score 25 of 25"


def test_a_replay(tmp_path: Path):
    config = SMALL.replace(policy="mlp", policy_hidden=(4,))
    run = untrained_run(tmp_path / "run", "hanabi", config)
    (text,) = write_replays(load(run.shared), tmp_path / "out", episodes=2)
    games = text.read_text().split("\n\n")
    assert games[0].startswith("Hanabi: gems, seed 0") and len(games) == 4
    for game in games[1:3]:
        numbers = [int(number) for number in re.findall(r"^ +(\d+)\. seat", game, re.MULTILINE)]
        seats = re.findall(r"\d+\. seat (\d) ", game)
        assert numbers == list(range(1, len(numbers) + 1)) and seats == [str(n % 2) for n in range(len(numbers))]
        assert re.search(r"result: .*score \d+ of 25", game) and "seat 1 holds" in game
