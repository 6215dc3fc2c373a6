"""Deals: listed from any view, stratified exactly, and unbiased."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, play_episode
from gems_jax.estimation.deals import fix_deal, index_deals, list_deals, start_from_deal, stratify_deals
from gems_jax.extensive.infosets import infoset_policy, tables_of
from gems_jax.extensive.values import build_tree, expected_returns
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import make_view
from toy_games import Dice

KUHN, LEDUC = make_game("kuhn_poker"), make_game("leduc_holdem")


def test_deals_of_a_view_are_those_of_the_game_with_seats_permuted():
    own, chance = list_deals(KUHN)
    seen, other = list_deals(make_view(KUHN, 1))
    np.testing.assert_array_equal(seen.observation, own.observation[:, ::-1])
    np.testing.assert_array_equal(chance, other)
    key = jax.random.key(0)
    for deal in range(6):
        start = fix_deal(make_view(KUHN, 1), jnp.int32(deal)).init(key)
        np.testing.assert_array_equal(start.observation, own.observation[deal, ::-1])
        np.testing.assert_array_equal(fix_deal(KUHN, jnp.int32(deal)).init(key).observation, own.observation[deal])


@pytest.mark.parametrize(("game", "within"), [(KUHN, (4, 3)), (KUHN, (7,)), (LEDUC, (50, 2))])
def test_every_deal_comes_up_as_often_as_its_probability_says(game, within):
    chance = np.asarray(list_deals(game)[1])
    drawn = np.asarray(stratify_deals(jax.random.key(0), game, (200, 3), within)).reshape(600, -1)
    counts = np.stack([np.bincount(row, minlength=len(chance)) for row in drawn])
    expected = chance * drawn.shape[1]
    assert (counts >= np.floor(expected - 1e-4)).all() and (counts <= np.ceil(expected + 1e-4)).all()
    # each position by itself has the game's distribution
    shares = np.stack([(drawn == deal).mean(axis=0) for deal in range(len(chance))])  # [N, n]
    error = np.sqrt(chance * (1 - chance) / len(drawn))
    assert np.abs((shares - chance[:, None]) / error[:, None]).max() < 5.0
    assert not np.array_equal(drawn[0], drawn[1])


def test_games_without_deals_are_refused():
    assert list_deals(Dice()) is None
    assert list_deals(make_game("pgx:backgammon", max_steps=4)) is None
    with pytest.raises(ValueError, match="expected a game that lists its deals"):
        stratify_deals(jax.random.key(0), Dice(), (2,), (3,))


def test_stratified_deals_are_unbiased_with_less_variance():
    """Means of 12 episodes of a pair, 800 times: with stratified deals every deal is there twice."""
    network = infoset_policy(KUHN)
    stacked = StackedPolicies(jax.random.normal(jax.random.key(1), (2, 1, *network.legal.shape)), network)
    expected = expected_returns(build_tree(KUHN), tables_of(KUHN, stacked)[:, 0])

    @jax.jit
    def measure(key):
        key_deals, key_play, key_groups = jax.random.split(key, 3)
        deals = stratify_deals(key_deals, KUHN, (800,), (12,))
        pairs = jnp.zeros((800, 2), jnp.int32)
        plain = play_joint(play_episode, jax.random.clone(key_play), KUHN, stacked, pairs, 12)
        stratified = play_joint(start_from_deal(play_episode), key_play, KUHN, stacked, pairs, 12, (deals,))
        seen = make_view(KUHN, 1)
        rotated = StackedPolicies(stacked.params[::-1], network)
        others = jnp.zeros((1, 800, 2), jnp.int32)
        own = StackedPolicies(rotated.params[0], network)
        grouped = play_groups(
            start_from_deal(play_episode), key_groups, seen, own, rotated, others, 12, lanes=(deals[None],)
        )
        return plain.returns.mean(axis=1), stratified.returns.mean(axis=1), grouped.returns[0].mean(axis=1)

    plain, stratified, grouped = map(np.asarray, measure(jax.random.key(2)))
    for found, truth in ((plain, expected), (stratified, expected), (grouped, expected[::-1])):
        z = (found.mean(axis=0) - np.asarray(truth)) / (found.std(axis=0) / np.sqrt(800))
        assert np.abs(z).max() < 4.5
    assert np.var(stratified[:, 0]) < 0.7 * np.var(plain[:, 0])
    assert np.var(grouped[:, 0]) < 0.7 * np.var(plain[:, 0])


def test_the_deal_of_a_position_is_found_while_the_public_card_is_hidden():
    states, _ = list_deals(LEDUC)
    find = index_deals(make_view(LEDUC, 1))
    assert find == index_deals(LEDUC) and hash(find) == hash(index_deals(LEDUC)) and find != index_deals(KUHN)
    assert find.count == 24
    step = jax.jit(jax.vmap(lambda state: LEDUC.step(state, jnp.zeros(2, jnp.int32), jax.random.key(0))))
    for _ in range(3):
        np.testing.assert_array_equal(jax.jit(jax.vmap(find))(states), np.arange(24))
        states = step(states)
    same = np.asarray(list_deals(LEDUC)[0].observation).reshape(24, -1)
    assert len(np.unique(same, axis=0)) == 9  # at the start 9 pairs of hands are all that anybody sees
    changed = states.replace(inner=jax.tree.map(lambda leaf: leaf + leaf.dtype.type(1), states.inner))
    assert (np.asarray(jax.vmap(find)(changed)) == 24).any()
    assert index_deals(make_game("tic_tac_toe")) is None and index_deals(Dice()) is None
