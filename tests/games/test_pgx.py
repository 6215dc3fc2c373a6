"""Kuhn and Leduc on pgx: scripted hands, the whole tree against OpenSpiel, information sets; a board as well."""

import dataclasses
import itertools
import subprocess
import sys
import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

from gems_jax.games import make_game
from gems_jax.types import Game, NotEnumerableError

BET, PASS = 0, 1
CALL, RAISE, FOLD = 0, 1, 2
J, Q, K = 0, 1, 2
TO_OPEN_SPIEL = {"kuhn_poker": {BET: 1, PASS: 0}, "leduc_holdem": {CALL: 1, RAISE: 2, FOLD: 0}}
OPEN_SPIEL = {"kuhn_poker": "kuhn_poker", "leduc_holdem": "leduc_poker(suit_isomorphism=True)"}
ROWS = 128  # one batch size for everything: compiling is most of the time


@cache
def stepper(game):
    return jax.jit(jax.vmap(game.step, in_axes=(0, 0, None)))


def step(game, states, actions):
    """All seats are handed the action, seats that do not move another one: it must not matter."""
    actions = jnp.where(states.to_move, jnp.asarray(actions, jnp.int32)[:, None], 7)
    return stepper(game)(states, actions, jax.random.key(0))


def pad(tree):
    return jax.tree.map(lambda leaf: np.resize(np.asarray(leaf), (ROWS, *leaf.shape[1:])), tree)


def play(game, states, line):
    """Total rewards [ROWS, 2] of one betting line; the game must end exactly with its last action."""
    total = np.zeros((ROWS, 2))
    for action in line:
        assert not np.asarray(states.done).any()
        states = step(game, states, np.full(ROWS, action))
        total += np.asarray(states.reward)
    assert np.asarray(states.terminated).all() and not np.asarray(states.truncated).any()
    return total


@pytest.fixture(scope="module")
def kuhn():
    return make_game("kuhn_poker")


@pytest.fixture(scope="module")
def leduc():
    return make_game("leduc_holdem")


@pytest.fixture(scope="module")
def drawn(kuhn):
    """Kuhn starts with all deals, and with either of pgx's player ids in seat 0.

    `init` always seats pgx's player 0 first; every other row is dealt to the other player id here, as pgx itself would.
    """
    states = jax.jit(jax.vmap(kuhn.init))(jax.random.split(jax.random.key(0), ROWS))
    assert set(np.asarray(states.inner.first)) == {0}

    def exchange(inner, swap):
        first = jnp.where(swap, 1, 0).astype(jnp.int32)
        cards = jnp.where(swap, inner.state._cards[::-1], inner.state._cards)
        pgx_state = inner.state.replace(current_player=first, _cards=cards)
        return kuhn._game_state(dataclasses.replace(inner, state=pgx_state, first=first), jnp.zeros(2))

    states = jax.jit(jax.vmap(exchange))(states.inner, jnp.arange(ROWS) % 2 == 1)
    cards = np.argmax(np.asarray(states.observation)[:, :, :3], axis=-1)
    assert set(np.asarray(states.inner.first)) == {0, 1}
    assert set(map(tuple, cards[::2])) == set(map(tuple, cards[1::2])) == set(itertools.permutations(range(3), 2))
    return states, cards


def test_declared(kuhn, leduc):
    assert isinstance(kuhn, Game)
    assert (kuhn.name, kuhn.num_seats, kuhn.num_actions, kuhn.max_steps) == ("kuhn_poker", 2, 2, 3)
    assert (leduc.name, leduc.num_seats, leduc.num_actions, leduc.max_steps) == ("leduc_holdem", 2, 3, 8)
    assert kuhn.observation_shape == (7 + 4 + 2,) and leduc.observation_shape == (34 + 16 + 2,)
    assert kuhn.return_bounds == (-2.0, 2.0) and leduc.return_bounds == (-13.0, 13.0)
    assert kuhn.zero_sum and not kuhn.simultaneous and not kuhn.continuous
    assert kuhn.player_of_seat == (0, 1) and kuhn.population_of_player == (0, 1)
    assert make_game("kuhn_poker", shared=True).population_of_player == (0, 0)
    assert kuhn == make_game("kuhn_poker") and hash(kuhn) == hash(make_game("kuhn_poker"))
    assert kuhn != make_game("kuhn_poker", observation="infoset")
    assert jax.tree.leaves(kuhn) == []
    suits = make_game("leduc_holdem", suits=True)
    assert suits != leduc and suits.observation_shape == (40 + 16 + 2,)
    with pytest.raises(ValueError, match="suits=True exists for leduc_holdem only, not 'kuhn_poker'"):
        make_game("kuhn_poker", suits=True)


@pytest.mark.parametrize(
    ("line", "stake", "winner"),
    [
        ((PASS, PASS), 1, None),  # showdown for the antes
        ((PASS, BET, PASS), 1, 1),  # seat 0 folds
        ((PASS, BET, BET), 2, None),
        ((BET, PASS), 1, 0),  # seat 1 folds
        ((BET, BET), 2, None),
    ],
)
def test_kuhn_betting_lines_do_not_depend_on_pgx_first_player(kuhn, drawn, line, stake, winner):
    states, cards = drawn
    seat_0_wins = cards[:, 0] > cards[:, 1] if winner is None else np.full(ROWS, winner == 0)
    expected = np.where(seat_0_wins, stake, -stake)[:, None] * np.array([[1, -1]])
    np.testing.assert_array_equal(play(kuhn, states, line), expected)


def test_kuhn_seats_take_turns(kuhn, drawn):
    states, _ = drawn
    np.testing.assert_array_equal(states.to_move, np.tile([True, False], (ROWS, 1)))
    np.testing.assert_array_equal(states.legal, np.tile([[True, True], [False, False]], (ROWS, 1, 1)))
    states = step(kuhn, states, np.full(ROWS, PASS))
    np.testing.assert_array_equal(states.to_move, np.tile([False, True], (ROWS, 1)))
    over = step(kuhn, states, np.full(ROWS, PASS))
    assert not np.asarray(over.to_move).any() and not np.asarray(over.legal).any()


def leduc_deal(game, hand_0, hand_1, public):
    states, _ = game.deals()
    cards = np.asarray(states.inner.state._cards)
    (row,) = np.flatnonzero((cards == [hand_0, hand_1, public]).all(axis=1))
    return pad(jax.tree.map(lambda leaf: np.asarray(leaf)[row : row + 1], states))


@pytest.mark.parametrize(
    ("cards", "line", "reward"),
    [
        ((K, J, Q), (CALL, CALL, CALL, CALL), 1),  # antes only, higher card
        ((K, J, J), (CALL, CALL, CALL, CALL), -1),  # the pair beats the king
        ((Q, Q, K), (RAISE, CALL, RAISE, CALL), 0),  # equal ranks split
        ((J, K, Q), (RAISE, FOLD), 1),
        ((J, K, Q), (RAISE, RAISE, FOLD), -3),
        ((J, K, Q), (CALL, RAISE, FOLD), -1),
        ((J, K, Q), (RAISE, CALL, RAISE, FOLD), 3),  # 1 + 2 at stake, the raise of 4 goes back
        ((K, J, K), (CALL, RAISE, RAISE, CALL, CALL, RAISE, RAISE, CALL), 13),  # 1 + 2 + 2 + 4 + 4
        ((J, K, K), (RAISE, RAISE, CALL, RAISE, RAISE, CALL), -13),
    ],
)
def test_leduc_scripted_lines(leduc, cards, line, reward):
    np.testing.assert_array_equal(play(leduc, leduc_deal(leduc, *cards), line)[0], (reward, -reward))


def test_leduc_raise_cap_and_fold_legality(leduc):
    def legal(line):
        states = leduc_deal(leduc, K, Q, J)
        for action in line:
            states = step(leduc, states, np.full(ROWS, action))
        return np.asarray(states.legal)[0]

    nothing = [False, False, False]
    np.testing.assert_array_equal(legal([]), [[True, True, False], nothing])  # nothing to fold to
    np.testing.assert_array_equal(legal([CALL]), [nothing, [True, True, False]])
    np.testing.assert_array_equal(legal([RAISE]), [nothing, [True, True, True]])
    np.testing.assert_array_equal(legal([RAISE, RAISE]), [[True, False, True], nothing])  # two raises a round
    np.testing.assert_array_equal(legal([CALL, RAISE, RAISE]), [nothing, [True, False, True]])
    np.testing.assert_array_equal(legal([RAISE, RAISE, CALL]), [[True, True, False], nothing])  # seat 0 opens round 2
    np.testing.assert_array_equal(legal([RAISE, CALL, CALL, RAISE, RAISE]), [nothing, [True, False, True]])


def test_deals(kuhn, leduc):
    states, probabilities = kuhn.deals()
    np.testing.assert_allclose(probabilities, np.full(6, 1 / 6), rtol=1e-6)
    assert states.observation.shape == (6, 2, 13)
    states, probabilities = leduc.deals()
    cards = np.asarray(states.inner.state._cards)
    assert len(set(map(tuple, cards))) == 24
    expected = [8 / 120 if len(set(hand)) == 3 else 4 / 120 for hand in cards]  # of 6 * 5 * 4 ordered draws
    np.testing.assert_allclose(probabilities, expected, rtol=1e-6)
    np.testing.assert_allclose(np.sum(probabilities), 1.0, rtol=1e-6)


def walk(game):
    """Every position of the game as (cards, actions so far, GameState row), decisions and ends."""
    states, _ = game.deals()
    cards = [tuple(map(int, hand)) for hand in np.asarray(states.inner.state._cards)]
    frontier, rows = [(hand, ()) for hand in cards], jax.device_get(states)
    while frontier:
        children, parents = [], []
        for row, (hand, line) in enumerate(frontier):
            here = jax.tree.map(lambda leaf, row=row: leaf[row], rows)
            yield hand, line, here
            for action in np.flatnonzero(here.legal.any(axis=0)):
                children.append((hand, (*line, int(action))))
                parents.append(here)
        chunks = []
        for start in range(0, len(children), ROWS):
            size = len(parents[start : start + ROWS])
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *parents[start : start + ROWS])
            actions = np.resize([line[-1] for _, line in children[start : start + ROWS]], ROWS)
            after = jax.device_get(step(game, pad(stacked), actions))
            chunks.append(jax.tree.map(lambda leaf, size=size: leaf[:size], after))
        frontier, rows = children, jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks) if chunks else None


def open_spiel_state(game, hand, line):
    state, cards = pyspiel.load_game(OPEN_SPIEL[game.name]).new_initial_state(), iter(hand)
    actions = [TO_OPEN_SPIEL[game.name][action] for action in line]
    while state.is_chance_node() or actions:
        state.apply_action(next(cards) if state.is_chance_node() else actions.pop(0))
    return state


@pytest.mark.parametrize(("name", "infosets", "leaves"), [("kuhn_poker", 12, 6 * 5), ("leduc_holdem", 288, 24 * 49)])
def test_whole_tree_agrees_with_open_spiel(name, infosets, leaves):
    """Turn, legal actions, rewards; and both observations tell exactly OpenSpiel's information sets apart.

    OpenSpiel's Leduc has 936 information sets with suits, 288 up to suits, which carry no information; pgx has none.
    """
    plain, indexed = make_game(name), make_game(name, observation="infoset")
    names_of_plain, names_of_index, ends = {}, {}, 0
    for (hand, line, here), (hand_, line_, there) in zip(walk(plain), walk(indexed), strict=True):
        assert (hand, line) == (hand_, line_)
        state = open_spiel_state(plain, hand, line)
        assert bool(here.terminated) == state.is_terminal()
        if state.is_terminal():
            np.testing.assert_array_equal(here.reward, state.returns())
            ends += 1
            continue
        np.testing.assert_array_equal(here.reward, 0)
        seat = state.current_player()
        assert here.to_move.tolist() == [seat == 0, seat == 1]
        legal = {TO_OPEN_SPIEL[name][action] for action in np.flatnonzero(here.legal[seat])}
        assert legal == set(state.legal_actions())
        names_of_plain.setdefault(here.observation[seat].tobytes(), set()).add(state.information_state_string())
        one_hot = there.observation[seat]
        assert one_hot.sum() == 1 and not there.observation[1 - seat].any()
        names_of_index.setdefault(int(one_hot.argmax()), set()).add(state.information_state_string())
    assert ends == leaves
    for names in (names_of_plain, names_of_index):
        assert len(names) == infosets == len(set.union(*names.values()))  # a bijection
        assert all(len(strings) == 1 for strings in names.values())
    assert set(names_of_index) == set(range(infosets)) and indexed.observation_shape == (infosets,)


def test_kuhn_infoset_order():
    """Seat 0 root J Q K, seat 0 facing a bet J Q K, then seat 1 after a pass, and facing a bet."""
    found = {}
    for hand, line, here in walk(make_game("kuhn_poker", observation="infoset")):
        if not here.terminated:
            seat = len(line) % 2
            found[int(here.observation[seat].argmax())] = (line, hand[seat])
    lines = [(), (PASS, BET), (PASS,), (BET,)]
    assert [found[index] for index in range(12)] == [(line, card) for line in lines for card in (J, Q, K)]


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem"])
def test_plain_observation_begins_with_pgx_own(name):
    import pgx

    game, env = make_game(name), pgx.make(name)
    observe = jax.jit(jax.vmap(jax.vmap(env._observe, in_axes=(None, 0)), in_axes=(0, None)))
    positions = [here for _, _, here in walk(game)]
    picked = jax.tree.map(lambda *leaves: np.stack(leaves), *positions[:: max(1, len(positions) // ROWS)][:ROWS])
    theirs = np.asarray(observe(picked.inner.state, jnp.arange(2)))
    np.testing.assert_array_equal(picked.observation[:, :, : theirs.shape[-1]], theirs)
    np.testing.assert_array_equal(picked.observation[:, :, -2:], np.tile(np.eye(2), (len(theirs), 1, 1)))


def test_kuhn_steps_are_those_of_pgx(kuhn, drawn):
    """All lines of three actions from all deals, beyond the end too: every field of the state that pgx keeps."""
    import pgx

    theirs = jax.jit(jax.vmap(pgx.make("kuhn_poker").step))
    for line in itertools.product((BET, PASS), repeat=3):
        states, _ = drawn
        pgx_states = states.inner.state
        for action in line:
            states = step(kuhn, states, np.full(ROWS, action))
            pgx_states = theirs(pgx_states, jnp.full(ROWS, action))
            first = np.asarray(states.inner.first)
            rewards = np.asarray(pgx_states.rewards)
            np.testing.assert_array_equal(states.reward, np.where(first[:, None] == 0, rewards, rewards[:, ::-1]))
            for name in ("current_player", "terminated", "truncated", "_step_count", "_cards", "_last_action", "_pot"):
                ours = getattr(states.inner.state, name)
                np.testing.assert_array_equal(ours, getattr(pgx_states, name), err_msg=f"{name} after {line}")
                assert ours.dtype == getattr(pgx_states, name).dtype
            legal = np.asarray(states.inner.state.legal_action_mask)
            np.testing.assert_array_equal(legal, pgx_states.legal_action_mask)


def test_only_a_shorter_limit_truncates(kuhn):
    assert not kuhn.truncates and make_game("pgx:tic_tac_toe", max_steps=2).truncates


def test_finished_is_absorbing_and_history_stays(kuhn, drawn):
    states, _ = drawn
    over = step(kuhn, step(kuhn, states, np.full(ROWS, BET)), np.full(ROWS, BET))
    again = step(kuhn, over, np.full(ROWS, PASS))
    assert not np.asarray(again.reward).any()
    for name in ("inner", "observation", "legal", "to_move", "terminated", "truncated"):
        jax.tree.map(np.testing.assert_array_equal, getattr(over, name), getattr(again, name))


def test_truncation_by_max_steps():
    game = make_game("pgx:tic_tac_toe", max_steps=2)
    assert game.name == "tic_tac_toe" and game.max_steps == 2 and make_game("pgx:tic_tac_toe").max_steps == 9
    assert make_game("pgx:hex").name == "pgx:hex"
    one_step = jax.jit(game.step)
    state = jax.jit(game.init)(jax.random.key(0))
    state = one_step(state, jnp.array([4, 0]), jax.random.key(1))
    assert not state.done
    state = one_step(state, jnp.array([0, 8]), jax.random.key(1))
    assert state.truncated and not state.terminated and not state.to_move.any() and not state.legal.any()
    again = one_step(state, jnp.array([4, 4]), jax.random.key(1))  # occupied: pgx would punish it
    assert again.truncated and not again.terminated and not again.reward.any()


def test_board_by_the_same_adapter():
    """Seat 0 plays the top row and wins; the seat to move sees its own stones first."""
    game = make_game("tic_tac_toe")
    assert game == make_game("pgx:tic_tac_toe", max_steps=9)
    assert game.observation_shape == (3, 3, 2) and game.num_actions == 9 and game.return_bounds == (-1.0, 1.0)
    states, total = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(0), ROWS)), np.zeros((ROWS, 2))
    assert set(np.asarray(states.inner.first)) == {0}  # nothing is drawn
    stones = np.zeros((2, 9), bool)
    for count, action in enumerate((0, 3, 1, 4, 2)):
        seen, mover = np.asarray(states.observation), count % 2
        np.testing.assert_array_equal(seen[:, mover, :, :, 0].reshape(ROWS, 9), np.tile(stones[mover], (ROWS, 1)))
        np.testing.assert_array_equal(seen[:, mover, :, :, 1].reshape(ROWS, 9), np.tile(stones[1 - mover], (ROWS, 1)))
        assert not seen[:, 1 - mover].any()
        stones[mover, action] = True
        states = step(game, states, np.full(ROWS, action))
        total += np.asarray(states.reward)
    assert np.asarray(states.terminated).all() and not np.asarray(states.observation).any()
    np.testing.assert_array_equal(total, np.tile([1, -1], (ROWS, 1)))
    starts, probabilities = game.deals()
    assert starts.observation.shape == (1, 2, 3, 3, 2) and probabilities.tolist() == [1.0]


def test_where_a_time_limit_may_cut_a_board_both_seats_see_it():
    game = make_game("tic_tac_toe", max_steps=8)
    state = jax.jit(game.step)(jax.jit(game.init)(jax.random.key(0)), jnp.array([4, 0]), jax.random.key(1))
    np.testing.assert_array_equal(state.observation[0], np.asarray(state.observation)[1, :, :, ::-1])
    assert state.observation[0, 1, 1, 0] == 1.0 and state.observation.sum() == 2.0


def test_the_squares_of_a_chess_board_in_the_order_of_the_moves():
    """At the start eight pawns and two knights can move: 73 planes of moves for each square."""
    game = make_game("chess")
    start = jax.jit(game.init)(jax.random.key(0))
    squares = np.rot90(np.asarray(start.observation[0]), game.board_turns).reshape(64, -1)
    pawns, knights = squares[:, 0] > 0, squares[:, 1] > 0
    assert pawns.sum() == 8 and knights.sum() == 2
    np.testing.assert_array_equal(np.asarray(start.legal[0]).reshape(64, 73).any(axis=1), pawns | knights)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pgx:hexx", {}, "did you mean 'pgx:hex'"),
        ("pgx:2048", {}, "two-player"),
        ("pgx:backgammon", {}, "expected max_steps > 0, got 0"),
        ("pgx:tic_tac_toe", {"observation": "infoset"}, "kuhn_poker and leduc_holdem only"),
        ("kuhn_poker", {"observation": "pixels"}, r"one of \('plain', 'infoset'\), got 'pixels'"),
        ("kuhn_poker", {"max_steps": -1}, "max_steps > 0, got -1"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_game(name, **options)


def test_games_with_dice_have_no_deals():
    with pytest.raises(NotEnumerableError, match="dice"):
        make_game("pgx:backgammon", max_steps=100).deals()


def test_pgx_is_imported_late_and_not_into_a_trace():
    code = """
import sys, jax, gems_jax.games as games
assert "pgx" not in sys.modules, "importing gems_jax.games loads pgx"
jax.jit(lambda key: games.make_game("kuhn_poker").init(key).reward)(jax.random.key(0))
import pgx.kuhn_poker
assert not isinstance(pgx.kuhn_poker.BET, jax.core.Tracer), "a tracer leaked into pgx"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_no_warnings_reach_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.eval_shape(make_game("pgx:connect_four").init, jax.random.key(0))
