"""NashConv of random policies agrees with OpenSpiel's, information set by information set.

Policies are drawn on our trees and carried over by what a player knows: own card, public card, betting so far. Actions:
pgx Kuhn bet 0, pass 1 and OpenSpiel pass 0, bet 1; pgx Leduc call 0, raise 1, fold 2 and OpenSpiel fold 0, call 1,
raise 2.
"""

import jax
import numpy as np
import pytest

from gems_jax.extensive.values import build_tree, expected_returns, player_gains_of_tables
from gems_jax.games import make_game

pyspiel = pytest.importorskip("pyspiel")
exploitability = pytest.importorskip("open_spiel.python.algorithms.exploitability")
expected_game_score = pytest.importorskip("open_spiel.python.algorithms.expected_game_score")
policy_lib = pytest.importorskip("open_spiel.python.policy")

# OpenSpiel's name of the game; its action -> ours; its card -> rank
GAMES = {
    "kuhn_poker": ("kuhn_poker", (1, 0), lambda card: card),
    "leduc_holdem": ("leduc_poker", (2, 0, 1), lambda card: card // 2),
}


def our_names(tree, name):
    """What is known at each information set: (seat, card, public card or -1, actions so far) -> row."""
    names = {}
    for row, seen in enumerate(np.asarray(tree.observation)):
        cards, history = (seen[:3], seen[7:11]) if name == "kuhn_poker" else (seen[:3], seen[34:50])
        public = -1 if name == "kuhn_poker" or not seen[3:6].any() else int(seen[3:6].argmax())
        actions = tuple(int(slot.argmax()) for slot in history.reshape(-1, 2) if slot.any())
        names[int(tree.seat[row]), int(cards.argmax()), public, actions] = row
    assert len(names) == tree.num_infosets
    return names


def their_policy(game, names, table, name):
    """An OpenSpiel policy that plays row `names[...]` of our table wherever it stands."""
    _, to_ours, rank = GAMES[name]
    policy = policy_lib.TabularPolicy(game)
    found = set()
    for row, state in enumerate(policy.states):
        player, cards, actions = state.current_player(), [], []
        replay = game.new_initial_state()
        for action in state.history():
            (cards if replay.is_chance_node() else actions).append(action)
            replay.apply_action(action)
        public = rank(cards[2]) if len(cards) > 2 else -1
        key = (player, rank(cards[player]), public, tuple(to_ours[action] for action in actions))
        found.add(names[key])
        for action in range(policy.action_probability_array.shape[1]):
            policy.action_probability_array[row, action] = table[names[key], to_ours[action]]
    assert found == set(names.values())
    return policy


@pytest.mark.parametrize(("name", "infosets", "policies"), [("kuhn_poker", 12, 20), ("leduc_holdem", 936, 5)])
def test_nash_conv_agrees_with_open_spiel(name, infosets, policies):
    tree = build_tree(make_game(name))
    game = pyspiel.load_game(GAMES[name][0])
    names = our_names(tree, name)
    for seed in range(policies):
        draws = np.random.default_rng(seed).dirichlet(np.full(tree.num_actions, 0.5), tree.num_infosets)
        table = draws * np.asarray(tree.legal) + 1e-9 * np.asarray(tree.legal)
        table = (table / table.sum(axis=1, keepdims=True)).astype(np.float32)
        policy = their_policy(game, names, table.astype(np.float64), name)
        assert policy.action_probability_array.shape[0] == infosets
        theirs = exploitability.nash_conv(game, policy, return_only_nash_conv=False)
        both = jax.numpy.stack([table, table])
        ours = player_gains_of_tables(tree, both)
        # float32 sums over up to 1176 leaves with payoffs up to 13
        np.testing.assert_allclose(ours, theirs.player_improvements, atol=2e-6)
        np.testing.assert_allclose(ours.sum(), theirs.nash_conv, atol=2e-6)
        value = expected_game_score.policy_value(game.new_initial_state(), [policy, policy])
        np.testing.assert_allclose(expected_returns(tree, both), value, atol=2e-6)
