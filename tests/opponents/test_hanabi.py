"""The rule-based Hanabi player: the decoding of observations, rules one by one, and its score with itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.opponents.hanabi import hanabi_rules, playable_and_useless, read_table
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import opponents_of

GAME = make_game("hanabi")
SMALL = make_game("hanabi", players=3, colors=2, ranks=3, hand_size=2, information_tokens=3, life_tokens=2)
STEP = jax.jit(GAME.step)
CHOOSE = jax.jit(lambda seen, legal: hanabi_rules(GAME.sizes).apply((), seen, legal).logits > -1.0)
D, P, COLOR, RANK = 0, 5, 10, 15  # first action of each kind


def deal(first, second, then=""):
    """A game of which the first cards are known: two hands and the next cards, as color and rank from 1."""
    cards = [5 * int(card[0]) + int(card[1]) - 1 for card in f"{first} {second} {then}".split()]
    rest = list(np.repeat(np.arange(25), np.tile([3, 2, 2, 2, 1], 5)))
    for card in cards:
        rest.remove(card)
    return GAME.start_from_deck(jnp.asarray([*cards, *rest], jnp.int32))


def after(state, *actions):
    for action in actions:
        state = STEP(state, jnp.full(2, action), jax.random.key(0))
    return state


def wanted(state):
    seat = int(state.to_move.argmax())
    return set(np.flatnonzero(np.asarray(CHOOSE(state.observation[seat], state.legal[seat]))).tolist())


def test_it_hints_playable_cards_and_plays_what_is_proved():
    start = deal("02 03 12 13 22", "01 11 25 34 44", "04 05 14 15")
    assert wanted(start) == {RANK + 0}  # rank 1 names two playable cards, a color one at most
    told = after(start, RANK + 0)
    assert wanted(told) == {P + 0}  # all ones are playable
    played = after(told, P + 0)
    assert wanted(played) == {COLOR + 1}  # the other one may be a second 0-1: its color completes the hint
    assert wanted(after(played, COLOR + 0)) == {P + 0}  # it is none of color 0, so it is playable again


def test_it_discards_what_is_proved_useless_else_the_oldest():
    state = after(deal("12 01 01 13 22", "02 03 04 14 24", "33"), COLOR + 0, RANK + 0, P + 1, COLOR + 0)
    assert wanted(state) == {D + 1}  # the second 0-1, although the partner's 0-2 is playable
    quiet = after(deal("02 03 04 12 13", "22 23 24 32 33", "34 42 43"), COLOR + 2)
    assert wanted(quiet) == {D + 0}  # nothing is playable and a token is missing


def test_with_all_tokens_it_must_hint():
    start = deal("02 03 04 12 13", "22 23 24 32 33")
    assert wanted(start) == {COLOR + 2, COLOR + 3, RANK + 1, RANK + 2, RANK + 3}


@pytest.mark.parametrize("game", [GAME, SMALL])
def test_what_is_read_is_on_the_table(game):
    """Random play: hands, fireworks, discards and hints agree with the state."""
    step, sizes = jax.jit(game.step), game.sizes
    read = jax.jit(lambda seen: (table := read_table(sizes, seen), playable_and_useless(table)))
    generator = np.random.default_rng(0)
    state = jax.jit(game.init)(jax.random.key(1))
    seats = np.arange(sizes.players)
    while not state.done:
        mover = int(state.to_move.argmax())
        table, (playable, useless) = read(state.observation[mover])
        inner, order = state.inner, (seats + mover) % sizes.players
        hands = np.asarray(inner.hands)[order[1:]]
        cards = np.where(hands >= 0, np.asarray(table.hands).reshape(*hands.shape, -1).argmax(-1), -1)
        np.testing.assert_array_equal(cards, hands)
        np.testing.assert_array_equal(table.fireworks, inner.fireworks)
        np.testing.assert_array_equal(table.gone, np.asarray(inner.discards) == np.asarray(sizes.copies))
        np.testing.assert_array_equal(table.told[0], np.asarray(inner.told_color)[order])
        np.testing.assert_array_equal(table.told[1], np.asarray(inner.told_rank)[order])
        for color, rank in np.ndindex(sizes.colors, sizes.ranks):
            top = int(inner.fireworks[color])
            lost = any(bool(table.gone[color, below]) for below in range(top, rank + 1))
            assert playable[color, rank] == (rank == top and not lost)
            assert useless[color, rank] == (rank < top or lost)
        action = generator.choice(np.flatnonzero(np.asarray(state.legal[mover])))
        state = step(state, jnp.full(sizes.players, action), jax.random.key(0))


def test_score_of_two_rule_players():
    """They lose no life, so they end with the cards of a whole deck."""
    policy = hanabi_rules(GAME.sizes)
    found = head_to_head(jax.random.key(0), GAME, fixed_profile(GAME, policy), policy, 0, 128)
    assert found.mean - found.interval > 10.0 and list(opponents_of(GAME)) == ["random", "rules"]
