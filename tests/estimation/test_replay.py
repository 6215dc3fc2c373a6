"""The table of returns per pair: what is drawn, summed, shrunk and discounted, against numbers by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.estimation.estimated_game import shrink_to_additive
from gems_jax.estimation.replay import (
    PairTable,
    add_returns,
    discount_table,
    draw_pairs,
    empty_table,
    estimate_pairs,
    play_pairs,
    staleness_factors,
)
from gems_jax.games.matrix import matrix_game
from gems_jax.gems.reused import age_replay
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode
from gems_trails import TINY
from meta_games import exact
from toy_games import constant, pure

REPEATS, SAMPLES = 2000, 64
LOGITS = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 3)), jnp.float32)
SIGMA = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])


def general_sum(shared=False):
    payoffs = np.random.default_rng(0).uniform(-1, 1, (2, 3, 3))
    return matrix_game(payoffs, return_bounds=(-1.0, 1.0), zero_sum=False, shared=shared, name="general")


def run_tables(game, logits, sigma, prior_count):
    """Values and squared errors [REPEATS, P, K] of tables of `SAMPLES` pairs that uniform mixtures draw."""

    @jax.jit
    def run(keys, logits):
        policies = StackedPolicies(logits, constant)
        even = jnp.log(jnp.full(logits.shape[:2], 1 / logits.shape[1]))

        def once(key):
            table, steps = play_pairs(
                play_episode, key, game, policies, empty_table(game, logits.shape[1]), even, samples=SAMPLES, episodes=1
            )
            found = estimate_pairs(table, game.population_of_player, prior_count)
            return found.values(jnp.asarray(sigma)), found.squared_errors(jnp.asarray(sigma)), table.counts, steps

        return jax.vmap(once)(keys)

    return jax.device_get(run(jax.random.split(jax.random.key(0), REPEATS), logits))


def test_pairs_are_drawn_where_it_matters_and_little_is_known():
    """Weights q(i) q(j) / sqrt(1 + N): 0.75 x 0.5 / 2 = 3/16, 3/8, 1/8, 1/8 / 5 of these counts."""
    q, counts = jnp.asarray([[0.75, 0.25], [0.5, 0.5]]), jnp.asarray([[3.0, 0.0], [0.0, 24.0]])
    weights = np.array([[3 / 16, 3 / 8], [1 / 8, 1 / 40]])
    drawn = np.asarray(draw_pairs(jax.random.key(0), jnp.log(q), counts, 2000))
    found = np.zeros((2, 2))
    np.add.at(found, tuple(drawn.T), 1)
    np.testing.assert_allclose(found, 2000 * weights / weights.sum(), atol=1.0)  # systematic: within one draw


def test_slots_without_mass_are_never_drawn():
    q = jnp.log(jnp.asarray([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    drawn = np.asarray(draw_pairs(jax.random.key(0), q, jnp.zeros((3, 3)), 50))
    assert {tuple(pair) for pair in drawn} == {(0, 0), (1, 0)}


def test_returns_are_added_pair_by_pair():
    table = PairTable(jnp.ones((2, 2)), jnp.full((2, 2, 2), 0.5), jnp.full((2, 2, 2), 0.25))
    drawn = jnp.asarray([[0, 1], [1, 0], [0, 1]])
    returns = jnp.asarray([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[0.9, 0.8], [0.7, 0.6], [0.5, 0.4]]])
    got = add_returns(table, drawn, returns)
    np.testing.assert_allclose(got.counts, [[1, 5], [3, 1]])
    np.testing.assert_allclose(got.sums[0], [[0.5, 0.5 + 1.4], [0.5 + 0.7, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(got.sums[1], [[0.5, 0.5 + 2.6], [0.5 + 1.3, 0.5]], rtol=1e-6)
    squares = 0.25 + 0.01 + 0.04 + 0.25 + 0.36
    np.testing.assert_allclose(got.squares[0], [[0.25, squares], [0.25 + 0.09 + 0.16, 0.25]], rtol=1e-6)


def test_shrinkage_by_hand():
    """Sums 3 of 4 and 1 of 1; rows (3 + c m) / (4 + c) and so on, with m = 0.8 and c = 2."""
    sums, counts = jnp.asarray([[3.0, 0.0], [0.0, 1.0]]), jnp.asarray([[4.0, 0.0], [0.0, 1.0]])
    row = np.array([(3 + 1.6) / 6, (1 + 1.6) / 3])
    prior = row[:, None] + row[None, :] - 0.8  # columns have the same sums and counts
    expected = (np.asarray(sums) + 2 * prior) / (np.asarray(counts) + 2)
    np.testing.assert_allclose(shrink_to_additive(sums, counts, 2.0), expected, rtol=1e-6)


def test_an_additive_game_is_its_own_prior():
    """A pair that was never played has the payoff that its row and its column say, were they well known."""
    payoffs = np.array([0.1, 0.4, 0.2])[:, None] + np.array([0.3, 0.0, 0.2])[None, :]
    counts = jnp.full((3, 3), 1e6).at[0, 1].set(0.0)
    counts = counts.at[1, 0].set(0.0).at[2, 2].set(0.0)  # each row and column lacks one pair
    got = shrink_to_additive(jnp.asarray(payoffs) * counts, counts, 8.0)
    played = np.asarray(counts) > 0
    np.testing.assert_allclose(np.asarray(got)[played], payoffs[played], atol=1e-4)
    full = shrink_to_additive(jnp.asarray(payoffs) * 3.0, jnp.full((3, 3), 3.0), 1e-3)
    np.testing.assert_allclose(full, payoffs, atol=1e-3)


@pytest.mark.parametrize("shared", [False, True], ids=["general-sum", "shared population"])
def test_means_are_unbiased_and_know_their_error(shared):
    """At c0 -> 0; every pair comes up seven times or eight. Five standard errors of at most six numbers."""
    game = general_sum(shared)
    logits, sigma = (LOGITS[:1], SIGMA[:1]) if shared else (LOGITS, SIGMA)
    values, squares, counts, steps = run_tables(game, logits, sigma, 1e-6)
    assert (counts >= 7).all() and (counts.sum(axis=(1, 2)) == SAMPLES).all() and (steps == SAMPLES).all()
    truth, *_ = exact(game, logits, sigma)
    error = values.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(values.mean(axis=0) - truth) < 5 * error).all()
    # reported: variances of the pairs pooled, and not divided by n - 1; within a third of the true ones
    np.testing.assert_allclose(np.sqrt(squares.mean(axis=0)), values.std(axis=0), rtol=0.35)
    scores = (values - truth) / np.sqrt(squares)
    assert 0.8 < scores.std() < 1.25


def test_shrunk_estimates_vary_less():
    """Pulled towards the additive part of the game: the reported error is that of the shrunk mean."""
    game = general_sum()
    plain, shrunk = (run_tables(game, LOGITS, SIGMA, prior) for prior in (1e-6, 8.0))
    assert (shrunk[0].std(axis=0) < plain[0].std(axis=0)).all()
    assert (shrunk[1] < plain[1]).all()


def test_an_empty_table_is_finite():
    found = estimate_pairs(empty_table(general_sum(), 3), (0, 1), 8.0)
    for numbers in (found.values(jnp.asarray(SIGMA)), found.squared_errors(jnp.asarray(SIGMA))):
        np.testing.assert_array_equal(numbers, 0.0)


def test_a_moved_anchor_is_discounted_by_its_divergence():
    """KL of (0.5, 0.5) to (0.8, 0.2) is 0.5 ln(0.5 / 0.8) + 0.5 ln(0.5 / 0.2) = 0.2231; c = 3, and 0.9 for age."""
    kl = 0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2)
    divergence = jnp.asarray([[kl, 0.0, -1e-9], [0.0, 0.0, 5.0]])
    replaced = jnp.asarray([[False, False, False], [False, False, True]])
    got = staleness_factors(divergence, replaced, 3.0, 0.9)
    expected = np.array([[0.9 * np.exp(-3 * kl), 0.9, 0.9], [0.9, 0.9, 0.0]])
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    table = PairTable(jnp.full((3, 3), 2.0), jnp.ones((2, 3, 3)), jnp.full((2, 3, 3), 0.5))
    each = np.outer(expected[0], expected[1])
    aged = discount_table(table, (0, 1), got)
    for leaf, before in zip(jax.tree.leaves(aged), jax.tree.leaves(table), strict=True):
        np.testing.assert_allclose(leaf, np.asarray(before) * each, rtol=1e-5)
    np.testing.assert_array_equal(aged.counts[:, 2], 0.0)  # a newcomer has no returns
    config = TINY.replace(estimator="pairs", drift_discount=3.0, replay_discount=0.9)
    again = age_replay(table, general_sum(), divergence, replaced, config)
    jax.tree.map(np.testing.assert_array_equal, again, aged)


def test_discounts_of_a_shared_population_hold_for_both_players():
    factors = jnp.asarray([[0.5, 1.0]])
    got = discount_table(PairTable(jnp.ones((2, 2)), jnp.ones((2, 2, 2)), jnp.ones((2, 2, 2))), (0, 0), factors)
    np.testing.assert_allclose(got.counts, [[0.25, 0.5], [0.5, 1.0]])


def test_means_do_not_change_when_they_are_discounted():
    table = PairTable(jnp.full((2, 2), 4.0), jnp.full((2, 2, 2), 3.0), jnp.full((2, 2, 2), 2.5))
    aged = discount_table(table, (0, 1), jnp.full((2, 2), 0.5))
    before, after = (estimate_pairs(one, (0, 1), 1e-6) for one in (table, aged))
    np.testing.assert_allclose(before.payoffs, after.payoffs, rtol=1e-5)
    np.testing.assert_allclose(after.squares, 4.0 * before.squares, rtol=1e-4)  # a quarter of the episodes


def test_pure_anchors_have_the_payoffs_of_the_game():
    game = general_sum()
    logits = jnp.stack([pure(3, 0, 1, 2)] * 2)
    table, _ = play_pairs(
        play_episode, jax.random.key(0), game, StackedPolicies(logits, constant), empty_table(game, 3),
        jnp.log(jnp.full((2, 3), 1 / 3)), samples=18, episodes=2,
    )  # fmt: skip
    payoffs = (np.asarray(game.payoffs) + 1) / 2
    np.testing.assert_allclose(estimate_pairs(table, (0, 1), 1e-6).payoffs, payoffs, atol=1e-5)
    for i, j in itertools.product(range(3), repeat=2):
        assert table.counts[i, j] == 4


def test_three_players_are_refused():
    game = matrix_game(np.zeros((3, 2, 2, 2)), return_bounds=(-1.0, 1.0))
    with pytest.raises(ValueError, match="2 players.*with 3. Use estimator='trajectories'"):
        empty_table(game, 4)
