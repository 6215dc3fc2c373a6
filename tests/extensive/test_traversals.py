"""Histories and sampled counterfactual regrets: exact values first, then that every estimator is unbiased."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.counterfactual import counterfactual_values
from gems_jax.extensive.histories import build_histories
from gems_jax.extensive.traversals import draw_deal, sample_traversal
from gems_jax.extensive.values import build_tree, expected_returns, reach, uniform_table

THREE = make_game("matrix", payoffs=np.random.default_rng(0).normal(size=(3, 2, 2, 2)))
GAMES = {
    "kuhn": make_game("kuhn_poker"),
    "biased_rps": make_game("biased_rps"),
    "three players": THREE,
    "chance after moves": make_game("openspiel:leduc_poker(suit_isomorphism=True)"),
}


def random_policy(tree, seed=0):
    draws = tree.legal * jax.random.uniform(jax.random.key(seed), tree.legal.shape, minval=0.1)
    return draws / draws.sum(axis=1, keepdims=True)


@functools.cache
def exact(name):
    """The tree, a policy, its exact regrets [I, A] by CFR's own sums, and its exact values [D, M, K, players]."""
    tree, (histories, deals) = build_tree(GAMES[name]), build_histories(GAMES[name])
    policy = random_policy(tree)
    values = counterfactual_values(tree, policy, reach(tree, policy))
    regrets = np.asarray(jnp.where(tree.legal, values - (policy * values).sum(axis=1, keepdims=True), 0.0))
    return tree, histories, deals, policy, regrets, exact_baseline(histories, np.asarray(policy))


def exact_baseline(histories, policy):
    """Values behind every slot, by recursion in numpy, children before parents."""
    numpy = jax.tree.map(np.asarray, histories)
    here, behind = numpy.payoff.astype(float), np.zeros((*numpy.open.shape, numpy.payoff.shape[-1]))
    for deal, node in np.argwhere(numpy.exists)[::-1]:
        for slot in np.nonzero(numpy.open[deal, node])[0]:
            behind[deal, node, slot] = here[deal, numpy.child[deal, node, slot]]
            decides = numpy.player[deal, node] >= 0
            chance = policy[numpy.infoset[deal, node], slot] if decides else numpy.chance[deal, node, slot]
            here[deal, node] += chance * behind[deal, node, slot]
    return behind


@functools.partial(jax.jit, static_argnames=("external", "count"))
def sample(key, histories, deals, policy, baseline, external, count):
    """Means over `count` traversals of each player: regrets, squares, how often not 0 [players, I, A]; steps, ends."""
    players = histories.payoff.shape[-1]

    def one(key, player):
        key_deal, key_walk = jax.random.split(key)
        number = draw_deal(key_deal, deals)
        deal = histories.take(number)
        control = None if baseline is None else baseline[number]
        found = sample_traversal(key_walk, deal, policy, player, None if external else 0.6, control)
        met = (found.regrets != 0).astype(jnp.float32)
        return found.regrets, found.regrets**2, met, found.env_steps, found.episodes

    def block(sums, key):
        keys = jax.random.split(key, (players, 100))
        found = jax.vmap(jax.vmap(one, (0, None)))(keys, jnp.arange(players))
        return jax.tree.map(lambda total, new: total + new.sum(axis=1), sums, found), None

    tables, counts = jnp.zeros((players, *policy.shape)), jnp.zeros(players, jnp.int32)
    start = (tables, tables, tables, counts, counts)
    sums, _ = jax.lax.scan(block, start, jax.random.split(key, count // 100))
    return jax.tree.map(lambda total: total / count, sums)


def moments(name, external, baseline, count):
    """Mean and variance [I, A] of the estimates at each player's own information sets, and how many were not 0."""
    tree, histories, deals, policy, _, _ = exact(name)
    control = None if baseline is None else jnp.asarray(baseline, jnp.float32)
    found = sample(jax.random.key(0), histories, deals, policy, control, external, count)
    mean, square, met = map(np.asarray, found[:3])
    for player in range(tree.num_players):
        assert (mean[player, np.asarray(tree.seat) != player] == 0).all()
    return mean.sum(axis=0), square.sum(axis=0) - mean.sum(axis=0) ** 2, count * met.sum(axis=0)


@pytest.mark.parametrize("name", GAMES)
def test_histories_are_the_game(name):
    """As many ends as the sequence form, and the same value of a random policy, from quite another sum."""
    tree, histories, deals, policy, _, behind = exact(name)
    assert int(histories.end.sum()) == tree.num_leaves
    np.testing.assert_allclose(deals.sum(), 1.0, atol=1e-6)
    first, deals = np.asarray(histories.infoset)[:, 0], np.asarray(deals)
    returns = np.einsum("d,da,dap->p", deals, np.asarray(policy)[first], behind[:, 0, : tree.num_actions])
    np.testing.assert_allclose(returns, expected_returns(tree, jnp.stack([policy] * tree.num_players)), atol=1e-5)


@pytest.mark.parametrize("external", [False, True], ids=["outcome", "external"])
@pytest.mark.parametrize("baseline", ["none", "wrong", "exact"])
@pytest.mark.parametrize(
    "name", [name if name in ("kuhn", "biased_rps") else pytest.param(name, marks=pytest.mark.slow) for name in GAMES]
)
def test_sampled_regrets_are_unbiased(name, baseline, external):
    """The mean of many traversals is CFR's exact regret within 5 standard errors, whatever the baseline."""
    tree, _, _, _, regrets, behind = exact(name)
    legal = np.asarray(tree.legal)
    wrong = 2.0 * np.random.default_rng(1).normal(size=behind.shape)
    control = {"none": None, "wrong": wrong, "exact": behind}[baseline]
    count = 2_000 if name == "chance after moves" else 10_000
    mean, variance, met = moments(name, external, control, count)
    often = met >= 50  # a standard error from a handful of visits means nothing
    assert often[legal].all() or (name == "chance after moves" and often.sum() > 50)
    assert (np.abs(mean - regrets) <= 5 * np.sqrt(np.maximum(variance, 0.0) / count) + 2e-5)[often].all()


@pytest.mark.parametrize("external", [False, True], ids=["outcome", "external"])
@pytest.mark.parametrize("name", ["kuhn", "biased_rps"])
def test_exact_values_as_baseline_leave_the_variance_of_being_there(name, external):
    """Where nothing of one's own comes before, the estimate is u(h, a) - u(h) if chance and the others lead to h.

    So E[r^2] = sum over h of their reach of h times (u(h, a) - u(h))^2: at the first move of a matrix game nothing is
    left to chance and the variance is 0.
    """
    tree, histories, deals, policy, regrets, behind = exact(name)
    _, with_exact, _ = moments(name, external, behind, 20_000)
    _, without, _ = moments(name, external, None, 20_000)
    assert with_exact.sum() < 0.9 * without.sum()
    numpy, table, deals = jax.tree.map(np.asarray, histories), np.asarray(policy), np.asarray(deals)
    for infoset in np.nonzero((np.asarray(tree.parent) >= tree.legal.size) & (np.asarray(tree.seat) == 0))[0]:
        worth = behind[:, 0, :, 0]
        gain = worth - (table[infoset] * worth).sum(axis=1, keepdims=True)
        square = (deals[:, None] * np.where((numpy.infoset[:, :1] == infoset), gain**2, 0.0)).sum(axis=0)
        expected = square - regrets[infoset] ** 2
        np.testing.assert_allclose(with_exact[infoset], expected, rtol=0.1, atol=1e-5)
        assert name == "kuhn" or (expected < 1e-6).all()


def test_steps_are_counted_by_hand():
    """Uniform play of Kuhn: 2.25 decisions an episode; external sampling walks 5 edges for seat 0, 3.5 for seat 1."""
    cases = [("kuhn", False, (2.25, 2.25), (1, 1)), ("kuhn", True, (5.0, 3.5), (2.5, 2.0))]
    cases += [("biased_rps", False, (1, 1), (1, 1)), ("biased_rps", True, (3, 3), (3, 3))]
    for name, external, lengths, ends in cases:
        tree, histories, deals, _, _, _ = exact(name)
        key, policy = jax.random.key(0), uniform_table(tree)
        *_, env_steps, episodes = sample(key, histories, deals, policy, None, external, 20_000)
        np.testing.assert_allclose([env_steps, episodes], [lengths, ends], rtol=0.02)
