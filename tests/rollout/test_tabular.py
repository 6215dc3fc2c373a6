"""Episodes of tables along one axis: those that tables would play as any other network, whatever is vmapped."""

from functools import partial

import jax
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout import tabular
from gems_jax.rollout.episode import play_episode, unroll
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import make_view

KUHN = make_game("kuhn_poker")
TABLE = infoset_policy(KUHN)


class Network:
    """A table in the clothes of a network."""

    def __init__(self, table):
        self.table = table

    def __call__(self, phi, observation, legal):
        return self.table(phi, observation, legal)


NETWORK = Network(TABLE)


def groups(key, own, others, apply, play=play_episode, player=0, common=False, game=KUHN):
    """Four policies against draws of three others each, twice."""
    key_draw, key_play = jax.random.split(key)
    shape = (3, 2) if common else (4, 3, 2)
    indices = jax.random.randint(key_draw, shape, 0, others.shape[1])
    seen = make_view(game, player)
    return play_groups(
        play, key_play, seen, StackedPolicies(own, apply), StackedPolicies(others, apply), indices, 2, common
    )


def drawn(*shape):
    keys = jax.random.split(jax.random.key(1))
    return (jax.random.normal(keys[0], (*shape, 4, 12, 2)), jax.random.normal(keys[1], (*shape, 2, 5, 12, 2)))


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("player", [0, 1])
def test_the_same_episodes(player, common):
    play = jax.jit(partial(groups, player=player, common=common), static_argnames="apply")
    ours, theirs = (play(jax.random.key(0), *drawn(), apply=apply) for apply in (TABLE, NETWORK))
    assert ours.returns.shape == (4, 3, 2, 2)
    assert len(np.unique(ours.returns)) > 2
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("limit", [0, tabular._LARGE])  # of 0, every population is too large to be copied
@pytest.mark.parametrize("name", ["leduc_holdem", "biased_rps"])  # numbered by the game, and seats that move at once
def test_the_same_episodes_of_other_games(name, limit, monkeypatch):
    monkeypatch.setattr(tabular, "_LARGE", limit)
    game = make_game(name)
    table = infoset_policy(game)
    assert (table.row_of_infoset is not None) == (name == "leduc_holdem")
    keys = jax.random.split(jax.random.key(8))
    populations = max(game.population_of_player) + 1
    own = jax.random.normal(keys[0], (4, *table.legal.shape))
    others = jax.random.normal(keys[1], (populations, 5, *table.legal.shape))
    play = jax.jit(partial(groups, game=game), static_argnames="apply")
    ours, theirs = (play(jax.random.key(9), own, others, apply=apply) for apply in (table, Network(table)))
    assert len(np.unique(ours.returns)) > 2
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("limit", [0, tabular._LARGE])
def test_the_same_under_vmaps_of_which_some_share(limit, monkeypatch):
    """Seeds outside, populations of policies inside that meet the same others."""
    monkeypatch.setattr(tabular, "_LARGE", limit)

    def both(apply):
        inner = jax.vmap(partial(groups, apply=apply), in_axes=(0, 0, None))
        keys = jax.random.split(jax.random.key(4), (3, 2))
        own = drawn(3, 2)[0]
        others = drawn(3)[1]
        return jax.jit(jax.vmap(jax.jit(inner)))(keys, own, others)  # traced once, vmapped afterwards

    ours, theirs = both(TABLE), both(NETWORK)
    assert ours.returns.shape == (3, 2, 4, 3, 2, 2)
    assert not np.array_equal(ours.returns[0], ours.returns[1])
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_trajectories_remember_the_rows_of_decisions():
    play = partial(unroll, seats=(0,))
    ours, theirs = (
        jax.jit(partial(groups, apply=apply, play=play, player=1))(jax.random.key(3), *drawn())
        for apply in (TABLE, NETWORK)
    )
    acted = np.asarray(theirs.acted)
    np.testing.assert_array_equal(ours.acted, acted)
    for name in ("action", "observation", "reward"):
        left, right = (np.asarray(getattr(one, name)) for one in (ours, theirs))
        np.testing.assert_array_equal(left[acted], right[acted])
    np.testing.assert_allclose(np.asarray(ours.log_prob)[acted], np.asarray(theirs.log_prob)[acted], rtol=1e-6)
    assert theirs.row is None
    np.testing.assert_array_equal(TABLE.observations[np.asarray(ours.row)[acted]], np.asarray(ours.observation)[acted])


@pytest.mark.parametrize("name", ["kuhn_poker", "biased_rps"])
def test_joint_draws_play_the_same_episodes(name):
    game = make_game(name)
    table = infoset_policy(game)
    keys = jax.random.split(jax.random.key(10))
    populations = max(game.population_of_player) + 1
    tables = jax.random.normal(keys[0], (populations, 5, *table.legal.shape))
    indices = jax.random.randint(keys[1], (6, 2), 0, 5)
    play = jax.jit(
        lambda key, apply: play_joint(play_episode, key, game, StackedPolicies(tables, apply), indices, 3),
        static_argnames="apply",
    )
    ours, theirs = (play(jax.random.key(11), apply=apply) for apply in (table, Network(table)))
    assert ours.returns.shape == (6, 3, 2) and len(np.unique(ours.returns)) > 2
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_large_populations_are_not_prepared_anew(monkeypatch):
    """No CDFs [2 * 700, 12, 1] of a population's policies are computed: rows are read one by one."""
    own, others = drawn()
    others = np.broadcast_to(others[:, :1], (2, 700, 12, 2))

    def is_prepared(limit):
        monkeypatch.setattr(tabular, "_LARGE", limit)
        jaxpr = str(jax.make_jaxpr(partial(groups, apply=TABLE))(jax.random.key(0), own, others))
        return "f32[1400,12,1]" in jaxpr or "f32[1404,12,2]" in jaxpr

    assert is_prepared(others.size) and not is_prepared(others.size - 1)
