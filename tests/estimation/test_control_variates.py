"""Corrected returns: unbiased whatever the critic, constant with the exact one, the same episodes throughout."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, play_episode
from gems_jax.estimation.control_variates import count_branches, make_corrected_play, make_recorded_play
from gems_jax.estimation.history_critic import make_history_critic, make_tabular_critic
from gems_jax.extensive.infosets import infoset_policy, tables_of
from gems_jax.extensive.values import build_tree, expected_returns
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import view
from gems_jax.types import Policy, num_players
from toy_games import Dice, Purse, constant, team_game

THREE = matrix_game(np.random.default_rng(0).normal(size=(3, 2, 3, 2)), name="three")
DICE = Dice()
GAMES = {
    "kuhn_poker": make_game("kuhn_poker"),
    "leduc_holdem": make_game("leduc_holdem"),
    "three": THREE,
    "team": team_game(),
    "dice": DICE,  # chance acts in `step`, three players
    "purse": Purse(),  # truncated
    "deceptive": make_game("deceptive_messages", mode="random"),  # deals and random rewards
}
Z = 4.5  # standard errors: a sound estimator fails once in 150,000 comparisons


def random_policies(game, seed=0):
    """One policy per player; tables where the game has them."""
    if game.name in ("kuhn_poker", "leduc_holdem"):
        network = infoset_policy(game)
        shape, apply = network.legal.shape, network
    else:
        shape, apply = (game.num_actions,), constant
    logits = jax.random.normal(jax.random.key(seed), (num_players(game), *shape))
    return tuple(Policy(row, apply) for row in logits)


def exact_value(game, policies):
    """V of the policies in a game without chance in `step`, by walking all that may follow."""

    def value(state, steps=game.max_steps):
        if steps == 0:
            return jnp.zeros(game.num_seats)
        apply = lambda policy, seat: policy.apply(policy.params, state.observation[seat], state.legal[seat])  # noqa: E731
        chance = [jax.nn.softmax(apply(policies[seat], seat).logits) for seat in range(game.num_seats)]
        mover = jnp.argmax(state.to_move)
        total = jnp.zeros(game.num_seats)
        for action in range(game.num_actions):
            following = game.step(state, jnp.full(game.num_seats, action), jax.random.key(0))
            after = following.reward + jnp.where(following.done, 0.0, value(following, steps - 1))
            total = total + jnp.stack(chance)[mover, action] * after
        return total

    return value


def wrong(game):
    """A critic that has nothing to do with the game, five times as large as its returns."""
    weights = jax.random.normal(jax.random.key(9), (int(np.prod(game.observation_shape)) * game.num_seats, 8))
    head = jax.random.normal(jax.random.key(10), (8, game.num_seats)) * 5 * max(map(abs, game.return_bounds))
    return lambda state: jnp.sin(3 * state.observation.reshape(-1) @ weights) @ head


def trained(game, policies):
    """A critic that has learned from 512 episodes, twice as long from corrected returns as from plain ones."""
    critic = make_history_critic(game, hidden=(32,))
    state = critic.init(jax.random.key(3))
    for number in range(2):
        play = make_recorded_play(partial(critic, state.params))
        keys = jax.random.split(jax.random.key(4 + number), 512)
        recorded = jax.vmap(lambda key, play=play: play(key, game, policies))(keys)
        state, _ = critic.train(state, jax.random.key(7 + number), recorded.targets, steps=100, batch=128)
    return partial(critic, state.params)


CRITICS = {
    "zero": lambda game, policies: lambda state: jnp.zeros(game.num_seats),
    "wrong": lambda game, policies: wrong(game),
    "trained": trained,
}


def recorded_episodes(game, policies, value, count, seed=0, **options):
    play = make_recorded_play(value, **options)
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: play(key, game, policies))(keys)


def z_scores(samples):
    """[n, S] -> [S]: the mean in standard errors; 0 where it is 0."""
    samples = np.asarray(samples, np.float64)
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return np.where(np.abs(samples.mean(axis=0)) < 1e-6, 0.0, samples.mean(axis=0) / np.maximum(error, 1e-9))


@pytest.mark.parametrize("name", GAMES)
def test_corrections_have_mean_zero_whatever_the_critic(name):
    game = GAMES[name]
    policies = random_policies(game)
    count = 2000 if name == "leduc_holdem" else 6000

    @jax.jit
    def measure():
        found = {}
        for number, (kind, make) in enumerate(CRITICS.items()):
            recorded = recorded_episodes(game, policies, make(game, policies), count, seed=20 + number)
            found[kind] = recorded.returns - recorded.plain, recorded.returns, recorded.plain
        return found

    found = measure()
    for corrections, _, _ in found.values():
        assert np.abs(z_scores(corrections)).max() < Z
        assert np.abs(corrections).max() > 0.1  # something was corrected
    spread = {kind: np.var(returns, axis=0).sum() for kind, (_, returns, _) in found.items()}
    plain = np.var(found["zero"][2], axis=0).sum()
    assert spread["trained"] < 0.8 * plain
    if game.max_steps > 1:  # values of positions matter only before the last move
        assert spread["wrong"] > 2 * plain


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem"])
def test_means_are_the_values_of_the_tree(name):
    game = GAMES[name]
    policies = random_policies(game)
    stacked = StackedPolicies(jnp.stack([policy.params for policy in policies])[:, None], policies[0].apply)
    expected = expected_returns(build_tree(game), tables_of(game, stacked)[:, 0])
    critics = (CRITICS["zero"], lambda game, _: wrong(game))
    measure = jax.jit(lambda: [recorded_episodes(game, policies, make(game, ()), 4000).returns for make in critics])
    for returns in measure():
        assert np.abs(z_scores(returns - expected[None])).max() < Z


def test_the_exact_critic_leaves_no_variance_in_kuhn():
    game = GAMES["kuhn_poker"]
    policies = random_policies(game)
    stacked = StackedPolicies(jnp.stack([policy.params for policy in policies])[:, None], policies[0].apply)
    expected = expected_returns(build_tree(game), tables_of(game, stacked)[:, 0])
    measure = jax.jit(lambda: recorded_episodes(game, policies, exact_value(game, policies), 256))
    recorded = measure()
    np.testing.assert_allclose(recorded.returns, np.broadcast_to(expected, (256, 2)), atol=2e-6)
    assert np.var(recorded.plain, axis=0).min() > 1.0
    # without the deals' term their luck is left
    no_deals = jax.jit(lambda: recorded_episodes(game, policies, exact_value(game, policies), 256, deals=False))()
    assert 0.1 < np.var(no_deals.returns[:, 0]) < np.var(recorded.plain[:, 0])
    # and the targets are the values of their positions
    targets = no_deals.targets
    first = targets.remaining[:, 0]
    np.testing.assert_allclose(first, no_deals.returns, atol=2e-6)
    assert len(np.unique(np.round(np.asarray(first[:, 0]), 4))) == 6  # one for each deal


def test_joint_actions_are_exact_and_single_seats_are_not():
    policies = random_policies(THREE)
    zero = CRITICS["zero"](THREE, policies)
    joint, apart = jax.jit(
        lambda: [recorded_episodes(THREE, policies, zero, 3000, max_joint=limit) for limit in (256, 8)]
    )()
    assert np.var(joint.plain, axis=0).min() > 0.05
    np.testing.assert_allclose(joint.returns, np.broadcast_to(joint.returns[:1], (3000, 3)), atol=2e-6)
    chances = [jax.nn.softmax(jnp.where(THREE.infosets()[1][i], p.params, -1e9)) for i, p in enumerate(policies)]
    expected = jnp.einsum("sabc,a,b,c->s", THREE.payoffs, chances[0][:2], chances[1], chances[2][:2])
    np.testing.assert_allclose(joint.returns[0], expected, atol=2e-6)
    assert np.abs(z_scores(apart.returns - apart.plain)).max() < Z
    assert np.var(apart.returns, axis=0).min() > 1e-3
    assert (count_branches(THREE), count_branches(THREE, 8), count_branches(DICE)) == (27, 9, 2)


def test_additive_payoffs_are_exact_seat_by_seat():
    """team_game pays 4 a0 + 2 a1 + a2, without interactions."""
    game = GAMES["team"]
    policies = random_policies(game)
    zero = CRITICS["zero"](game, policies)
    found = jax.jit(lambda: recorded_episodes(game, policies, zero, 64, max_joint=0))()
    np.testing.assert_allclose(found.returns, np.broadcast_to(found.returns[:1], (64, 3)), atol=1e-5)
    assert np.var(found.plain[:, 0]) > 0.5


@pytest.mark.parametrize("name", ["kuhn_poker", "dice", "three"])
def test_the_episodes_are_those_of_plain_play(name):
    game = GAMES[name]
    policies = random_policies(game)
    keys = jax.random.split(jax.random.key(1), 64)
    value = wrong(game)

    @jax.jit
    def play_all(keys):
        plays = (play_episode, make_recorded_play(value), make_corrected_play(value))
        return [jax.vmap(lambda key, play=play: play(key, game, policies))(jax.random.clone(keys)) for play in plays]

    plain, recorded, corrected = play_all(keys)
    np.testing.assert_array_equal(plain.returns, recorded.plain)
    np.testing.assert_array_equal(plain.length, corrected.length)
    np.testing.assert_array_equal(plain.length, recorded.length)
    np.testing.assert_array_equal(recorded.targets.played.sum(axis=1), plain.length)
    np.testing.assert_allclose(recorded.returns, corrected.returns, rtol=1e-4, atol=1e-3)
    assert np.abs(corrected.returns - plain.returns).max() > 0.1


@pytest.mark.parametrize("name", ["kuhn_poker", "dice"])
def test_views_ask_the_critic_in_the_game_s_own_order(name):
    """From the last player's view the same key gives the same episode, whose seats are permuted."""
    game = GAMES[name]
    last = num_players(game) - 1
    seen = view(game, last)
    policies = random_policies(game)
    keys = jax.random.split(jax.random.key(1), 64)

    def same_noise(key, game, policies, **options):
        """Policies that do not look at their noise: pure ones, so that the permuted noise does not matter."""
        pure = tuple(Policy(100.0 * policy.params, policy.apply) for policy in policies)
        return make_recorded_play(wrong(GAMES[name]), **options)(key, game, pure)

    @jax.jit
    def both(keys):
        own = jax.vmap(lambda key: same_noise(key, game, policies))(keys)
        order = (last, *range(last))
        permuted = tuple(policies[player] for player in order)
        return own, jax.vmap(lambda key: same_noise(key, seen, permuted))(jax.random.clone(keys))

    own, other = both(keys)
    np.testing.assert_allclose(own.plain[:, np.asarray(seen.seats)], other.plain)
    np.testing.assert_allclose(own.returns[:, np.asarray(seen.seats)], other.returns, rtol=1e-4, atol=1e-3)
    chex.assert_trees_all_close(own.targets, other.targets, rtol=1e-4, atol=1e-3)


def test_groups_and_joint_play_take_the_corrected_play_with_context():
    """Tables by index and networks in groups, with the policies' slots as context of the value."""
    game = GAMES["kuhn_poker"]
    network = infoset_policy(game)
    logits = jax.random.normal(jax.random.key(0), (2, 3, *network.legal.shape))
    indices = jnp.asarray([[0, 1], [2, 2], [1, 0]])
    context = jnp.broadcast_to(indices[:, None], (3, 4, 2)).astype(jnp.float32)
    play = make_corrected_play(lambda state, slots: slots * state.observation.sum() - 1.0)
    stacked = StackedPolicies(logits, network)
    unindexed = StackedPolicies(logits, lambda phi, seen, legal: network(phi, seen, legal))

    @jax.jit
    def measure(key):
        found = [play_joint(play, key, game, one, indices, 4, (context,)) for one in (stacked, unindexed)]
        grouped = play_groups(play, key, game, StackedPolicies(logits[0], network), stacked, indices[:, None], 4,
                              lanes=(context[:, None],))  # fmt: skip
        return (*found, grouped)

    with jax.debug_key_reuse(False):
        first, second, grouped = measure(jax.random.key(5))
    np.testing.assert_allclose(first.returns, second.returns, atol=1e-4)
    assert first.returns.shape == (3, 4, 2) and grouped.returns.shape == (3, 1, 4, 2)
    assert np.unique(np.asarray(first.returns)).size > 12


def test_a_table_learns_the_values_of_kuhn():
    game = GAMES["kuhn_poker"]
    policies = random_policies(game)
    critic = make_tabular_critic(game)

    @jax.jit
    def measure():
        state = critic.init(jax.random.key(0))
        for number in range(2):
            play = partial(critic, state.params)
            recorded = recorded_episodes(game, policies, play, 2000, seed=number)
            state, loss = critic.train(state, jax.random.key(0), recorded.targets, retained=0.0)
        after = recorded_episodes(game, policies, partial(critic, state.params), 1000, seed=7)
        return after, loss

    after, loss = measure()
    assert loss.shape == (1,)
    assert np.var(after.returns[:, 0]) < 0.02 * np.var(after.plain[:, 0])


def test_games_that_cannot_be_branched_are_refused():
    play = make_corrected_play(lambda state: jnp.zeros(1))
    tag = make_game("simple_tag", continuous=True)
    with pytest.raises(ValueError, match="continuous actions"):
        play(jax.random.key(0), tag, ())
    hosted = make_game("pz:connect_four_v3")
    with pytest.raises(ValueError, match="runs in Python"):
        play(jax.random.key(0), hosted, ())
