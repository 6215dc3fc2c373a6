"""The error budget: worked by hand on a matrix game, then the identity on random populations and degenerate pools."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.evaluate.error_budget import error_budget
from gems_jax.extensive.values import build_tree, population_mean, values_against
from gems_jax.games import make_game

TERMS = ("best_response_gap", "oracle_gap", "newcomer_gain", "meta_regret")


@partial(jax.jit, static_argnums=2)
def random_tables(tree, key, leading):
    draws = jax.random.uniform(key, (*leading, *tree.legal.shape)) ** 5 * tree.legal[(None,) * len(leading)]
    return draws / draws.sum(axis=-1, keepdims=True)


def check_identity(budget):
    terms = np.stack([np.asarray(getattr(budget, term)) for term in TERMS])
    assert (terms >= 0).all()
    np.testing.assert_allclose(terms.sum(axis=0), budget.total, atol=1e-5)


def test_by_hand():
    """Rock-paper-scissors against always rock: rock earns 0, scissors -1, half-paper 1/2, paper 1 = BR."""
    tree = build_tree(make_game("rock_paper_scissors"))
    rock, paper, scissors = jnp.eye(3)
    everywhere = lambda *rows: jnp.stack([jnp.stack([row, row]) for row in rows])  # [K, I, A]  # noqa: E731
    anchors = jnp.stack([everywhere(rock, scissors)] * 2)
    pool = jnp.stack([everywhere(scissors, 0.5 * rock + 0.5 * paper, 0.25 * rock + 0.75 * paper)] * 2)
    budget = error_budget(
        tree,
        tables_anchors=anchors,
        active=jnp.ones((2, 2), bool),
        # The first player still plays scissors a quarter of the time; the second one plays rock.
        sigma=jnp.array([[0.75, 0.25], [1.0, 0.0]]),
        tables_pool=pool,
        chosen=jnp.array([1, -1]),
        estimated_values=jnp.array([[0.1, -1.5], [0.25, 1.0]]),
    )
    # first player: v = (0, -1), u = -1/4, f(pool) = (-1, 1/2, 3/4), BR = 1
    np.testing.assert_allclose(budget.total[0], 1.25, atol=1e-6)
    expected = {"best_response_gap": 0.25, "oracle_gap": 0.25, "newcomer_gain": 0.5, "meta_regret": 0.25}
    for term, number in expected.items():
        np.testing.assert_allclose(getattr(budget, term)[0], number, atol=1e-6)
    np.testing.assert_allclose(budget.monte_carlo_error[0], 0.5, atol=1e-6)
    # second player, against 3/4 rock and 1/4 scissors: rock 1/4, paper 1/2, scissors -3/4; u = 1/4; nothing was added;
    # the mixtures of rock and paper earn 3/8 and 7/16
    np.testing.assert_allclose(budget.total[1], 0.25, atol=1e-6)
    expected = {"best_response_gap": 1 / 16, "oracle_gap": 3 / 16, "newcomer_gain": 0.0, "meta_regret": 0.0}
    for term, number in expected.items():
        np.testing.assert_allclose(getattr(budget, term)[1], number, atol=1e-6)
    np.testing.assert_allclose(budget.monte_carlo_error[1], 1.75, atol=1e-6)  # |1 - (-3/4)|


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem", "matrix", "shared"])
def test_the_terms_add_up(name):
    if name == "matrix":
        payoffs = np.random.default_rng(0).normal(size=(3, 2, 4, 3))  # three players, general-sum
        tree = build_tree(make_game("matrix", payoffs=payoffs))
    elif name == "shared":
        tree = build_tree(make_game("kuhn_poker", shared=True))
    else:
        tree = build_tree(make_game(name))
    populations, k, c, n = tree.num_populations, 4, 5, 6
    keys = jax.random.split(jax.random.key(0), 4)
    anchors, pools = (
        random_tables(tree, keys[0], (n, populations, k)),
        random_tables(tree, keys[1], (n, populations, c)),
    )
    active = jnp.broadcast_to(jnp.array([True, True, True, False]), (populations, k))
    sigma = jax.random.dirichlet(keys[2], jnp.ones(3), (n, populations))
    sigma = jnp.concatenate([sigma, jnp.zeros((n, populations, 1))], axis=-1)
    estimates = jax.random.normal(keys[3], (n, populations, k))
    chosen = (jnp.arange(n)[:, None] + jnp.arange(populations)[None]) % (c + 1) - 1

    def measure(anchors, sigma, pool, chosen, estimates):
        return error_budget(
            tree,
            tables_anchors=anchors,
            active=active,
            sigma=sigma,
            tables_pool=pool,
            chosen=chosen,
            estimated_values=estimates,
        )

    budgets = jax.vmap(measure)(anchors, sigma, pools, chosen, estimates)
    for i in range(n):
        check_identity(jax.tree.map(lambda leaf, i=i: leaf[i], budgets))
    alone = measure(anchors[1], sigma[1], pools[1], chosen[1], estimates[1])
    jax.tree.map(lambda one, many: np.testing.assert_allclose(one, many[1], atol=1e-5), alone, budgets)
    values = population_mean(tree, values_against(tree, anchors[1], anchors[1], sigma[1]))
    error = np.abs(values - estimates[1])[:, :3].max(axis=1)  # the fourth slot is empty
    np.testing.assert_allclose(alone.monte_carlo_error, error[list(tree.population_of_player)], atol=1e-5)


@pytest.mark.parametrize("case", ["empty", "nothing chosen", "only anchors", "equilibrium"])
def test_degenerate_pools(case):
    tree = build_tree(make_game("kuhn_poker"))
    anchors = random_tables(tree, jax.random.key(1), (2, 3))
    pool, chosen, sigma = random_tables(tree, jax.random.key(2), (2, 3)), jnp.array([-1, -1]), jnp.full((2, 3), 1 / 3)
    if case == "empty":
        pool = pool[:, :0]
    if case == "only anchors":
        pool, chosen = anchors, jnp.array([2, 0])
    if case == "equilibrium":  # of a game that has one in pure strategies
        tree = build_tree(make_game("prisoners_dilemma"))
        anchors = jnp.broadcast_to(jnp.array([0.0, 1.0]), (2, 1, 2, 2))
        pool, chosen, sigma = 1 - anchors, jnp.array([0, 0]), jnp.ones((2, 1))
    budget = error_budget(
        tree,
        tables_anchors=anchors,
        active=jnp.ones(sigma.shape, bool),
        sigma=sigma,
        tables_pool=pool,
        chosen=chosen,
        estimated_values=jnp.zeros(sigma.shape),
    )
    check_identity(budget)
    np.testing.assert_array_equal(budget.newcomer_gain, 0)
    if case in ("empty", "only anchors"):
        np.testing.assert_array_equal(budget.oracle_gap, 0)
    if case == "equilibrium":
        np.testing.assert_array_equal(budget.total, 0)
    else:
        assert (np.asarray(budget.total) > 0.01).all()
