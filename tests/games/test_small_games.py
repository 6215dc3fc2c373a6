"""Liar's Dice, Kuhn and Leduc poker of many players: OpenSpiel's games, position by position and in exact values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.extensive.tree import build_tree, node_limit
from gems_jax.extensive.values import player_gains_of_tables, uniform_table
from gems_jax.extensive.walk import Walk
from gems_jax.games import make_game
from gems_jax.games.liars_dice import LiarsDice
from gems_jax.games.multiplayer_kuhn import MultiplayerKuhn
from gems_jax.games.multiplayer_leduc import MultiplayerLeduc, betting_tree
from gems_jax.testing import check_game

CHUNK = 256


def stepper(game):
    """`step` of any number of positions, CHUNK at a time: one compilation."""
    step = jax.jit(jax.vmap(game.step, in_axes=(0, 0, None)))

    def one_chunk(states, actions, rows):
        padded = np.resize(rows, CHUNK)
        parents = jax.tree.map(lambda leaf: np.asarray(leaf)[padded], states)
        after = step(parents, np.resize(actions, (CHUNK, actions.shape[1])), jax.random.key(0))
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(rows)], after)

    def advance(states, actions, rows):
        starts = range(0, len(rows), CHUNK)
        chunks = [one_chunk(states, actions[at : at + CHUNK], rows[at : at + CHUNK]) for at in starts]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks)

    return advance


def compare_with_pyspiel(game, theirs):
    """Walks both games side by side: who moves, what is legal, what the mover sees, and returns at the end."""
    advance = stepper(game)
    pyspiel_states = [theirs.new_initial_state()]
    while pyspiel_states[0].is_chance_node():
        pyspiel_states = [state.child(action) for state in pyspiel_states for action in state.legal_actions()]
    states, chance = jax.tree.map(np.asarray, game.deals())
    returns = np.zeros((len(chance), game.num_seats))
    assert len(pyspiel_states) == len(chance)
    visited = ends = 0
    while pyspiel_states:
        visited += len(pyspiel_states)
        done = np.asarray(states.done)
        assert done.tolist() == [state.is_terminal() for state in pyspiel_states]
        for row in np.flatnonzero(done):
            assert returns[row].tolist() == pyspiel_states[row].returns()
        ends += done.sum()
        rows, joint, following = [], [], []
        for row in np.flatnonzero(~done):
            state = pyspiel_states[row]
            seat = state.current_player()
            assert states.to_move[row].nonzero()[0].tolist() == [seat]
            assert states.legal[row, seat].nonzero()[0].tolist() == state.legal_actions()
            assert states.observation[row, seat].tolist() == state.information_state_tensor(seat)
            for action in state.legal_actions():
                rows.append(row)
                joint.append([action] * game.num_seats)
                following.append(state.child(action))
        if not rows:
            break
        states = advance(states, np.asarray(joint, np.int32), np.asarray(rows))
        returns, pyspiel_states = returns[rows] + states.reward, following
    return visited, ends


@pytest.mark.parametrize(
    ("game", "name", "positions", "ends"),
    [
        pytest.param(LiarsDice(2), "liars_dice(dice_sides=2)", 124, 60, marks=pytest.mark.slow),
        (LiarsDice(3), "liars_dice(dice_sides=3)", 1143, 567),
        pytest.param(LiarsDice(), "liars_dice", 294_876, 147_420, marks=pytest.mark.slow),
        pytest.param(MultiplayerKuhn(2), "kuhn_poker", 54, 30, marks=pytest.mark.slow),
        (MultiplayerKuhn(3), "kuhn_poker(players=3)", 600, 312),
        pytest.param(MultiplayerKuhn(4), "kuhn_poker(players=4)", 7_800, 3_960, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_position_is_openspiel_s(game, name, positions, ends):
    pyspiel = pytest.importorskip("pyspiel")
    assert compare_with_pyspiel(game, pyspiel.load_game(name)) == (positions, ends)


@pytest.mark.parametrize(
    ("game", "infosets", "gains"),
    [
        (LiarsDice(3), 192, (0.5740741, 0.5370370)),
        (MultiplayerKuhn(2), 12, (0.375, 0.5416667)),
        (MultiplayerKuhn(3), 48, (0.546875, 0.6927083, 0.8229167)),
        (MultiplayerLeduc(2), 288, (2.1656250, 2.5815972)),
    ],
)
def test_uniform_play_is_as_far_from_equilibrium_as_in_openspiel(game, infosets, gains):
    """Gains of a best response against uniform play, from OpenSpiel's `nash_conv`."""
    tree = build_tree(game)
    assert tree.num_infosets == infosets and tree.number is not None
    uniform = jnp.stack([uniform_table(tree)] * tree.num_players)
    np.testing.assert_allclose(player_gains_of_tables(tree, uniform), gains, atol=1e-6)


def test_liars_dice_of_six_sides_is_exact():
    """NashConv of uniform play is 1.5614886 by OpenSpiel's C++ best responses."""
    game = make_game("liars_dice")
    tree = build_tree(game)
    assert (tree.num_infosets, tree.num_leaves) == (24_576, 147_420)
    uniform = jnp.stack([uniform_table(tree)] * 2)
    np.testing.assert_allclose(player_gains_of_tables(tree, uniform).sum(), 1.5614886, atol=2e-6)


def play_beside_pyspiel(game, step, start, theirs, rng):
    """Plays one random game of Leduc poker in both from the same deal: what is seen and earned must be the same."""
    deal, state = [*np.asarray(start.inner.ranks), start.inner.public], start
    twin, public, total = theirs.new_initial_state(), deal[-1], np.zeros(game.num_seats)
    for rank in deal[:-1]:
        twin.apply_action(int(rank))
    while not twin.is_terminal():
        seat = twin.current_player()
        assert np.flatnonzero(state.to_move).tolist() == [seat]
        assert np.flatnonzero(state.legal[seat]).tolist() == twin.legal_actions()
        assert np.asarray(state.observation[seat]).tolist() == twin.information_state_tensor(seat)
        action = int(rng.choice(twin.legal_actions()))
        state = step(state, jnp.full(game.num_seats, action, jnp.int32), jax.random.key(0))
        twin.apply_action(action)
        total += np.asarray(state.reward)
        if twin.is_chance_node():
            twin.apply_action(int(public))
    assert state.terminated
    np.testing.assert_allclose(total, twin.returns(), atol=1e-5)


def test_random_games_of_leduc_poker_are_openspiel_s():
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game("leduc_poker(players=3,suit_isomorphism=True)")
    game, rng = MultiplayerLeduc(3), np.random.default_rng(0)
    step, starts = jax.jit(game.step), jax.tree.map(np.asarray, game.deals()[0])
    assert len(starts.done) == 204
    for row in rng.choice(204, 60):
        play_beside_pyspiel(game, step, jax.tree.map(lambda leaf, at=row: leaf[at], starts), theirs, rng)


def test_the_betting_of_leduc_poker_is_as_large_as_counted_by_hand():
    """Two players: 6 decisions and 4 ends in round one, 5 lines into round two with 6 decisions and 9 ends each."""
    assert len(betting_tree(2).over) == 6 + 4 + 5 * (6 + 9) and betting_tree(2).over.sum() == 4 + 5 * 9
    assert MultiplayerLeduc(3).num_positions == 204 * 1120


@pytest.mark.slow
def test_three_players_of_leduc_poker_are_exact():
    """The same gains as from the tree of OpenSpiel's game, walked through pyspiel."""
    tree = build_tree(make_game("leduc_poker_3p"))
    assert tree.num_infosets == 7_428
    uniform = jnp.stack([uniform_table(tree)] * 3)
    np.testing.assert_allclose(player_gains_of_tables(tree, uniform), (3.99355, 4.09590, 4.52177), atol=2e-5)


@pytest.mark.parametrize("sides", [2, 3])
def test_liars_dice_knows_how_large_it_is(sides):
    game = LiarsDice(sides)
    walk = Walk(game, game.num_positions)
    walk.run()
    assert walk.nodes == game.num_positions
    assert node_limit(LiarsDice()) == 294_876 and node_limit(MultiplayerKuhn(3)) == 200_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "game", [LiarsDice(2, shared=True), MultiplayerKuhn(4), MultiplayerLeduc(2, shared=True)], ids=repr
)
def test_options_keep_the_promises_of_a_game(game):
    check_game(game, episodes=8)


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="sides must be an integer from 2 to 6, got 9"):
        make_game("liars_dice", sides=9)
    with pytest.raises(ValueError, match="players must be an integer from 2 to 5, got 1"):
        MultiplayerKuhn(1)
    with pytest.raises(ValueError, match="players must be 2 or 3, got 4"):
        MultiplayerLeduc(4)
