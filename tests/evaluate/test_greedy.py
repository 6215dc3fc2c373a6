"""Greedy play of mixtures, and measurements against opponents that are named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.greedy import GreedyPlay, greedy_profile
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.evaluate.sampled import random_profile, sampled_row
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import opponents_of
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import Policy, PolicyOutput, Profile
from toy_games import constant, pure

RPS = make_game("rock_paper_scissors")


def test_the_most_probable_legal_action_is_played():
    play = GreedyPlay(constant)
    legal = jnp.asarray([True, True, False, True])
    logits = play(jnp.asarray([1.0, 2.0, 9.0, 2.0]), jnp.zeros(0), legal).logits
    np.testing.assert_allclose(jax.nn.softmax(logits), [0.0, 0.5, 0.0, 0.5])
    normal = GreedyPlay(lambda phi, seen, legal: PolicyOutput(mean=phi, log_std=jnp.ones(2)))
    found = normal(jnp.asarray([0.3, -0.2]), jnp.zeros(0), legal)
    np.testing.assert_allclose(found.mean, [0.3, -0.2])
    assert (jnp.exp(found.log_std) < 1e-6).all()


def test_a_greedy_mixture_still_draws_its_policies():
    """Two policies that lean towards rock and paper, at 3/4 and 1/4, win 3/4 against scissors when greedy."""
    rows = jnp.stack([jnp.asarray([1.0, 0.9, 0.0]), jnp.asarray([0.0, 1.0, 0.9])])
    profile = Profile(StackedPolicies(jnp.stack([rows] * 2), constant), jnp.asarray([[0.75, 0.25]] * 2))
    scissors = Policy(pure(3, 2)[0], constant)
    found = head_to_head(jax.random.key(0), RPS, greedy_profile(profile), scissors, episodes=256)
    assert found.win == 0.75 and found.draw == 0.0
    drawn = head_to_head(jax.random.key(0), RPS, profile, scissors, episodes=256)
    assert drawn.win < 0.6 and drawn.draw > 0.1


def test_named_opponents_and_partners():
    small = make_game("hanabi", colors=2, ranks=2, hand_size=2, information_tokens=3, life_tokens=2)
    row = sampled_row(jax.random.key(0), small, random_profile(small), 8, ("rules",))
    assert {"player_0_with_rules", "player_1_with_rules", "player_0_with_rules_interval"} <= set(row)
    assert not any("random" in column for column in row)


def test_fixed_profiles_have_no_parameters():
    profile = fixed_profile(RPS, random_policy(RPS))
    assert profile.sigma.shape == (2, 1) and list(opponents_of(RPS)) == ["random"]
    with pytest.raises(ValueError, match="expected a policy without parameters"):
        fixed_profile(RPS, Policy(jnp.zeros(3), constant))
