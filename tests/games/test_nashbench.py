"""Games of nashbench: sound games, the same as OpenSpiel's and ours, judged exactly where no tree can be walked."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import exploitability
from gems_jax.evaluate.exact_gains import exact_gains
from gems_jax.evaluate.sampled import random_profile
from gems_jax.extensive.tree import build_tree
from gems_jax.games import make_game
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.testing import check_game
from gems_jax.types import NotEnumerableError, Profile

installed = pytest.mark.skipif(importlib.util.find_spec("nashbench") is None, reason="nashbench needs Python 3.12")
ONE_DIE = {"numdice": 1, "dice_sides": 6}


def mlp_profile(game, slots=3):
    """Mixtures of random networks, another one for each population."""
    apply = MlpPolicy(int(np.prod(game.observation_shape)), game.num_actions, (8,))
    shapes = jax.eval_shape(apply.init, jax.random.key(0))
    leaves, structure = jax.tree.flatten(shapes)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    drawn = [jax.random.normal(key, (2, slots, *leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    params = jax.tree.unflatten(structure, drawn)
    sigma = jax.random.dirichlet(jax.random.key(1), jnp.ones(slots), (2,))
    return Profile(StackedPolicies(params, apply), sigma)


@installed
@pytest.mark.parametrize(
    ("id", "options"),
    [
        ("kuhn_poker", {}),
        pytest.param("leduc_poker", {}, marks=pytest.mark.slow),
        pytest.param("liars_dice", {}, marks=pytest.mark.slow),
        pytest.param("goofspiel", {"num_cards": 4}, marks=pytest.mark.slow),
        ("phantom_ttt", {}),
        pytest.param("dark_hex3_abrupt", {}, marks=pytest.mark.slow),
        pytest.param("oshi_zumo", {"coins": 4}, marks=pytest.mark.slow),
        pytest.param("battleship", {"height": 2, "width": 2}, marks=pytest.mark.slow),
        pytest.param("blotto", {"coins": 4, "fields": 3}, marks=pytest.mark.slow),
        pytest.param("universal_poker", {"raise_sizes": [2, 4]}, marks=pytest.mark.slow),
    ],
)
def test_conformance(id, options):
    check_game(make_game(f"nashbench:{id}", **options), episodes=8)


@installed
@pytest.mark.parametrize("id", ["kuhn_poker", "leduc_poker"])
def test_its_evaluation_agrees_with_ours(id):
    game = make_game(f"nashbench:{id}")
    profile = mlp_profile(game)
    ours = exploitability(game, profile)
    np.testing.assert_allclose(game.best_response_gains(profile).sum() / 2, ours, atol=2e-5)
    np.testing.assert_allclose(exact_gains(game, profile).sum() / 2, ours, atol=1e-6)


@installed
def test_liars_dice_is_ours():
    """The same observations, so that one and the same network is as far from equilibrium in both; too large to walk."""
    theirs, ours = make_game("nashbench:liars_dice", **ONE_DIE), make_game("liars_dice")
    with pytest.raises(NotEnumerableError):
        build_tree(theirs)
    assert theirs.observation_shape == ours.observation_shape and theirs.max_steps == ours.max_steps
    profile = mlp_profile(ours)
    np.testing.assert_allclose(exact_gains(theirs, profile), exact_gains(ours, profile), atol=2e-5)
    np.testing.assert_allclose(exact_gains(theirs, random_profile(theirs)).sum(), 1.5614886, atol=2e-6)


@installed
def test_shared_populations_play_both_seats():
    alone, shared = make_game("nashbench:kuhn_poker"), make_game("nashbench:kuhn_poker", shared=True)
    profile = mlp_profile(alone)
    first = jax.tree.map(lambda leaf: leaf[:1], profile)
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), first)
    np.testing.assert_allclose(shared.best_response_gains(first), alone.best_response_gains(twice), atol=1e-9)


@installed
def test_unknown_games_and_options_are_refused():
    with pytest.raises(ValueError, match="nashbench has no game 'khun_poker'; did you mean 'kuhn_poker'"):
        make_game("nashbench:khun_poker")
    with pytest.raises(ValueError, match="nashbench:goofspiel cannot be made with {'colour': 3}"):
        make_game("nashbench:goofspiel", colour=3)


@pytest.mark.skipif(importlib.util.find_spec("nashbench") is not None, reason="nashbench is installed")
def test_without_nashbench_the_message_says_what_to_do():
    with pytest.raises(
        ImportError, match=r"Python 3.12 or newer: pip install .gems_jax\[nashbench\].*openspiel:liars_dice"
    ):
        make_game("nashbench:liars_dice")
