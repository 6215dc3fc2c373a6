"""Scripted players of simple_tag: directions worked out by hand, and returns against random play."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.games.particles import Particles
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import cheap_opponents, opponents_of
from gems_jax.opponents.simple_tag import TagScript, tag_script
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.distributions import sample_action

TAG = make_game("simple_tag")


def observe(positions, evader_velocity=(0.0, 0.0)):
    """The observations [4, 20] of three pursuers and the evader; the obstacles are far away."""
    places = jnp.asarray([*positions, (5.0, 5.0), (-5.0, 5.0)])
    velocity = jnp.zeros((4, 2)).at[3].set(jnp.asarray(evader_velocity))
    return TAG._game_state(Particles(places, velocity, jnp.int32(0))).observation


def moves(seen):
    """The names of the actions that each seat plays."""
    logits = jax.vmap(lambda one: tag_script().apply((), one, jnp.ones(5, bool)).logits)(seen)
    names = np.asarray(["none", "left", "right", "down", "up"])
    return [set(names[row > -1.0]) for row in np.asarray(logits)]


def test_pursuers_chase_and_the_evader_flees():
    seen = observe([(-0.5, 0.0), (0.0, -0.4), (0.1, -0.8), (0.0, 0.0)])
    assert moves(seen) == [{"right"}, {"up"}, {"up"}, {"up"}]
    seen = observe([(-0.2, 0.0), (-0.3, 0.1), (-0.3, -0.1), (0.0, 0.0)])
    assert moves(seen)[3] == {"right"}
    # the evader runs upwards: a pursuer at the same height leads
    assert moves(observe([(0.2, 0.0), (0.9, 0.9), (0.9, -0.9), (0.0, 0.0)], (0.0, 1.3)))[0] == {"up"}


def test_the_evader_stays_within_bounds():
    seen = observe([(-0.5, 0.0), (-0.6, 0.1), (-0.6, -0.1), (0.95, 0.0)])
    assert moves(seen)[3] == {"left"}
    assert moves(observe([(0.0, 0.0), (0.1, 0.1), (-0.1, 0.1), (0.0, 1.2)]))[3] == {"down"}


def test_continuous_actions_push_in_the_same_direction():
    seen = observe([(-0.5, 0.1), (0.3, -0.4), (0.1, -0.8), (0.1, 0.2)])
    game = make_game("simple_tag", continuous=True)
    for one in seen:
        output = tag_script(continuous=True).apply((), one, jnp.ones(5, bool))
        action = sample_action(output, jnp.zeros(5))
        thrust = game._thrust(jnp.stack([action] * 4))[0]
        np.testing.assert_allclose(thrust, TagScript().direction(one), atol=0.02)


@pytest.mark.parametrize("continuous", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_both_roles_beat_random_play(continuous):
    game = make_game("simple_tag", continuous=continuous)
    script, chance = fixed_profile(game, tag_script(continuous)), random_policy(game)
    assert list(opponents_of(game)) == ["random", "script"] and list(cheap_opponents(game)) == ["random"]
    for player in (0, 1):
        found = head_to_head(jax.random.key(0), game, script, chance, player, 256)
        base = head_to_head(jax.random.key(1), game, fixed_profile(game, chance), chance, player, 256)
        assert found.mean - found.interval > base.mean + base.interval
