"""Clouds of points with known answers; positions and choices of a mixture whose policies are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.measures import embeddings as e
from gems_jax import make_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import take_population
from gems_jax.types import Profile
from toy_games import constant

RANDOM = np.random.default_rng(0)
BALL = RANDOM.normal(size=(60, 4))
FAR = np.concatenate([BALL[:30], BALL[30:] + 40.0])
SIDES = np.repeat([0, 1], 30)


def test_silhouettes_of_far_and_of_equal_clouds():
    assert e.silhouette(FAR, SIDES) > 0.95
    assert abs(e.silhouette(BALL, SIDES)) < 0.05
    assert e.silhouette(FAR, np.tile([0, 1], 30)) < 0.0  # labels that cut across the clouds
    assert e.silhouette(BALL, np.zeros(60)) == 0.0 and e.silhouette(np.ones((4, 2)), [0, 0, 1, 1]) == 0.0
    # by hand: 0 and 1 against 4, who is alone: (4 - 1) / 4, (3 - 1) / 3, 0
    np.testing.assert_allclose(e.silhouette(np.asarray([[0.0], [1.0], [4.0]]), [7, 7, 9]), (3 / 4 + 2 / 3) / 3)


def test_two_means_find_two_clouds_and_say_when_there_is_one():
    assert e.agreement(e.two_means(FAR), SIDES) == 1.0
    assert e.agreement([0, 1, 1, 1], [1, 1, 0, 0]) == 0.75
    assert e.two_cloud_silhouette(FAR) > 0.95 > 0.6 > e.one_cloud_reference(FAR) > 0.2
    assert abs(e.two_cloud_silhouette(BALL) - e.one_cloud_reference(BALL)) < 0.1
    assert e.two_cloud_silhouette(np.ones((5, 3))) == 0.0 and e.two_cloud_silhouette(BALL[:2]) == 0.0


def test_principal_components_keep_distances():
    stretched = BALL * [10.0, 1.0, 0.1, 0.0]
    found = e.principal(stretched)
    assert found.shares[0] > 0.95 and found.shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(e.distances(found.scores), e.distances(stretched), atol=1e-5)
    assert not e.principal(np.ones((5, 3))).shares.any()


def test_how_far_and_in_how_many_directions():
    assert e.mean_pairwise_distance(np.asarray([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])) == pytest.approx(4.0)
    assert e.mean_pairwise_distance(np.zeros((1, 2))) == 0.0
    assert e.effective_dimension(np.outer(np.arange(5.0), [1.0, 2.0])) == pytest.approx(1.0)
    cross = np.concatenate([np.eye(3), -np.eye(3)])
    assert e.effective_dimension(cross) == pytest.approx(3.0)
    assert e.effective_dimension(np.ones((4, 2))) == 0.0


def test_entropy_and_features():
    probs = np.asarray([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])
    np.testing.assert_allclose(e.mean_entropy(probs), [np.log(2) / 2])
    legal = np.asarray([[True, True, False], [True, False, True]])
    np.testing.assert_allclose(e.features(probs, legal), np.asarray([[0.5, 0.5, 1.0, 0.0]]) / np.sqrt(2))
    apart = np.stack([np.tile([1.0, 0.0, 0.0], (8, 1)), np.tile([0.0, 1.0, 0.0], (8, 1))])
    np.testing.assert_allclose(e.mean_pairwise_distance(e.features(apart, np.ones((8, 3), bool))), np.sqrt(2))


def test_positions_come_from_the_mixtures_own_play():
    """In Kuhn poker two who always bet (or call) never see a pass: the second player is only ever asked to call."""
    game = make_game("kuhn_poker", observation="infoset")
    logits = jnp.asarray([[[50.0, -50.0], [0.0, 0.0]]] * 2)  # [P, K, A]: bets; tosses a coin
    profile = Profile(StackedPolicies(logits, constant), jnp.asarray([[1.0, 0.0]] * 2))
    probes = e.probe(jax.random.key(0), game, profile, 1, 10)
    assert probes.observation.shape == (10, 12) and probes.legal.all()
    assert set(np.argmax(np.asarray(probes.observation), axis=1)) <= {9, 10, 11}  # seat 1, facing a bet
    found = np.asarray(e.choices(take_population(profile.population, 0), jnp.arange(2), probes))
    np.testing.assert_allclose(found[1], 0.5)
    np.testing.assert_allclose(found[0], np.tile([1.0, 0.0], (10, 1)), atol=1e-6)
