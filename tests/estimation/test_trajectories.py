"""Stored joint episodes: likelihoods by hand, estimates against exact values, also of policies that moved since."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.estimation.estimated_game import JointGame
from gems_jax.estimation.exact import exact_values
from gems_jax.estimation.trajectories import (
    empty_buffer,
    estimate_game,
    insert_episodes,
    log_likelihoods,
    play_and_record,
)
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import num_populations
from meta_games import exact
from toy_games import constant

KUHN = make_game("kuhn_poker")
THREE = matrix_game(
    np.random.default_rng(0).uniform(-1, 1, (3, 2, 2, 2)), return_bounds=(-1.0, 1.0), zero_sum=False, name="three"
)
SLOTS, EPISODES, REPEATS = 3, 256, 200
MASSES = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.25, 0.25, 0.5]])
SIGMA = {2: MASSES[:2], 3: MASSES}


def look_up(phi, observation, legal):
    """The table of Kuhn poker as a function of observations, which knows no rows."""
    return infoset_policy(KUHN)(phi, observation, legal)


def tables(game, seed, scale=1.0):
    """Tabular policies [P, SLOTS, I, A] with random logits."""
    policy = infoset_policy(game)
    shape = (num_populations(game), SLOTS, *policy.legal.shape)
    return StackedPolicies(jnp.asarray(scale * np.random.default_rng(seed).normal(size=shape), jnp.float32), policy)


def even(game):
    return jnp.log(jnp.full((num_populations(game), SLOTS), 1 / SLOTS))


def record(key, game, policies, episodes=EPISODES, log_proposal=None):
    """Few episodes are the first ones of 32, which share a program."""
    proposal = even(game) if log_proposal is None else log_proposal
    play = _record(key, game, policies, proposal, max(episodes, 32))
    return jax.tree.map(lambda leaf: leaf[:episodes] if leaf.ndim else leaf, play)


@functools.partial(jax.jit, static_argnames=("game", "samples"))
def _record(key, game, policies, proposal, samples):
    return play_and_record(key, game, policies, proposal, samples=samples, episodes=1, stratified=False)


def filled(key, game, policies, episodes=EPISODES, **options):
    buffer = empty_buffer(game, policies, episodes)
    return insert_episodes(buffer, record(key, game, policies, episodes, **options), jnp.int32(0))


@functools.cache
def repeated(players, moved):
    """Exact values of the policies of today, and by stored episodes of others or of their own:

    values, squared errors, weights of joint play and values by pairs, [REPEATS, ...].
    """
    game = KUHN if players == 2 else THREE
    today, before = tables(game, 1), tables(game, 2 if moved else 1)
    sigma = jnp.asarray(SIGMA[players], jnp.float32)

    @jax.jit
    def run(keys, before, today):
        def once(key):
            found = estimate_game(filled(key, game, before), game, today, jnp.int32(0), 1.0)
            weight = jnp.prod(jnp.einsum("pbk,pk->pb", found.ratios, sigma), axis=0)  # of joint play of sigma
            pairs = found.to_pairs(1e-6) if players == 2 else None
            by_pairs = (pairs.values(sigma), pairs.payoffs) if pairs is not None else None
            return found.values(sigma), found.squared_errors(sigma), weight.mean(), by_pairs

        return jax.vmap(once)(keys)

    truth = exact_values(game, today, jnp.log(sigma), jnp.ones(sigma.shape, bool)).values
    return np.asarray(truth), jax.device_get(run(jax.random.split(jax.random.key(0), REPEATS), before, today))


CASES = [(2, False), (2, True), (3, False), (3, True)]
NAMES = ["Kuhn", "Kuhn, moved", "three players", "three players, moved"]


@pytest.mark.parametrize(("players", "moved"), CASES, ids=NAMES)
def test_estimates_are_consistent(players, moved):
    """Episodes of uniform mixtures, of the same policies or of others altogether. Self-normalized: the bias is far
    below the noise of one estimate, and five standard errors of the mean otherwise."""
    truth, (values, *_) = repeated(players, moved)
    spread = values.std(axis=0)
    assert (np.abs(values.mean(axis=0) - truth) < 5 * spread / np.sqrt(REPEATS) + 0.1 * spread).all()
    assert spread.max() < 0.1


@pytest.mark.parametrize(("players", "moved"), CASES, ids=NAMES)
def test_weights_have_mean_one(players, moved):
    _, (*_, weights, _) = repeated(players, moved)
    assert abs(weights.mean() - 1.0) < 5 * weights.std() / np.sqrt(REPEATS)
    assert weights.std() > 0.0


@pytest.mark.parametrize(("players", "moved"), CASES, ids=NAMES)
def test_errors_are_calibrated(players, moved):
    """The delta method: deviations in units of the reported standard error have a deviation of about one."""
    truth, (values, squares, *_) = repeated(players, moved)
    scores = (values - truth) / np.sqrt(squares)
    assert 0.8 < scores.std() < 1.3, scores.std()
    assert np.abs(scores.mean(axis=0)).max() < 0.5


@pytest.mark.parametrize("moved", [False, True], ids=["own", "moved"])
def test_payoffs_by_pairs(moved):
    """Against the exact payoff of every pair, and the values against sigma that follow from these."""
    truth, (*_, (values, payoffs)) = repeated(2, moved)
    spread = values.std(axis=0)
    assert (np.abs(values.mean(axis=0) - truth) < 5 * spread / np.sqrt(REPEATS) + 0.15 * spread).all()
    today = tables(KUHN, 1)
    for other in range(SLOTS):
        against = jnp.log(jax.nn.one_hot(jnp.full(2, other), SLOTS))
        expected = np.asarray(exact_values(KUHN, today, against, jnp.ones((2, SLOTS), bool)).values)
        for found, exactly in ((payoffs[:, 0, :, other], expected[0]), (payoffs[:, 1, other, :], expected[1])):
            spread = found.std(axis=0)
            assert (np.abs(found.mean(axis=0) - exactly) < 5 * spread / np.sqrt(REPEATS) + 0.15 * spread).all()


def test_likelihoods_by_hand():
    """Products of the probabilities of a player's own decisions, one episode after the other."""
    policies = tables(KUHN, 3)
    play = record(jax.random.key(0), KUHN, policies, 20)
    got = log_likelihoods(KUHN, policies, play.decision, play.player)
    legal = policies.apply.legal
    logits = np.where(legal, np.asarray(policies.params, np.float64), -np.inf)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)  # [P, K, I, A]
    rows, actions, players = (np.asarray(leaf) for leaf in (play.decision["row"], play.decision["action"], play.player))
    expected = np.ones((2, 20, SLOTS))
    for episode, turn in np.ndindex(*players.shape):
        player = players[episode, turn]
        if player >= 0:
            chosen = probabilities[player, :, rows[episode, turn], actions[episode, turn]]
            expected[player, episode] *= chosen
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-5)
    assert {1, 2} >= set((players == 0).sum(axis=1)) and (players[:, 0] == 0).all()  # player 0 bets, and may answer
    np.testing.assert_allclose(play.log_drawn, np.log(expected.mean(axis=2)).T, rtol=1e-5)


def test_drawn_mixtures_count_by_their_mass():
    policies = tables(KUHN, 3)
    q = jnp.asarray([[0.7, 0.3, 0.0], [0.1, 0.0, 0.9]])
    play = record(jax.random.key(0), KUHN, policies, 20, jnp.log(q))
    likelihood = np.exp(log_likelihoods(KUHN, policies, play.decision, play.player))
    np.testing.assert_allclose(np.exp(play.log_drawn), np.einsum("pbk,pk->bp", likelihood, q), rtol=1e-5)
    buffer = filled(jax.random.key(0), KUHN, policies, 20, log_proposal=jnp.log(q))
    found = estimate_game(buffer, KUHN, policies, jnp.int32(0), 1.0)
    bound = np.broadcast_to(1 / np.maximum(np.asarray(q), 1e-30)[:, None], found.ratios.shape)
    assert (np.asarray(found.ratios) <= bound * 1.0001).all()  # the balance heuristic's bound


def test_rows_and_observations_agree():
    """Stored rows of tables, and the same policies as functions of what is seen."""
    policies = tables(KUHN, 4)
    same = StackedPolicies(policies.params, look_up)
    by_row, by_sight = (record(jax.random.key(5), KUHN, one, 32) for one in (policies, same))
    assert set(by_row.decision) == {"action", "row"} and set(by_sight.decision) == {"action", "observation", "legal"}
    # whichever episodes these are: each path evaluates its own decisions, and the other path must agree on them
    seen = by_sight.decision
    rows = jax.vmap(jax.vmap(policies.apply.find_row))(seen["observation"])
    decision = {"action": seen["action"], "row": rows}
    left = log_likelihoods(KUHN, policies, decision, by_sight.player)
    right = log_likelihoods(KUHN, same, seen, by_sight.player)
    np.testing.assert_allclose(left, right, atol=1e-5)
    assert by_row.env_steps >= 64 and by_row.episodes == 32 and (left < 0).all()


def test_likelihoods_of_a_network():
    """An MLP without hidden layers on Kuhn poker: log-softmax of W o over legal actions, summed by player."""
    network = MlpPolicy(int(np.prod(KUHN.observation_shape)), KUHN.num_actions)
    keys = jax.random.split(jax.random.key(0), (2, SLOTS))
    params = jax.tree.map(lambda leaf: 100.0 * leaf, jax.vmap(jax.vmap(network.init))(keys))
    policies = StackedPolicies(params, network)
    play = record(jax.random.key(1), KUHN, policies, 10)
    got = np.asarray(log_likelihoods(KUHN, policies, play.decision, play.player))
    expected = np.zeros((2, 10, SLOTS))
    for episode, turn in np.argwhere(np.asarray(play.player) >= 0):
        player = int(play.player[episode, turn])
        seen, legal, action = (
            np.asarray(play.decision[name])[episode, turn] for name in ("observation", "legal", "action")
        )
        for slot in range(SLOTS):
            (weights,) = (np.asarray(leaf[player, slot], np.float64) for leaf in jax.tree.leaves(params))
            logits = seen.reshape(-1) @ weights
            expected[player, episode, slot] += logits[action] - np.log(np.exp(logits[legal]).sum())
    np.testing.assert_allclose(got, expected, atol=1e-4)
    assert np.ptp(got, axis=2).max() > 0.05  # the anchors differ


def test_a_constant_policy_of_a_simultaneous_game():
    """Every seat decides in the one step: ratios are those of single actions, and values those of the tensor."""
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(3, SLOTS, 2)), jnp.float32)
    policies = StackedPolicies(logits, constant)
    play = record(jax.random.key(0), THREE, policies, 4096)
    np.testing.assert_array_equal(play.player, np.broadcast_to([0, 1, 2], (4096, 3)))
    got = log_likelihoods(THREE, policies, play.decision, play.player)
    actions = np.asarray(play.decision["action"])
    for player in range(3):
        expected = np.asarray(jax.nn.log_softmax(logits[player]))[:, actions[:, player]].T
        np.testing.assert_allclose(got[player], expected, atol=1e-5)
    found = estimate_game(filled(jax.random.key(0), THREE, policies, 4096), THREE, policies, jnp.int32(0), 1.0)
    truth, *_ = exact(THREE, logits, SIGMA[3])
    sigma = jnp.asarray(SIGMA[3], jnp.float32)
    scores = (np.asarray(found.values(sigma)) - truth) / np.sqrt(np.asarray(found.squared_errors(sigma)))
    assert np.abs(scores).max() < 4.5


def test_a_shared_population_averages_over_its_places():
    payoffs = np.asarray([[[1.0, -0.5], [0.25, 0.0]], [[0.0, 0.5], [-1.0, 0.75]]])
    game = matrix_game(payoffs, return_bounds=(-1.0, 1.0), shared=True, zero_sum=False)
    logits = jnp.asarray(np.random.default_rng(1).normal(size=(1, SLOTS, 2)), jnp.float32)
    policies, sigma = StackedPolicies(logits, constant), SIGMA[2][:1]
    found = estimate_game(filled(jax.random.key(1), game, policies, 4096), game, policies, jnp.int32(0), 1.0)
    truth, *_ = exact(game, logits, sigma)
    values, squares = found.values(jnp.asarray(sigma)), found.squared_errors(jnp.asarray(sigma))
    assert values.shape == (1, SLOTS)
    assert (np.abs(np.asarray(values) - truth) < 4.5 * np.sqrt(np.asarray(squares))).all()
    pairs = found.to_pairs(1e-6)
    np.testing.assert_allclose(pairs.values(jnp.asarray(sigma)), truth, atol=0.05)


def test_the_oldest_episodes_are_overwritten():
    """Five at a time into eight slots: 0-4, then 5-7 and 0-1, then 2-6."""
    policies = tables(KUHN, 0)
    buffer = empty_buffer(KUHN, policies, 8)
    born, cursors = [], []
    for iteration, key in enumerate(jax.random.split(jax.random.key(0), 3)):
        play = record(key, KUHN, policies, 5)
        buffer = insert_episodes(buffer, play, jnp.int32(iteration))
        born.append(np.asarray(buffer.born).tolist())
        cursors.append(int(buffer.cursor))
    assert born[0] == [0] * 5 + [-1] * 3
    assert born[1] == [1, 1, 0, 0, 0, 1, 1, 1]
    assert born[2] == [1, 1, 2, 2, 2, 2, 2, 1] and cursors == [5, 2, 7]
    np.testing.assert_array_equal(buffer.returns[2:7], play.returns)
    np.testing.assert_array_equal(buffer.decision["action"][2:7], play.decision["action"])
    np.testing.assert_array_equal(buffer.log_drawn[2:7], play.log_drawn)


def test_empty_slots_have_no_weight():
    """A buffer that is half full estimates what a full one of the same episodes does."""
    policies, sigma = tables(KUHN, 0), jnp.asarray(SIGMA[2], jnp.float32)
    play = record(jax.random.key(0), KUHN, policies, 32)
    found = [
        estimate_game(insert_episodes(empty_buffer(KUHN, policies, size), play, jnp.int32(3)), KUHN, policies, 3, 0.5)
        for size in (32, 64)
    ]
    np.testing.assert_array_equal(found[1].weights, [1.0] * 32 + [0.0] * 32)
    np.testing.assert_allclose(found[0].values(sigma), found[1].values(sigma), rtol=1e-5)
    np.testing.assert_allclose(found[0].squared_errors(sigma), found[1].squared_errors(sigma), rtol=1e-4)
    np.testing.assert_allclose(found[0].to_pairs(8.0).payoffs, found[1].to_pairs(8.0).payoffs, rtol=1e-5)


def test_older_episodes_count_less():
    policies = tables(KUHN, 0)
    buffer = empty_buffer(KUHN, policies, 6)
    for iteration, key in enumerate(jax.random.split(jax.random.key(0), 3)):
        buffer = insert_episodes(buffer, record(key, KUHN, policies, 2), jnp.int32(iteration))
    for discount, expected in ((0.5, [0.25, 0.25, 0.5, 0.5, 1, 1]), (1.0, [1] * 6), (0.0, [0] * 4 + [1] * 2)):
        found = estimate_game(buffer, KUHN, policies, jnp.int32(2), discount)
        np.testing.assert_allclose(found.weights, expected, rtol=1e-6)


def test_values_and_errors_by_hand():
    """Two episodes and two anchors: v = sum w R / sum w, and sum w^2 (R - v)^2 / (sum w)^2."""
    ratios = jnp.asarray([[[2.0, 0.5], [1.0, 1.5]], [[1.0, 3.0], [0.5, 1.0]]])
    returns = jnp.asarray([[0.2, 0.8], [0.8, 0.2]])
    found = JointGame(ratios, returns, jnp.asarray([1.0, 0.5]), (0, 1))
    sigma = jnp.asarray([[1.0, 0.0], [0.25, 0.75]])
    others = np.array([1.0 * (0.25 + 2.25), 0.5 * (0.125 + 0.75)])  # of player 1's mixture, for player 0
    weights = others[:, None] * np.asarray(ratios[0])
    mean = (weights * np.array([[0.2], [0.8]])).sum(axis=0) / weights.sum(axis=0)
    square = (weights**2 * (np.array([[0.2], [0.8]]) - mean) ** 2).sum(axis=0) / weights.sum(axis=0) ** 2
    np.testing.assert_allclose(found.values(sigma)[0], mean, rtol=1e-5)
    np.testing.assert_allclose(found.squared_errors(sigma)[0], square, rtol=1e-4)
    pairs = found.to_pairs(1e-6)
    joint = np.array([1.0 * 2.0 * 3.0, 0.5 * 1.0 * 1.0])  # pair (0, 1)
    np.testing.assert_allclose(pairs.payoffs[0, 0, 1], (joint @ [0.2, 0.8]) / joint.sum(), rtol=1e-4)
    np.testing.assert_allclose(pairs.payoffs[1, 0, 1], (joint @ [0.8, 0.2]) / joint.sum(), rtol=1e-4)


def test_one_player_tells_the_other_where_returns_have_a_constant_sum():
    """Payoffs and errors of player 1 from those of player 0 are those from player 1's own returns."""
    keys = jax.random.split(jax.random.key(5), 3)
    ratios = jnp.exp(jax.random.normal(keys[0], (2, 40, 3)))
    first = jax.random.uniform(keys[1], (40,))
    weights = jax.random.uniform(keys[2], (40,))
    found, short = (JointGame(ratios, jnp.stack([first, 1.5 - first]), weights, (0, 1), c) for c in (None, 1.5))
    full, halved = found.to_pairs(8.0), short.to_pairs(8.0)
    np.testing.assert_allclose(halved.payoffs, full.payoffs, rtol=1e-5)
    np.testing.assert_allclose(halved.squares, full.squares, rtol=1e-3)
