"""A bandit for its own sake, played by the oracle's indices: pull counts, forced turns, rewards that change."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.measures.bandit import play_bandit
from experiments.studies.oracle import PULLS, constant_rewards, index_at
from gems_jax.meta.bandit import INDICES


@pytest.mark.parametrize(("name", "means"), PULLS)
def test_pull_counts_on_constant_rewards(name, means):
    history = constant_rewards(name, means, 10_000)
    counts = [tuple(np.bincount(history.arms[:t], minlength=len(means)).tolist()) for t in (100, 1000, 10_000)]
    assert counts == PULLS[name, means]
    np.testing.assert_array_equal(history.stats.count, counts[-1])
    np.testing.assert_array_equal(history.rewards, jnp.array(means)[history.arms])


def test_forced_turns_come_first_and_ties_go_to_the_lowest_arm():
    history = play_bandit(
        jax.random.key(0), lambda key, arm, t: 0.5, partial(index_at, "greedy"), num_arms=3, horizon=9, forced_pulls=2
    )
    np.testing.assert_array_equal(history.arms, [0, 1, 2, 0, 1, 2, 0, 0, 0])


@pytest.mark.parametrize("name", INDICES)
def test_every_index_prefers_the_best_of_noisy_arms(name):
    means = jnp.array([0.2, 0.8, 0.4])

    def share_of_best(key):
        history = play_bandit(
            key, lambda k, arm, t: jax.random.bernoulli(k, means[arm]), partial(index_at, name), 3, 400, forced_pulls=5
        )
        return jnp.mean(history.arms == 1)

    # Measured between 0.61 (eb_ucb) and 0.95; the mean of 64 runs has a deviation of at most 0.021 (greedy, at 0.94).
    assert float(jax.jit(jax.vmap(share_of_best))(jax.random.split(jax.random.key(0), 64)).mean()) > 0.5


def test_rewards_may_depend_on_the_round():
    """Arms change places half way, as in the study of a shifting meta-game."""

    def reward(key, arm, t):
        return jnp.where((t <= 50) == (arm == 0), 1.0, 0.0)

    history = play_bandit(jax.random.key(0), reward, partial(index_at, "ucb1"), 2, 100)
    np.testing.assert_array_equal(history.rewards, np.where((np.arange(1, 101) <= 50) == (history.arms == 0), 1.0, 0.0))
