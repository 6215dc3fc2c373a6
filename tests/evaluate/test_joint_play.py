"""CCE gaps of a run's joint play: by hand where time correlates the players, then against the payoff tensor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.evaluate.joint_play import (
    MeanPlay,
    add_joint,
    add_play,
    anchor_regrets,
    joint_fits,
    play_of_joint,
    regrets,
    restricted_gains,
    sum_positive_regrets,
)
from gems_jax.extensive.values import build_tree, player_gains_of_mixture
from gems_jax.games import make_game
from gems_jax.games.matrix import matrix_game
from gems_jax.meta.cce import cce_gap as cce_gap_of_payoffs

PENNIES = build_tree(make_game("matching_pennies"))
PURE = jnp.broadcast_to(jnp.eye(2)[None, :, None], (2, 2, 2, 2))  # [P, K, I, A]: slot i plays action i
ALL = jnp.ones((2, 2), bool)
HEADS, TAILS = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])


def played(tree, tables, *sigmas):
    play = MeanPlay.zeros(tree)
    for sigma in sigmas:
        play = add_play(tree, play, tables, sigma)
    return play


def joint_over(tree, *sigmas, fresh=None):
    fresh = jnp.zeros(sigmas[0].shape, bool) if fresh is None else fresh
    joint = jnp.zeros((sigmas[0].shape[1],) * tree.num_players)
    for count, sigma in enumerate(sigmas):
        joint = add_joint(tree, joint, jnp.int32(count), sigma, fresh if count == len(sigmas) - 1 else fresh & False)
    return joint


def test_pennies_that_always_match_are_no_equilibrium():
    """Heads together, tails together: the second player loses 1 every time, and any fixed coin would have lost 0."""
    play = played(PENNIES, PURE, jnp.stack([HEADS, HEADS]), jnp.stack([TAILS, TAILS]))
    np.testing.assert_allclose(play.values, [1.0, -1.0], atol=1e-6)
    np.testing.assert_allclose(regrets(PENNIES, play), [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(sum_positive_regrets(regrets(PENNIES, play)), 1.0, atol=1e-6)
    # ... though both play one half each on average, which is the equilibrium
    average = jnp.full((2, 2), 0.5)
    np.testing.assert_allclose(player_gains_of_mixture(PENNIES, PURE, average), 0.0, atol=1e-6)
    only_heads = ALL.at[:, 1].set(False)
    np.testing.assert_allclose(anchor_regrets(PENNIES, play, PURE, only_heads), [-1.0, 1.0], atol=1e-6)


def test_a_traffic_light_is_a_coarse_correlated_equilibrium():
    """Chicken, taking turns: nobody gains by one action throughout, while independent halves would crash."""
    payoffs = np.array([[[0.0, 7.0], [2.0, 6.0]], [[0.0, 2.0], [7.0, 6.0]]])  # 0 dares, 1 gives way
    tree = build_tree(matrix_game(payoffs))
    play = played(tree, PURE, jnp.stack([HEADS, TAILS]), jnp.stack([TAILS, HEADS]))
    # each earns (7 + 2) / 2; daring throughout 7/2, giving way throughout (6 + 2) / 2
    np.testing.assert_allclose(regrets(tree, play), [-0.5, -0.5], atol=1e-6)
    assert float(sum_positive_regrets(regrets(tree, play))) == 0.0
    # the halves earn 15/4 each, and giving way would earn 4
    np.testing.assert_allclose(player_gains_of_mixture(tree, PURE, jnp.full((2, 2), 0.5)), 0.25, atol=1e-6)


def test_one_iteration_is_its_own_best_response_gap():
    tree = build_tree(make_game("kuhn_poker"))
    tables = jax.random.uniform(jax.random.key(0), (2, 3, *tree.legal.shape)) * tree.legal[None, None]
    tables = tables / tables.sum(axis=-1, keepdims=True)
    sigma = jnp.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    play, gains = played(tree, tables, sigma), player_gains_of_mixture(tree, tables, sigma)
    np.testing.assert_allclose(regrets(tree, play), gains, atol=1e-5)
    active = sigma > 0
    np.testing.assert_allclose(
        anchor_regrets(tree, play, tables, active), restricted_gains(tree, tables, sigma, active), atol=1e-5
    )
    by_id = play_of_joint(tree, tables, joint_over(tree, sigma))
    np.testing.assert_allclose(by_id.gains, play.gains, atol=1e-6)
    np.testing.assert_allclose(by_id.values, play.values, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_by_id_is_the_gap_of_the_payoff_tensor(shared):
    """Three players, pure anchors: the tensor of the meta-game is the game's own. Four iterations, no product."""
    payoffs = np.random.default_rng(1).normal(size=(3, 3, 3, 3))
    tree = build_tree(matrix_game(payoffs, shared=shared))
    populations = tree.num_populations
    tables = jnp.broadcast_to(jnp.eye(3)[None, :, None], (populations, 3, 3, 3))
    sigmas = jax.random.dirichlet(jax.random.key(2), jnp.full(3, 0.3), (4, populations))
    joint = joint_over(tree, *sigmas)
    np.testing.assert_allclose(joint.sum(), 1.0, atol=1e-6)
    play = play_of_joint(tree, tables, joint)
    expected = cce_gap_of_payoffs(jnp.asarray(payoffs, jnp.float32), joint, jnp.ones((3, 3), bool))
    assert float(expected) > 0.05
    np.testing.assert_allclose(sum_positive_regrets(regrets(tree, play)), expected, atol=1e-5)
    np.testing.assert_allclose(
        sum_positive_regrets(anchor_regrets(tree, play, tables, jnp.ones((populations, 3), bool))), expected, atol=1e-5
    )
    # the generator did not change, so play by id is play as it was played
    as_played = played(tree, tables, *sigmas)
    np.testing.assert_allclose(as_played.gains, play.gains, atol=1e-6)
    np.testing.assert_allclose(as_played.values, play.values, atol=1e-6)


def test_the_past_of_a_replaced_anchor_is_left_out():
    """Slot 0 of the first player is taken by a newcomer: of its past only (tails, ...) is left."""
    fresh = jnp.array([[True, False], [False, False]])
    joint = joint_over(
        PENNIES,
        jnp.stack([HEADS, HEADS]),
        jnp.stack([TAILS, HEADS]),
        jnp.stack([TAILS, TAILS]),
        fresh=fresh,
    )
    np.testing.assert_allclose(joint, [[0.0, 0.0], [2 / 3, 1 / 3]], atol=1e-6)
    alone = joint_over(PENNIES, jnp.stack([HEADS, HEADS]), jnp.stack([TAILS, TAILS]), fresh=fresh)
    np.testing.assert_allclose(alone, [[0.0, 0.0], [0.0, 1.0]], atol=1e-6)


def test_joint_distributions_are_kept_where_they_are_small():
    assert joint_fits(PENNIES, 41) and joint_fits(build_tree(make_game("public_goods")), 12)
    assert not joint_fits(build_tree(make_game("public_goods")), 32)
