"""Deceptive Messages: every entry of the table of exact facts, then the game's own promises, then that it is learnt."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from gems_jax import make_solver, preset
from gems_jax.evaluate import choice_rates, exploitability, nash_conv, player_gains, player_values
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.extensive.values import (
    best_response_values,
    build_tree,
    expected_returns,
    player_gains_of_tables,
    uniform_table,
)
from gems_jax.games import make_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Profile

GAMES = {
    "fixed": {},
    "random": {"mode": "random"},
    "random 3": {"mode": "random", "arms": 3, "means": (0.8, 0.3, 0.1)},
}
FACTS = {  # matrix shape, uniform play (S, R), babbling and the best reply's value, pure Nash payoffs, zero-sum value
    "fixed": ((4, 256), (0.25, 0.50), 0.8, {(0.0, 0.8)}, 0.8),
    "random": ((64, 256), (0.25, 0.45), 1.6 / 3, {(0.0, 0.5333), (0.0, 0.6667), (0.0, 0.8)}, 1.6 / 3),
    "random 3": ((9, 27), (1 / 3, 0.40), 0.55, {(0.0, 0.55), (0.0, 0.8)}, 0.55),
}
UNIFORM_GAINS = {"fixed": (0.0, 0.3), "random": (0.0, 0.25 / 3), "random 3": (0.0, 0.15)}


def game_of(which, **options):
    return make_game("deceptive_messages", **GAMES[which], **options)


def tables(game, message=None, arm=None):
    """[2, I, A]: the Sender plays message[best arm], the Receiver arm[message]; uniform where nothing is said."""
    tree = build_tree(game)
    table = np.asarray(uniform_table(tree)).copy()
    for row, (seat, seen) in enumerate(zip(np.asarray(tree.seat), np.asarray(tree.observation), strict=True)):
        choice = (message, arm)[seat]
        if choice is not None:
            table[row] = np.eye(game.arms)[choice[int(seen[: game.arms].argmax())]]
    return jnp.asarray(np.stack([table, table]), jnp.float32)


def values(game, message=None, arm=None):
    return np.asarray(expected_returns(build_tree(game), tables(game, message, arm)))


def truthful(game):
    return dict.fromkeys(range(game.arms)) | {best: best for best in game.best_arms}


def always(game, choice):
    return dict.fromkeys(range(game.arms), choice)


@pytest.fixture(scope="module")
def matrices():
    """{which: [Sender's strategies, Receiver's strategies, 2]}, all pure strategies against all."""
    found = {}
    for which in GAMES:
        game = game_of(which)
        tree, arms = build_tree(game), range(game.arms)
        messages = [
            dict(zip(game.best_arms, m, strict=True)) for m in itertools.product(arms, repeat=len(game.best_arms))
        ]
        replies = [dict(enumerate(r)) for r in itertools.product(arms, repeat=game.arms)]
        senders = jnp.stack([tables(game, message=m)[0] for m in messages])
        receivers = jnp.stack([tables(game, arm=r)[1] for r in replies])
        against = lambda s, r, tree=tree: expected_returns(tree, jnp.stack([s, r]))  # noqa: E731
        play = jax.jit(jax.vmap(jax.vmap(against, in_axes=(None, 0)), in_axes=(0, None)))
        found[which] = np.asarray(play(senders, receivers), np.float64)
    return found


# --- the table of exact facts


@pytest.mark.parametrize("which", GAMES)
def test_pure_strategies_and_their_equilibria(matrices, which):
    payoffs = matrices[which]
    shape, _, _, equilibria, _ = FACTS[which]
    assert payoffs.shape == (*shape, 2)
    best_sender = payoffs[..., 0] >= payoffs[..., 0].max(axis=0, keepdims=True) - 1e-6
    best_receiver = payoffs[..., 1] >= payoffs[..., 1].max(axis=1, keepdims=True) - 1e-6
    found = {tuple(np.abs(pair).round(4).tolist()) for pair in payoffs[best_sender & best_receiver]}
    assert found == equilibria


@pytest.mark.parametrize("which", GAMES)
def test_named_profiles(which):
    game = game_of(which)
    _, uniform, babbling, _, _ = FACTS[which]
    credulous, low = {m: m for m in range(game.arms)}, game.means[-1]
    np.testing.assert_allclose(values(game), uniform, atol=1e-6)
    np.testing.assert_allclose(values(game, truthful(game), credulous), (0.0, 0.8), atol=1e-6)
    np.testing.assert_allclose(values(game, always(game, game.target), credulous), (1.0, low), atol=1e-6)
    # babbling: the Sender's message says nothing, uniform or always the same
    tree = build_tree(game)
    for message in (None, always(game, 1)):
        best = best_response_values(tree, tables(game, message)[:, None], jnp.ones((2, 1)))[1]
        np.testing.assert_allclose(best, babbling, atol=1e-6)


@pytest.mark.parametrize("which", GAMES)
def test_gains_of_uniform_play(which):
    game = game_of(which)
    gains = player_gains_of_tables(build_tree(game), tables(game))
    np.testing.assert_allclose(gains, UNIFORM_GAINS[which], atol=1e-6)


@pytest.mark.parametrize("which", GAMES)
def test_value_of_the_zero_sum_game(matrices, which):
    """max over Receiver mixtures of the worst pure Sender, by linear programming on the general game's Receiver."""
    receiver = matrices[which][..., 1]
    senders, receivers = receiver.shape
    answer = linprog(
        np.append(np.zeros(receivers), -1.0),
        A_ub=np.concatenate([-receiver, np.ones((senders, 1))], axis=1),
        b_ub=np.zeros(senders),
        A_eq=np.append(np.ones(receivers), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * receivers + [(None, None)],
    )
    np.testing.assert_allclose(-answer.fun, FACTS[which][4], atol=1e-6)
    # ... and the zero-sum game pays the Receiver the same, its loss to the Sender
    game = game_of(which, reward_mode="zero_sum")
    assert game.zero_sum and game.return_bounds == (-1.0, 1.0)
    np.testing.assert_allclose(values(game), np.array([-1, 1]) * FACTS[which][1][1], atol=1e-6)


# --- mixtures


def mixture(game, senders, receivers, sigma):
    """A profile of tabular policies: pure messages and replies as in `tables`, weights sigma [2, 2]."""
    network = infoset_policy(game)
    rows = [tables(game, m, r)[0] for m, r in zip(senders, receivers, strict=True)]
    tree = build_tree(game)
    order = [int(np.argmax((np.asarray(tree.observation) == seen).all(axis=1))) for seen in network.observations]
    logits = jnp.stack([jnp.log(row[jnp.asarray(order)] + 1e-20) for row in rows])
    population = StackedPolicies(jnp.stack([logits, logits]), network)
    return Profile(population, jnp.asarray(sigma, jnp.float32))


def test_a_mixture_by_hand():
    """Half the Senders lie; a quarter of the Receivers believe, the others pull the best arm."""
    game = game_of("fixed")
    credulous = {m: m for m in range(4)}
    profile = mixture(game, [truthful(game), always(game, 3)], [always(game, 0), credulous], [[0.5, 0.5], [0.75, 0.25]])
    np.testing.assert_allclose(player_values(game, profile), (0.25 * 0.5, 0.75 * 0.8 + 0.25 * 0.5), atol=1e-6)
    np.testing.assert_allclose(player_gains(game, profile), (0.25 - 0.125, 0.8 - 0.725), atol=1e-6)
    np.testing.assert_allclose(nash_conv(game, profile), 0.2, atol=1e-6)
    rates = {name: float(rate) for name, rate in choice_rates(game, profile).items()}
    assert rates == pytest.approx({f"target_after_{m}": 0.25 * (m == 3) for m in range(4)}, abs=1e-6)
    zero_sum = game_of("fixed", reward_mode="zero_sum")
    # a Sender who hurts the believers says 3 to everybody: 0.75 * 0.8 + 0.25 * 0.2; the best reply earns 0.8
    np.testing.assert_allclose(exploitability(zero_sum, profile), (0.8 - 0.65) / 2, atol=1e-6)


# --- the game


def test_one_episode_by_hand():
    game = game_of("random", target=0)
    state = game.deals()[0]
    start = jax.tree.map(lambda leaf: leaf[1], state)  # the second of the arms 1, 2, 3 is best
    np.testing.assert_array_equal(start.observation, [[0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(start.to_move, [True, False])
    np.testing.assert_allclose(game.arm_means(start.inner.best), [0.2, 0.4, 0.8, 0.4])
    told = game.step(start, jnp.array([3, 1]), jax.random.key(0))
    np.testing.assert_array_equal(told.observation[1], [0, 0, 0, 1, 0, 1])
    np.testing.assert_array_equal(told.to_move, [False, True])
    assert not told.reward.any() and not told.done
    for arm, mean in enumerate((0.2, 0.4, 0.8, 0.4)):
        over = game.expected_step(told, jnp.array([0, arm]))
        np.testing.assert_allclose(over.reward, (arm == 0, mean))
        assert over.terminated and not over.truncated


@pytest.mark.parametrize("reward_mode", ["general", "zero_sum"])
def test_rewards_are_drawn_with_the_mean_of_the_expected_step(reward_mode):
    game = game_of("fixed", reward_mode=reward_mode)
    told = game.step(game.init(jax.random.key(0)), jnp.array([2, 0]), jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), 4096)
    paid = jax.jit(jax.vmap(lambda arm: jax.vmap(lambda key: game.step(told, jnp.stack([arm, arm]), key).reward)(keys)))
    rewards = np.asarray(paid(jnp.arange(4)))  # [arm, draw, 2]
    assert set(np.unique(rewards[..., 1])) == {0.0, 1.0}
    for arm in range(4):
        expected = game.expected_step(told, jnp.full(2, arm)).reward
        # Hoeffding: off by more than 0.05 with probability 2 exp(-2 * 4096 * 0.0025) < 3e-9
        np.testing.assert_allclose(rewards[arm].mean(axis=0), expected, atol=0.05)
    if reward_mode == "zero_sum":
        np.testing.assert_array_equal(rewards.sum(axis=-1), 0.0)
    else:
        np.testing.assert_array_equal(rewards[..., 0], np.repeat(np.eye(4)[3][:, None], 4096, axis=1))


def test_spelled_out_and_by_default_are_one_game():
    assert game_of("fixed") == make_game("deceptive_messages", means=(0.8, 0.6, 0.4, 0.2), target=3)
    assert hash(game_of("fixed")) == hash(make_game("deceptive_messages", means=[0.8, 0.6, 0.4, 0.2]))
    assert game_of("fixed") != game_of("fixed", target=2)
    assert game_of("fixed", arms=2).means == (0.8, 0.2) and game_of("random", target=1).best_arms == (0, 2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fxied"}, "mode must be one of fixed, random, got 'fxied'"),
        ({"reward_mode": "zero"}, "reward_mode must be one of general, zero_sum"),
        ({"arms": 1}, "arms must be an integer of at least 2, got 1"),
        ({"target": 4}, "target must be one of the 4 arms"),
        ({"target": 0}, "target must not be the best arm, got 0"),
        ({"means": (0.8, 0.4, 0.2)}, "one per arm, 4"),
        ({"means": (0.8, 0.4, 0.2, 1.2)}, "from 0 to 1"),
        ({"means": "high"}, "means must be numbers"),
        ({"means": (0.8, 0.8, 0.4, 0.2)}, "a unique maximum"),
        ({"mode": "random", "means": (0.4, 0.8, 0.2)}, "highest for the first"),
        ({"mode": "random", "means": (0.8, 0.6, 0.4, 0.2)}, "three, of the best arm"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_game("deceptive_messages", **options)


# --- learning


@pytest.mark.slow
def test_the_receiver_learns_not_to_listen():
    """The tuned preset on smaller batches, four of its six iterations (12 seeds of 12 tried end at 0.8)."""
    game = game_of("fixed")
    config = preset("deceptive_messages", "tuned").replace(
        capacity=5, mutations=4, randoms=4, meta_steps=20, abr_steps=40, abr_opponents=256
    )
    solver = make_solver("gems", game, config)

    @jax.jit
    def learn(key):
        key_start, key_run = jax.random.split(key)
        return jax.lax.scan(solver.step, solver.init(key_start), jax.random.split(key_run, 4))[0]

    profile = solver.profile(learn(jax.random.key(3)))
    sender, receiver = player_values(game, profile)
    assert sender <= 0.01 and receiver >= 0.79
    assert max(choice_rates(game, profile).values()) <= 0.05  # after messages that nobody sends, too
