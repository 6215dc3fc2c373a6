"""Drift of policies and values, and the effective number of policies, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.evaluate.forgetting import (
    effective_policies,
    infoset_choices,
    outside_reach,
    policy_drift,
    similarity,
    value_drift,
    visit_weights,
)
from gems_jax.extensive.values import anchor_values, build_tree, uniform_table
from gems_jax.games import make_game


@pytest.fixture(scope="module")
def kuhn():
    return build_tree(make_game("kuhn_poker"))


def everywhere(tree, bet):
    """Kuhn: bet (action 0) with one probability at every information set."""
    return jnp.broadcast_to(jnp.array([bet, 1 - bet]), tree.legal.shape)


def kuhn_kinds(tree):
    """Masks [I] of the four kinds of decision: first in, facing a bet after passing, after a pass, after a bet."""
    seen, seat = np.asarray(tree.observation), np.asarray(tree.seat)
    facing = seen[:, 7] + seen[:, 9] > 0  # the first or the second action was a bet
    return [(seat == owner) & (facing == bet) for owner, bet in ((0, False), (0, True), (1, False), (1, True))]


def test_outside_reach_of_kuhn(kuhn):
    """Each card comes up with probability 1/3; a uniform opponent bets or passes half of the time."""
    reached = outside_reach(kuhn)
    for kind, expected in zip(kuhn_kinds(kuhn), (1 / 3, 1 / 6, 1 / 6, 1 / 6), strict=True):
        np.testing.assert_allclose(reached[kind], expected, rtol=1e-5)


def test_visits_follow_the_players_own_moves(kuhn):
    first, second_thought, after_pass, after_bet = kuhn_kinds(kuhn)
    weights = visit_weights(kuhn, everywhere(kuhn, 1.0), 0)  # always bets: it never faces a bet after a pass
    np.testing.assert_allclose(weights[first], 1 / 3, rtol=1e-5)
    np.testing.assert_allclose(weights[~first], 0)
    weights = visit_weights(kuhn, everywhere(kuhn, 0.0), 0)  # always passes: half as many second decisions as first
    np.testing.assert_allclose(weights[first], 2 / 9, rtol=1e-5)
    np.testing.assert_allclose(weights[second_thought], 1 / 9, rtol=1e-5)
    weights = visit_weights(kuhn, everywhere(kuhn, 0.3), 1)
    np.testing.assert_allclose(weights[after_pass | after_bet], 1 / 6, rtol=1e-5)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)


def test_leduc_visits_ignore_sets_without_a_choice():
    tree = build_tree(make_game("leduc_holdem"))
    weights = visit_weights(tree, uniform_table(tree), 0)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
    assert (np.asarray(weights)[np.asarray(tree.seat) == 1] == 0).all()
    # At the first decision all three ranks are equally likely.
    roots = (np.asarray(tree.seat) == 0)[: tree.level_ends[0]]
    by_card = np.asarray(weights)[: tree.level_ends[0]][roots]
    np.testing.assert_allclose(by_card, by_card[0], rtol=1e-5)


def test_policy_drift_by_hand(kuhn):
    inserted = jnp.stack([jnp.stack([everywhere(kuhn, 0.5), everywhere(kuhn, 1.0)])] * 2)
    np.testing.assert_array_equal(policy_drift(kuhn, inserted, inserted), 0)
    now = jnp.stack([jnp.stack([everywhere(kuhn, 0.25), everywhere(kuhn, 0.5)])] * 2)
    half = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(policy_drift(kuhn, inserted, now), [[half, np.log(2)]] * 2, rtol=1e-5)


def test_drift_counts_only_where_the_policy_goes(kuhn):
    first, second_thought, _, _ = kuhn_kinds(kuhn)
    bets = everywhere(kuhn, 1.0)
    elsewhere = jnp.where(second_thought[:, None], everywhere(kuhn, 0.0), bets)
    drift = policy_drift(kuhn, jnp.stack([bets, bets])[:, None], jnp.stack([elsewhere, elsewhere])[:, None])
    np.testing.assert_allclose(drift, 0, atol=1e-6)
    here = jnp.where(first[:, None], everywhere(kuhn, 0.5), bets)
    drift = policy_drift(kuhn, jnp.stack([bets, bets])[:, None], jnp.stack([here, here])[:, None])
    np.testing.assert_allclose(drift, [[np.log(2)], [0]], rtol=1e-5, atol=1e-6)


def test_a_vanished_action_gives_a_large_but_finite_drift(kuhn):
    bets, passes = everywhere(kuhn, 1.0), everywhere(kuhn, 0.0)
    drift = policy_drift(kuhn, jnp.stack([bets, bets])[:, None], jnp.stack([passes, passes])[:, None])
    np.testing.assert_allclose(drift, -np.log(1e-9), rtol=1e-5)


def test_one_population_averages_its_players():
    tree = build_tree(make_game("kuhn_poker", shared=True))
    first, _, _, _ = kuhn_kinds(tree)
    bets = everywhere(tree, 1.0)
    moved = jnp.where(first[:, None], everywhere(tree, 0.5), bets)
    np.testing.assert_allclose(policy_drift(tree, bets[None, None], moved[None, None]), [[np.log(2) / 2]], rtol=1e-5)


def test_value_drift_by_hand():
    """Against rock, an anchor that turned from scissors into paper gained 2; one that stayed gained nothing."""
    tree = build_tree(make_game("rock_paper_scissors"))
    rock, paper, scissors = (jnp.broadcast_to(row, (2, 3)) for row in jnp.eye(3))
    inserted, now = (jnp.stack([jnp.stack(rows)] * 2) for rows in ([scissors, rock], [paper, rock]))
    fixed = jnp.stack([rock[None]] * 2)
    np.testing.assert_allclose(value_drift(tree, inserted, now, fixed, jnp.ones((2, 1))), [[2, 0]] * 2, atol=1e-6)
    sigma = jnp.full((2, 2), 0.5)
    drift = value_drift(tree, inserted, now, inserted, sigma)
    np.testing.assert_allclose(drift[:, 0] + anchor_values(tree, inserted, sigma)[:, 0], 0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_identical_policies_count_as_one_and_disjoint_ones_as_k(k):
    weights = jnp.array([0.2, 0.5, 0.0, 0.3])
    same = jnp.broadcast_to(jnp.array([0.1, 0.2, 0.3, 0.1, 0.3]), (k, 4, 5))
    sigma = jax.random.dirichlet(jax.random.key(0), jnp.ones(k))
    np.testing.assert_allclose(effective_policies(same, sigma, weights), 1, rtol=1e-5)
    disjoint = jnp.broadcast_to(jnp.eye(5)[:k, None], (k, 4, 5))
    np.testing.assert_allclose(effective_policies(disjoint, jnp.full(k, 1 / k), weights), k, rtol=1e-5)
    # Unequal weights count by the inverse Simpson index; slots without weight count for nothing.
    np.testing.assert_allclose(effective_policies(disjoint, sigma, weights), 1 / (sigma**2).sum(), rtol=1e-5)
    padded = jnp.concatenate([disjoint, same[:1]]), jnp.concatenate([sigma, jnp.zeros(1)])
    np.testing.assert_allclose(effective_policies(*padded, weights), 1 / (sigma**2).sum(), rtol=1e-5)


def test_similarity_by_hand():
    tables = jnp.array([[[1.0, 0.0], [1.0, 0.0]], [[0.25, 0.75], [0.0, 1.0]]])
    expected = 0.8 * 0.5 + 0.2 * 0.0
    np.testing.assert_allclose(similarity(tables, jnp.array([0.8, 0.2])), [[1, expected], [expected, 1]], rtol=1e-5)


def test_infoset_choices(kuhn):
    weights = np.asarray(infoset_choices(kuhn, 1))
    np.testing.assert_allclose(weights, np.where(np.asarray(kuhn.seat) == 1, 1 / 6, 0), rtol=1e-6)
    both = infoset_choices(build_tree(make_game("kuhn_poker", shared=True)), 0)
    np.testing.assert_allclose(both, 1 / 12, rtol=1e-6)


def test_vmap_equals_loop(kuhn):
    tables = jax.random.dirichlet(jax.random.key(1), jnp.ones(2), (3, 4, kuhn.num_infosets))
    weights, sigma = infoset_choices(kuhn, 0), jnp.full(4, 0.25)
    together = jax.vmap(effective_policies, in_axes=(0, None, None))(tables, sigma, weights)
    np.testing.assert_allclose(together, [effective_policies(t, sigma, weights) for t in tables], rtol=1e-5)
    assert ((together > 1) & (together < 4)).all()
