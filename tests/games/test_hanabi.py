"""Hanabi: scripted games, whole games beside OpenSpiel, what is hidden. JaxMARL: see test_jaxmarl_game."""

from functools import cache

import jax
import numpy as np
import pyspiel
import pytest

from gems_jax.games import make_game
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.hanabi.table import shuffle

LANES = 16  # one batch size for everything: compiling is most of the time
RANKS = 5
DISCARD, PLAY, COLOR, RANK = 0, 5, 10, 15  # where these actions begin, with two players


@cache
def stepper(game):
    return jax.jit(jax.vmap(game.step, in_axes=(0, 0, None)))


@cache
def dealer(game):
    return jax.jit(jax.vmap(game.start_from_deck))


def card(color, rank):
    """color 0.., rank 1.."""
    return color * RANKS + rank - 1


def full_deck():
    return [
        card(color, rank) for color in range(5) for rank, copies in enumerate((3, 2, 2, 2, 1), 1) for _ in range(copies)
    ]


def stacked(first):
    """A deck that begins with `first`, the rest in order."""
    rest = full_deck()
    for each in first:
        rest.remove(each)
    return [*first, *rest]


class Script:
    """One game, played move by move; the other lanes are idle copies."""

    def __init__(self, game, first):
        self.game, self.total = game, 0.0
        self._now(dealer(game)(np.tile(np.asarray(stacked(first), np.int32), (LANES, 1))))

    def _now(self, states):
        self.states = states
        self.state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states)

    def play(self, *actions):
        for action in actions:
            assert not self.state.done
            seat = int(np.argmax(self.state.to_move))
            assert self.state.legal[seat, action], (seat, action)
            joint = np.full((LANES, self.game.num_seats), 99, np.int32)  # others' actions do not count
            joint[:, seat] = action
            self._now(stepper(self.game)(self.states, joint, None))
            assert len(set(self.state.reward.tolist())) == 1  # everybody earns the same
            self.total += float(self.state.reward[0])
        return self.state

    def hint(self):
        """The first hint that is possible."""
        legal = self.state.legal[int(np.argmax(self.state.to_move))]
        return self.play(COLOR + int(np.argmax(legal[COLOR:])))


@pytest.fixture(scope="module")
def hanabi():
    return make_game("hanabi")


def test_sizes(hanabi):
    assert (hanabi.num_seats, hanabi.num_actions, hanabi.observation_shape, hanabi.max_steps) == (2, 20, (660,), 89)
    five = make_game("hanabi", players=5)
    assert (five.hand_size, five.num_actions, five.deck_size) == (4, 48, 50)
    for players in (2, 3, 4, 5):
        spiel = pyspiel.load_game("hanabi", {"players": players})
        assert make_game("hanabi", players=players).num_actions == spiel.num_distinct_actions()


def test_a_perfect_game(hanabi):
    """Seat 0 always holds the next card in its first place; seat 1 spends the tokens on hints and then discards."""
    useful = [card(color, rank) for rank in range(1, 6) for color in range(5)]
    useless = full_deck()
    for each in useful:
        useless.remove(each)
    deck, useful, useless, tokens = [*useful[:5], *useless[:5]], useful[5:], useless[5:], 8
    hints = []
    for _ in range(24):
        deck += useful[:1]  # seat 0 plays and draws
        useful = useful[1:]
        hints.append(tokens > 0)
        if tokens:
            tokens -= 1
        else:  # seat 1 discards and draws
            tokens += 1
            deck += useless[:1]
            useless = useless[1:]
    script = Script(hanabi, deck)
    for hint in hints:
        script.play(PLAY)
        script.hint() if hint else script.play(DISCARD)
    script.play(PLAY)
    assert script.state.terminated and script.total == 25 and (script.state.inner.fireworks == 5).all()


def test_a_completed_color_returns_a_token(hanabi):
    script = Script(hanabi, [card(0, rank) for rank in range(1, 6)])
    for _ in range(4):
        script.play(PLAY)
        script.hint()
    assert int(script.state.inner.information) == 4
    state = script.play(PLAY)
    assert int(state.inner.information) == 5 and bool(state.inner.last.gained) and script.total == 5


@pytest.mark.parametrize(("credit", "total"), [(False, 0), (True, 2)])
def test_losing_all_lives(credit, total):
    game = make_game("hanabi", credit=credit)
    script = Script(game, [card(0, 1), card(0, 2), card(0, 5), card(1, 5), card(2, 5)])
    for lives in (3, 3, 2, 1):
        assert int(script.play(PLAY).inner.lives) == lives
        script.hint()
    assert script.total == 2
    state = script.play(PLAY)
    assert state.terminated and int(state.inner.lives) == 0 and script.total == total
    assert int(state.inner.fireworks.sum()) == 2  # what was built stays to be seen
    again = stepper(game)(script.states, np.full((LANES, 2), PLAY, np.int32), None)
    assert not np.asarray(again.reward).any()
    jax.tree.map(np.testing.assert_array_equal, again.inner, script.states.inner)


def test_the_longest_game(hanabi):
    """All tokens are spent as soon as they are there: 89 moves, the last two after the deck is empty."""
    script, moves = Script(hanabi, []), 0
    while not script.state.done:
        left = hanabi.deck_size - int(script.state.inner.drawn)
        script.hint() if script.state.inner.information and left else script.play(DISCARD)
        moves += 1
    assert moves == hanabi.max_steps == 89 and script.state.terminated and script.total == 0


def test_hints_say_what_a_card_is_and_is_not(hanabi):
    hand = [card(0, 1), card(1, 1), card(0, 3), card(2, 4), card(3, 5)]
    script = Script(hanabi, [card(4, 1)] * 3 + [card(4, 2)] * 2 + hand)
    assert script.state.legal[0, COLOR:].tolist() == [True, True, True, True, False, True, False, True, True, True]
    table = script.play(COLOR + 0).inner  # "red" of places 0 and 2
    assert table.told_color[1].tolist() == [True, False, True, False, False]
    np.testing.assert_array_equal(table.may_color[1, 0], [True, False, False, False, False])
    np.testing.assert_array_equal(table.may_color[1, 1], [False, True, True, True, True])
    assert table.may_rank.all() and int(table.information) == 7
    script.play(DISCARD)  # seat 1 throws away its red 1 and draws: what is known moves with the cards
    table = script.play(RANK + 0).inner
    assert table.told_color[1].tolist() == [False, True, False, False, False]
    assert table.told_rank[1].tolist() == [bool(each % RANKS == 0) for each in table.hands[1]]
    assert table.may_color[1, 4].all() and int(table.discards[0, 0]) == 1


def test_own_cards_are_hidden(hanabi):
    """Another hand for seat 0 changes nothing that it sees, before and after moves of both, and does for seat 1."""
    rng = np.random.default_rng(0)
    decks = np.asarray([stacked([]) for _ in range(LANES)])
    shown, hidden = rng.permutation(full_deck()), None
    for lane in range(LANES):
        hidden = rng.permutation(np.concatenate([shown[:5], shown[10:]]))  # seat 1's hand is the same in all lanes
        decks[lane] = np.concatenate([hidden[:5], shown[5:10], hidden[5:]])
    states = dealer(hanabi)(decks.astype(np.int32))
    hint = COLOR + int(shown[5]) // RANKS
    for actions in (None, [hint, 0]):
        if actions is not None:
            states = stepper(hanabi)(states, np.tile(np.asarray(actions, np.int32), (LANES, 1)), None)
        own, other = np.asarray(states.observation)[:, 0], np.asarray(states.observation)[:, 1]
        assert (own == own[:1]).all() and not (other == other[:1]).all()


@pytest.mark.parametrize(
    "players", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)]
)
def test_whole_games_are_those_of_open_spiel(players):
    """The same deck and moves: same legal moves, rewards, tokens, hands and end. Seldom plays, so that games last."""
    game, spiel = make_game("hanabi", players=players), pyspiel.load_game("hanabi", {"players": players})
    rng = np.random.default_rng(0)
    decks = np.stack([rng.permutation(full_deck()) for _ in range(LANES)]).astype(np.int32)
    states, theirs, drawn, rows, lost = dealer(game)(decks), [], [], 0, 0
    for deck in decks:
        other, count = spiel.new_initial_state(), 0
        while other.is_chance_node():
            other.apply_action(int(deck[count]))
            count += 1
        theirs.append(other)
        drawn.append(count)
    for _ in range(game.max_steps):
        actions = np.zeros((LANES, players), np.int32)
        legal, to_move, over = (np.asarray(part) for part in (states.legal, states.to_move, states.done))
        for lane, other in enumerate(theirs):
            assert other.is_terminal() == over[lane]
            if over[lane]:
                continue
            seat, possible = other.current_player(), other.legal_actions()
            assert to_move[lane].tolist() == [each == seat for each in range(players)]
            assert np.flatnonzero(legal[lane, seat]).tolist() == possible
            weights = np.asarray([0.1 if game.hand_size <= action < 2 * game.hand_size else 1.0 for action in possible])
            actions[lane, seat] = rng.choice(possible, p=weights / weights.sum())
        states = stepper(game)(states, actions, None)
        rewards, table = np.asarray(states.reward), states.inner
        lives, information, hands = (np.asarray(part) for part in (table.lives, table.information, table.hands))
        for lane, other in enumerate(theirs):
            if over[lane]:
                assert not rewards[lane].any()
                continue
            rows += 1
            other.apply_action(int(actions[lane].sum()))
            while other.is_chance_node():
                other.apply_action(int(decks[lane, drawn[lane]]))
                drawn[lane] += 1
            assert rewards[lane].tolist() == other.rewards()
            lost += rewards[lane, 0] < 0
            shown = str(other)
            assert f"Life tokens: {lives[lane]}" in shown and f"Info tokens: {information[lane]}" in shown
            held = sorted("RYGWB"[each // RANKS] + str(each % RANKS + 1) for each in hands[lane].ravel() if each >= 0)
            if not other.is_terminal():  # OpenSpiel draws no card when the game is over
                assert held == sorted(line[:2] for line in shown.splitlines() if "||" in line)
    assert np.asarray(states.terminated).all() and all(other.is_terminal() for other in theirs)
    assert rows > 20 * LANES and lost > 0  # games that lasted, and one that was lost with points on the table
    assert (np.asarray(states.inner.last_turns) == players + 1).any()  # and one that ended with the deck


def test_decks_are_shuffled_fairly():
    """Every card once per deck, and every place takes every card equally often."""
    cards = np.arange(50, dtype=np.int32)
    decks = np.asarray(jax.jit(jax.vmap(lambda key: shuffle(key, cards)))(jax.random.split(jax.random.key(0), 5000)))
    np.testing.assert_array_equal(np.sort(decks, axis=1), np.tile(cards, (5000, 1)))
    counts = np.stack([np.bincount(decks[:, place], minlength=50) for place in (0, 1, 9, 49)])
    chi = ((counts - 100) ** 2 / 100).sum(axis=1)
    assert (chi < 125).all()  # 49 degrees of freedom: above 125 with probability 1e-8


@pytest.mark.parametrize(
    ("options", "players", "populations"),
    [
        ({}, (0, 1), (0, 1)),
        ({"shared": True}, (0, 1), (0, 0)),
        ({"teams": True}, (0, 0), (0,)),
        ({"players": 3}, (0, 1, 2), (0, 1, 2)),
    ],
)
def test_players_and_populations(options, players, populations):
    game = make_game("hanabi", **options)
    assert game.player_of_seat == players and game.population_of_player == populations
    assert game.return_bounds == (0.0, 25.0)


SMALL = {"colors": 2, "ranks": 3, "hand_size": 2, "information_tokens": 3, "life_tokens": 2}


def test_a_small_deck():
    game = Hanabi(**SMALL)
    assert game.deck_size == 12 and game.sizes.copies == (3, 2, 1) and game.return_bounds == (0.0, 6.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"players": 6}, "players must be an integer from 2 to 5, got 6"),
        ({"colors": 1, "ranks": 2, "players": 2}, "leave nothing to draw from a deck of 4"),
        ({"teams": True, "shared": True}, "expected at most one of them, got both"),
        ({"life_tokens": 0}, "life_tokens must be"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_game("hanabi", **options)
