"""Public goods: the closed forms, the equilibria by enumeration, mixtures of many anchors, and that it is learnt."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from gems_jax import make_solver, preset
from gems_jax.evaluate import choice_rates, nash_conv, player_gains, player_values, welfare
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.extensive.values import build_tree, expected_returns, player_gains_of_tables
from gems_jax.games import make_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Profile

KEY = jax.random.key(0)


def payoffs(game, actions):
    return np.asarray(game.step(game.init(KEY), jnp.asarray(actions, jnp.int32), KEY).reward)


def tables(game, cooperate):
    """[players, I, A] from cooperation probabilities [players]: player i plays its own everywhere."""
    sets = build_tree(game).num_infosets
    q = jnp.asarray(cooperate, jnp.float32)
    return jnp.broadcast_to(jnp.stack([1 - q, q], axis=-1)[:, None], (game.n, sets, 2))


def mixture(game, cooperate, sigma):
    """A profile of policies that cooperate with probability cooperate [P, K], whatever they see."""
    network = infoset_policy(game)
    logit = jnp.log(cooperate) - jnp.log1p(-cooperate)
    rows = jnp.stack([jnp.zeros_like(logit), logit], axis=-1)[:, :, None]  # [P, K, 1, 2]
    return Profile(StackedPolicies(jnp.repeat(rows, len(network.observations), axis=2), network), sigma)


def gains_by_hand(game, q):
    marginal = game.r / game.n - np.asarray(game.c)  # of contributing, for oneself
    return np.where(marginal > 0, marginal * (1 - q), -marginal * q)


# --- closed forms


def test_payoffs_by_hand():
    game = make_game("public_goods")
    assert (game.n, game.r, game.c) == (5, 3.0, (1.0,) * 5)
    np.testing.assert_allclose(payoffs(game, [0] * 5), 0.0)
    np.testing.assert_allclose(payoffs(game, [1] * 5), 2.0)
    np.testing.assert_allclose(payoffs(game, [1, 0, 0, 0, 0]), [-0.4, 0.6, 0.6, 0.6, 0.6], rtol=1e-6)
    np.testing.assert_allclose(payoffs(game, [0, 1, 1, 1, 1]), [2.4, 1.4, 1.4, 1.4, 1.4], rtol=1e-6)
    assert game.return_bounds == pytest.approx((-0.4, 2.4))  # both ends are reached
    unequal = make_game("public_goods", n=3, r=1.5, c=[0, 1, 2])
    np.testing.assert_allclose(payoffs(unequal, [1, 0, 1]), [1.0, 1.0, -1.0])
    assert unequal.return_bounds == pytest.approx((-1.5, 1.5))


@pytest.mark.parametrize(
    ("r", "q", "total", "gap"),
    [
        (3.0, 0.0, 0.0, 0.0),  # all defect: the equilibrium of the dilemma
        (3.0, 1.0, 10.0, 2.0),  # (c - r/n) n
        (3.0, 0.5, 5.0, 1.0),
        (6.0, 1.0, 25.0, 0.0),  # the control: all cooperate
        (6.0, 0.5, 12.5, 0.5),
        (6.0, 0.0, 0.0, 1.0),
    ],
)
def test_everybody_alike(r, q, total, gap):
    game = make_game("public_goods", r=r)
    tree = build_tree(game)
    np.testing.assert_allclose(expected_returns(tree, tables(game, [q] * 5)).sum(), total, atol=1e-5)
    np.testing.assert_allclose(player_gains_of_tables(tree, tables(game, [q] * 5)).sum(), gap, atol=1e-5)


@pytest.mark.parametrize(("n", "r", "c"), [(5, 3.0, 1.0), (5, 6.0, 1.0), (2, 1.5, 1.0), (4, 2.0, (0.1, 0.5, 1.0, 3.0))])
def test_closed_forms_at_random_probabilities(n, r, c):
    game = make_game("public_goods", n=n, r=r, c=c)
    tree, cost = build_tree(game), np.broadcast_to(np.asarray(c), (n,))
    for q in np.random.default_rng(0).uniform(size=(3, n)):
        returns = np.asarray(expected_returns(tree, tables(game, q)))
        np.testing.assert_allclose(returns, r / n * q.sum() - cost * q, atol=1e-5)
        np.testing.assert_allclose(returns.sum(), r * q.sum() - (cost * q).sum(), atol=1e-5)
        np.testing.assert_allclose(player_gains_of_tables(tree, tables(game, q)), gains_by_hand(game, q), atol=1e-5)


@pytest.mark.parametrize(("r", "everybody"), [(3.0, 0), (6.0, 1)])
def test_one_equilibrium_pure_or_correlated(r, everybody):
    """By enumeration of the 32 profiles, and by the linear programs of coarse correlated equilibrium."""
    game = make_game("public_goods", r=r)
    profiles = list(itertools.product((0, 1), repeat=5))
    earned = np.asarray(jax.vmap(lambda a: game.step(game.init(KEY), a, KEY).reward)(jnp.asarray(profiles, jnp.int32)))
    place = {profile: row for row, profile in enumerate(profiles)}
    # [32, 5, 2]: what player i would earn by playing a instead
    instead = np.array(
        [[[earned[place[p[:i] + (a,) + p[i + 1 :]], i] for a in (0, 1)] for i in range(5)] for p in profiles]
    )
    stable = [p for p, row, own in zip(profiles, instead, earned, strict=True) if (row.max(axis=1) <= own + 1e-6).all()]
    assert stable == [(everybody,) * 5]
    regret = (instead - earned[:, :, None]).reshape(32, 10).T  # no action a is better throughout
    cooperation = np.sum(profiles, axis=1)
    for sign in (1.0, -1.0):  # the least and the most cooperation of all such equilibria
        answer = linprog(sign * cooperation, A_ub=regret, b_ub=np.zeros(10), A_eq=np.ones((1, 32)), b_eq=[1.0])
        np.testing.assert_allclose(sign * answer.fun, 5 * everybody, atol=1e-4)


# --- mixtures


@pytest.mark.parametrize("shared", [False, True])
def test_a_mixture_is_its_mean_cooperation(shared):
    """A policy moves once, so a mixture of 64 anchors plays sigma . q."""
    game = make_game("public_goods", shared=shared)
    rng, populations = np.random.default_rng(1), 1 if shared else 5
    cooperate = rng.uniform(0.01, 0.99, (populations, 64))
    sigma = rng.dirichlet(np.ones(64), populations)
    profile = mixture(game, jnp.asarray(cooperate, jnp.float32), jnp.asarray(sigma, jnp.float32))
    q = np.broadcast_to((sigma * cooperate).sum(axis=1), (5,))
    np.testing.assert_allclose(player_values(game, profile), 0.6 * q.sum() - q, atol=1e-5)
    np.testing.assert_allclose(welfare(game, profile), 2 * q.sum(), atol=1e-5)
    np.testing.assert_allclose(player_gains(game, profile), 0.4 * q, atol=1e-5)
    np.testing.assert_allclose(nash_conv(game, profile), 0.4 * q.sum(), atol=1e-5)
    np.testing.assert_allclose(choice_rates(game, profile)["coop"], q.mean(), atol=1e-6)
    if shared:  # U(i, sigma) = (r/n) (q_i + (n - 1) qbar) - c q_i needs no tensor
        assert infoset_policy(game).observations.shape == (1, 1)


# --- the game


def test_declared():
    game = make_game("public_goods")
    assert (game.num_seats, game.num_actions, game.max_steps, game.simultaneous) == (5, 2, 1, True)
    assert game.population_of_player == (0, 1, 2, 3, 4) and game.observation_shape == (5,)
    shared = make_game("public_goods", shared=True)
    assert shared.population_of_player == (0,) * 5 and shared.observation_shape == (1,)
    assert game == make_game("public_goods", r=3, c=[1] * 5) and hash(game) == hash(make_game("public_goods", c=1))
    assert game != shared and game != make_game("public_goods", c=0.5)


def test_forty_players_need_no_tensor():
    game = make_game("public_goods", n=40)
    np.testing.assert_allclose(payoffs(game, [1] * 40), 2.0, rtol=1e-5)
    assert infoset_policy(game).observations.shape == (40, 40)  # its 2^40 ends are never walked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1}, "n must be an integer of at least 2, got 1"),
        ({"r": 0.0}, "r must be above 0"),
        ({"c": -1.0}, "every c at least 0"),
        ({"c": float("nan")}, "every c at least 0"),
        ({"c": (1.0, 2.0)}, "c one or 5 numbers"),
        ({"r": "much"}, "r must be a number"),
        ({"c": (1.0, 1.0, 1.0, 1.0, 2.0), "shared": True}, "exchangeable"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_game("public_goods", **options)


# --- learning


@pytest.mark.slow
def test_cooperation_goes_where_the_dominant_action_is():
    """The tuned preset, four of its ten iterations. For one of the players contributing pays, for the others it costs.

    So both directions are one program: a gain is 0.4 times the probability of the wrong action (12 seeds of 12 tried
    end below 1e-3).
    """
    game = make_game("public_goods", n=3, r=1.8, c=(0.2, 1.0, 1.0))
    config = preset("public_goods", "tuned").replace(capacity=6, mutations=4, randoms=4, meta_steps=20)
    solver = make_solver("gems", game, config)

    @jax.jit
    def learn(key):
        key_start, key_run = jax.random.split(key)
        return jax.lax.scan(solver.step, solver.init(key_start), jax.random.split(key_run, 4))[0]

    profile = solver.profile(learn(jax.random.key(3)))
    assert (np.asarray(player_gains(game, profile)) < 0.4 * 0.05).all()
    np.testing.assert_allclose(choice_rates(game, profile)["coop"], 1 / 3, atol=0.05)
