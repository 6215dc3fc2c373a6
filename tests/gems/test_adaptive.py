"""Adaptive budgets: what is shared out adds up, dominated phases keep their floor, and a step plays what it should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import gems_step, init_gems, make_game
from gems_jax.gems.adaptive import allot_counts, next_shares, planned_episodes, selection_loss, start_shares, unit_costs
from gems_jax.meta.bandit import Pulls
from gems_trails import TINY

GAME = make_game("biased_rps")
CONFIG = TINY.replace(
    adaptive=True, meta_steps=8, oracle_rounds=2, abr_steps=6, capacity=3, mixture_samples=0, num_opponents=2
)
ACTIVE = jnp.array([[True, True, False], [True, False, False]])


def test_costs_by_hand():
    """Three anchors, 2 opponents, 2 episodes; 2 players, 4 candidates, 1 opponent; 2 players, 2 anchors, 2 x 2."""
    np.testing.assert_array_equal(unit_costs(GAME, CONFIG, ACTIVE), [3 * 2 * 2, 2 * 4 * 1 * 1, 2 * 2 * 2 * 2])
    shared = CONFIG.replace(estimator="importance", mixture_samples=10)
    assert unit_costs(GAME, shared, ACTIVE)[0] == 20
    np.testing.assert_allclose(planned_episodes(GAME, CONFIG, ACTIVE), [96, 8, 96])
    np.testing.assert_allclose(start_shares(GAME, CONFIG, ACTIVE), [0.48, 0.04, 0.48], rtol=1e-6)


def test_what_the_settings_say_comes_out_again():
    counts = allot_counts(start_shares(GAME, CONFIG, ACTIVE), GAME, CONFIG, ACTIVE)
    assert counts == (8, 1, 6)


@pytest.mark.parametrize("shares", [(0.1, 0.1, 0.8), (0.8, 0.1, 0.1), (0.2, 0.6, 0.2), (0.0, 0.0, 1.0)])
def test_the_total_stays(shares):
    counts = allot_counts(jnp.asarray(shares), GAME, CONFIG, ACTIVE)
    spent = np.asarray([int(count) for count in counts]) * np.asarray(unit_costs(GAME, CONFIG, ACTIVE))
    assert 200 - 16 < spent.sum() <= 200 and counts.estimates >= 1
    np.testing.assert_allclose(spent / 200, shares, atol=0.13)  # one update is played in any case


def test_phases_without_rounds_get_none():
    once = CONFIG.replace(oracle_rounds=1)
    counts = allot_counts(jnp.array([0.3, 0.5, 0.2]), GAME, once, ACTIVE)
    assert counts.later_rounds == 0 and counts.abr_steps > 6
    untrained = CONFIG.replace(abr_steps=0)
    assert allot_counts(jnp.array([0.5, 0.1, 0.4]), GAME, untrained, ACTIVE).abr_steps == 0


def test_shares_move_to_the_error_that_dominates():
    even = jnp.full(3, 1 / 3)
    moved = next_shares(even, jnp.array([0.2, 0.0, -0.1]), CONFIG.replace(adaptive_rate=0.5, adaptive_floor=0.1))
    # wanted: 0.1 + 0.7, 0.1, 0.1; half way there
    np.testing.assert_allclose(moved, [(1 / 3 + 0.8) / 2, (1 / 3 + 0.1) / 2, (1 / 3 + 0.1) / 2], rtol=1e-4)
    stays = next_shares(even, jnp.array([0.2, 0.0, 0.0]), CONFIG.replace(adaptive_rate=0.0))
    np.testing.assert_allclose(stays, even, rtol=1e-6)
    settled = jnp.array([0.4, 0.1, 0.5])
    for _ in range(50):
        settled = next_shares(settled, jnp.array([0.0, 0.0, 0.3]), CONFIG)
    np.testing.assert_allclose(settled, [0.1, 0.1, 0.8], atol=1e-3)


def test_what_a_noisy_choice_loses():
    means = jnp.array([0.2, 0.4, 0.6, 0.8])

    def stats(variance):
        return Pulls(jnp.full(4, 10), means, jnp.full(4, 9.0 * variance))

    # all that is seen is signal: nothing is lost; all of it may be noise: there is nothing to lose either
    chosen, low = jnp.int32(3), jnp.float32(0.0)
    np.testing.assert_allclose(selection_loss(stats(0.0), chosen, low), 0.0, atol=1e-6)
    np.testing.assert_allclose(selection_loss(stats(0.51), chosen, low), 0.0, atol=1e-6)
    # the means' variance is 0.05: half signal, half noise
    half = np.sqrt(2 * np.log(4)) * np.sqrt(0.025) * (1 - np.sqrt(0.5))
    np.testing.assert_allclose(selection_loss(stats(0.25), chosen, low), half, rtol=1e-4)
    # and nothing is lost where the chosen one is not clearly better than an anchor: 0.8 - sqrt(0.025) < 0.7
    assert float(selection_loss(stats(0.25), chosen, jnp.float32(0.7))) == 0.0
    np.testing.assert_allclose(selection_loss(stats(0.25), chosen, jnp.float32(0.6)), 0.2 - np.sqrt(0.025), rtol=1e-4)


def test_a_run_of_steps():
    """The same number of episodes as without, to within an ABR step each; shares move; one trace."""
    traces = []

    @jax.jit
    def step(state, key):
        traces.append(1)
        return gems_step(state, key, GAME, CONFIG)

    state = jax.jit(lambda key: init_gems(key, GAME, CONFIG))(jax.random.key(0))
    start = np.asarray(state.shares)
    for number, key in enumerate(jax.random.split(jax.random.key(1), 4)):
        aside = 2 * 4 * 1 * 1 + 2 * 3 * CONFIG.kl_opponents  # the oracle's first round, and the trust region's states
        budget = float(planned_episodes(GAME, CONFIG, state.active).sum()) + aside
        state, metrics = step(state, key)
        assert budget - 16 < int(metrics.episodes) <= budget, number
        assert np.isfinite(metrics.errors).all()
        np.testing.assert_allclose(state.shares.sum(), 1.0, rtol=1e-5)
        assert (state.shares >= 0.03).all()  # the floor is 0.1, and half of the way is gone each time
        np.testing.assert_allclose(state.sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert len(traces) == 1 and np.abs(np.asarray(state.shares) - start).max() > 0.05


def test_without_it_there_is_nothing_to_carry():
    state = jax.eval_shape(lambda key: init_gems(key, GAME, TINY), jax.random.key(0))
    assert state.shares is None
