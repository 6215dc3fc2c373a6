"""Corrected returns: unbiased whatever the critic, constant with the exact one, the same episodes throughout."""

from functools import cache, partial
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, play_episode
from gems_jax.estimation.control_variates import count_branches, make_corrected_play, make_recorded_play
from gems_jax.estimation.deals import start_from_deal, stratify_deals
from gems_jax.estimation.history_critic import make_history_critic, make_tabular_critic
from gems_jax.extensive.infosets import infoset_policy, tables_of
from gems_jax.extensive.values import build_tree, expected_returns
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import make_view
from gems_jax.types import Policy, num_players
from toy_games import Dice, constant, team_game

THREE = matrix_game(np.random.default_rng(0).normal(size=(3, 2, 3, 2)), name="three")
GAMES = {
    "kuhn_poker": make_game("kuhn_poker"),
    "leduc_holdem": make_game("leduc_holdem"),
    "three": THREE,
    "dice": Dice(),  # chance acts in `step`, three players, truncated
}
Z = 4.5  # standard errors: a sound estimator fails once in 150,000 comparisons
EPISODES = {"leduc_holdem": 1200}  # 2000 in other games


def random_policies(game, seed=0):
    """One policy per player; tables in poker."""
    if game.name in ("kuhn_poker", "leduc_holdem"):
        network = infoset_policy(game)
        shape, apply = network.legal.shape, network
    else:
        shape, apply = (game.num_actions,), constant
    logits = jax.random.normal(jax.random.key(seed), (num_players(game), *shape))
    return tuple(Policy(row, apply) for row in logits)


def tree_values(game, policies):
    stacked = StackedPolicies(jnp.stack([policy.params for policy in policies])[:, None], policies[0].apply)
    return expected_returns(build_tree(game), tables_of(game, stacked)[:, 0])


class Setting(NamedTuple):
    """A game, one policy per player, a critic, and record(its params, seed) -> recorded episodes."""

    game: Any
    policies: Any
    critic: Any
    record: Any


@cache
def setting(name, tabular=False):
    """Compiled once for all critics, which differ in their parameters."""
    game = GAMES[name]
    policies = random_policies(game)
    critic = make_tabular_critic(game) if tabular else make_history_critic(game, hidden=(16,))

    @jax.jit
    def record(params, seed):
        play = make_recorded_play(critic, params)
        keys = jax.random.split(jax.random.key(seed), EPISODES.get(name, 2000))
        return jax.vmap(lambda key: play(key, game, policies))(keys)

    return Setting(game, policies, critic, record)


def wrong(params):
    """A network that has learned nothing and says large numbers."""
    return jax.tree.map(lambda leaf: 20.0 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params)


def z_scores(samples):
    """[n, S] -> [S]: means in standard errors; 0 for samples that are all 0 up to rounding."""
    samples = np.asarray(samples, np.float64)
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return np.where(np.abs(samples).max(axis=0) < 1e-5, 0.0, samples.mean(axis=0) / np.maximum(error, 1e-12))


def total_variance(returns):
    return float(np.var(returns, axis=0).sum())


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "leduc_holdem")) for n in GAMES])
def test_estimates_are_unbiased_whatever_the_critic(name):
    game, policies, critic, record = setting(name)
    state = critic.init(jax.random.key(3))
    zero = jax.tree.map(jnp.zeros_like, state.params)
    untrained = record(zero, 0)
    train = jax.jit(partial(critic.train, steps=120, batch=128))
    for seed in (1, 2):  # from plain returns first, then from corrected ones
        targets = jax.tree.map(lambda leaf: leaf[:1000], record(state.params, seed).targets)
        state, losses = train(state, jax.random.key(seed), targets)
    found = {"zero": untrained, "wrong": record(wrong(zero), 4), "trained": record(state.params, 5)}
    for recorded in found.values():
        assert np.abs(z_scores(recorded.returns - recorded.plain)).max() < Z  # paired: corrections have mean zero
    if name in ("kuhn_poker", "leduc_holdem"):
        exact = tree_values(game, policies)
        for recorded in found.values():
            assert np.abs(z_scores(recorded.returns - exact[None])).max() < Z
    plain = total_variance(untrained.plain)
    assert total_variance(found["zero"].returns) < 0.95 * plain  # the last move's rewards are known without a critic
    assert total_variance(found["trained"].returns) < 0.75 * plain
    if game.max_steps > 1:  # a critic is not asked about the end
        assert total_variance(found["wrong"].returns) > 2 * plain


def exact_table(game, policies, critic):
    """Parameters of a tabular critic that hold V of the policies, by walking all that may follow every deal."""
    sums, counts = jax.tree.map(np.array, critic.init(jax.random.key(0)).params)
    step = jax.jit(jax.vmap(lambda state, action: game.step(state, jnp.full(2, action), jax.random.key(0)), (0, None)))
    tables = np.stack([np.asarray(policy.params) for policy in policies])

    def value(states):
        """V [deals, 2], and the table's cells filled on the way."""
        if bool(np.all(states.done)):
            return np.zeros((len(states.done), 2))
        branches = [step(states, action) for action in range(game.num_actions)]
        gains = np.stack([branch.reward + value(branch) for branch in branches], axis=1)  # [deals, A, 2]
        mover = np.argmax(states.to_move, axis=1)
        rows = policies[0].apply.row_of_infoset[np.asarray(states.infoset)[np.arange(len(mover)), mover]]
        chance = np.asarray(jax.nn.softmax(tables[mover, rows], axis=1))
        found = np.einsum("da,das->ds", chance, gains)
        going = ~np.asarray(states.done)
        cells = np.asarray(critic.find_cell(states.infoset, states.to_move))[going]
        sums[cells], counts[cells] = found[going], 1.0
        return np.where(going[:, None], found, 0.0)

    value(game.deals()[0])
    return jnp.asarray(sums), jnp.asarray(counts)


def test_the_exact_critic_leaves_no_variance_in_kuhn():
    game, policies, critic, record = setting("kuhn_poker", tabular=True)
    expected = tree_values(game, policies)
    recorded = record(exact_table(game, policies, critic), 0)
    np.testing.assert_allclose(recorded.returns, np.broadcast_to(expected, recorded.returns.shape), atol=3e-6)
    assert np.var(recorded.plain, axis=0).min() > 1.0
    # Without their term the luck of the deals is left: targets do not have it, and are the values of their positions.
    first = np.round(np.asarray(recorded.targets.remaining[:, 0, 0]), 4)
    assert len(np.unique(first)) == 6 and np.var(first) > 0.1


def test_a_table_learns_the_values_of_kuhn():
    _, _, critic, record = setting("kuhn_poker", tabular=True)
    state = critic.init(jax.random.key(0))
    for seed in (0, 1):
        state, loss = critic.train(state, jax.random.key(0), record(state.params, seed).targets, retained=0.0)
    assert loss.shape == (1,)
    after = record(state.params, 7)
    assert np.var(after.returns[:, 0]) < 0.01 * np.var(after.plain[:, 0])


def record_with(game, policies, max_joint, count=2000):
    play = make_recorded_play(lambda _, state: jnp.zeros(game.num_seats), max_joint=max_joint)
    keys = jax.random.split(jax.random.key(0), count)
    return jax.jit(jax.vmap(lambda key: play(key, game, policies)))(keys)


def test_joint_actions_are_exact_and_single_seats_are_unbiased():
    policies = random_policies(THREE)
    joint, single = (record_with(THREE, policies, limit) for limit in (256, 8))
    legal = THREE.infosets()[1]
    chances = [jax.nn.softmax(jnp.where(legal[seat], policies[seat].params, -1e9)) for seat in range(3)]
    expected = jnp.einsum("sabc,a,b,c->s", THREE.payoffs, chances[0][:2], chances[1], chances[2][:2])
    np.testing.assert_allclose(joint.returns, np.broadcast_to(expected, joint.returns.shape), atol=3e-6)
    assert np.var(joint.plain, axis=0).min() > 0.05
    assert np.abs(z_scores(single.returns - expected[None])).max() < Z
    assert np.var(single.returns, axis=0).min() > 1e-3
    assert (count_branches(THREE), count_branches(THREE, 8), count_branches(Dice())) == (27, 9, 2)


def test_additive_payoffs_are_exact_seat_by_seat():
    """team_game pays 4 a0 + 2 a1 + a2, without interactions."""
    game = team_game()
    found = record_with(game, random_policies(game), max_joint=0, count=64)
    np.testing.assert_allclose(found.returns, np.broadcast_to(found.returns[:1], (64, 3)), atol=1e-5)
    assert np.var(found.plain[:, 0]) > 0.5


@pytest.mark.parametrize("name", ["kuhn_poker", "dice"])
def test_the_episodes_are_those_of_plain_play(name):
    game, policies, critic, record = setting(name)
    params = wrong(critic.init(jax.random.key(0)).params)
    recorded = record(params, 1)

    @jax.jit
    def play_all(params):
        plays = (play_episode, make_corrected_play(critic, params))
        keys = jax.random.split(jax.random.key(1), 2000)
        return [jax.vmap(lambda key, play=play: play(key, game, policies))(jax.random.clone(keys)) for play in plays]

    plain, corrected = play_all(params)
    np.testing.assert_array_equal(plain.returns, recorded.plain)
    np.testing.assert_array_equal(plain.length, corrected.length)
    np.testing.assert_array_equal(plain.length, recorded.length)
    np.testing.assert_array_equal(recorded.targets.played.sum(axis=1), plain.length)
    np.testing.assert_allclose(recorded.returns, corrected.returns, rtol=1e-4, atol=1e-2)
    assert np.abs(corrected.returns - plain.returns).max() > 1.0


def steady(logits, observation, legal):
    """Mixed by its logits, but the better of two actions is taken whatever the noise."""
    output = constant(logits, observation, legal)
    return output.replace(cdf=jnp.where(logits[:1] > logits[1:], 2.0, -1.0))


@pytest.mark.parametrize("name", ["kuhn_poker", "dice"])
def test_views_ask_the_critic_in_the_game_s_own_order(name):
    """From the last player's view there are the same episodes, with their seats permuted."""
    game, _, critic, _ = setting(name)
    params = wrong(critic.init(jax.random.key(0)).params)
    last = num_players(game) - 1
    seen = make_view(game, last)
    policies = tuple(Policy(row, steady) for row in jax.random.normal(jax.random.key(2), (last + 1, 2)))

    @jax.jit
    def both():
        play = make_recorded_play(critic, params)
        keys = jax.random.split(jax.random.key(1), 32)
        own = jax.vmap(lambda key: play(key, game, policies))(keys)
        permuted = (policies[last], *policies[:last])
        return own, jax.vmap(lambda key: play(key, seen, permuted))(jax.random.clone(keys))

    own, other = both()
    np.testing.assert_allclose(own.plain[:, np.asarray(seen.seats)], other.plain)
    np.testing.assert_allclose(own.returns[:, np.asarray(seen.seats)], other.returns, rtol=1e-4, atol=1e-2)
    chex.assert_trees_all_close(own.targets, other.targets, rtol=1e-4, atol=1e-2)
    assert np.abs(own.returns - own.plain).max() > 1.0


def test_groups_and_joint_play_take_corrected_play_with_context():
    """Called by index or not; the context of an episode is a lane, here the players' slots."""
    game = GAMES["kuhn_poker"]
    network = infoset_policy(game)
    logits = jax.random.normal(jax.random.key(0), (2, 3, *network.legal.shape))
    indices = jnp.asarray([[0, 1], [2, 2], [1, 0]])
    context = jnp.broadcast_to(indices[:, None], (3, 4, 2)).astype(jnp.float32)
    play = make_corrected_play(lambda _, state, slots: slots * state.observation[0, 0] - 1.0)
    stacked = StackedPolicies(logits, network)
    by_observation = StackedPolicies(logits, lambda phi, seen, legal: network(phi, seen, legal))

    @jax.jit
    def measure(key):
        found = [play_joint(play, jax.random.clone(key), game, one, indices, 4, (context,))
                 for one in (stacked, by_observation)]  # fmt: skip
        own = StackedPolicies(logits[0], network)
        lanes = (context[:, None],)
        return *found, play_groups(play, key, game, own, stacked, indices[:, None], 4, lanes=lanes)

    by_index, other, grouped = measure(jax.random.key(5))
    np.testing.assert_allclose(by_index.returns, other.returns, atol=1e-5)
    assert by_index.returns.shape == (3, 4, 2) and grouped.returns.shape == (3, 1, 4, 2)
    zeros = by_index.returns + by_index.returns[..., ::-1]  # both seats' values change with the slots of both
    assert np.abs(zeros).max() > 0.1


def test_critics_of_several_seeds_are_one_batch():
    """Tables called by index flatten their axes; parameters of a critic that differ from seed to seed do not."""
    game, _, critic, _ = setting("kuhn_poker")
    network = infoset_policy(game)
    logits = jax.random.normal(jax.random.key(0), (2, 2, 3, *network.legal.shape))  # [seeds, P, K, I, A]
    params = jax.vmap(lambda key: critic.init(key).params)(jax.random.split(jax.random.key(1), 2))
    params = jax.tree.map(lambda leaf: 10.0 * leaf, params)
    indices = jnp.asarray([[0, 1], [2, 2]])

    def measure(logits, params, key):
        key_deals, key_play = jax.random.split(key)
        deals = stratify_deals(key_deals, game, (2,), (6,))
        play = start_from_deal(make_corrected_play(critic, params))
        return play_joint(play, key_play, game, StackedPolicies(logits, network), indices, 6, (deals,))

    keys = jax.random.split(jax.random.key(2), 2)
    together = jax.jit(jax.vmap(measure))(logits, params, jax.random.clone(keys))
    one_by_one = jax.jit(lambda *seeds: jax.lax.map(lambda seed: measure(*seed), seeds))(logits, params, keys)
    np.testing.assert_allclose(together.returns, one_by_one.returns, atol=1e-4)
    assert together.returns.shape == (2, 2, 6, 2)
    assert np.abs(together.returns[0] - together.returns[1]).max() > 0.1


def test_games_that_cannot_be_branched_are_refused():
    play = make_corrected_play(lambda _, state: jnp.zeros(4))
    with pytest.raises(ValueError, match="continuous actions"):
        play(jax.random.key(0), make_game("simple_tag", continuous=True), ())

    class Elsewhere(Dice):
        on_host = True

    with pytest.raises(ValueError, match="runs in Python"):
        play(jax.random.key(0), Elsewhere(), ())
