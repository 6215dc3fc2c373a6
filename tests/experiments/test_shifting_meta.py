"""Shifting Meta: its means and rewards, regrets by hand, and the ranking of the oracle's indices on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.measures.shifting_meta import ShiftingMeta
from experiments.studies.oracle import NEVER, play


def test_means_shift_after_round_1000():
    bandit = ShiftingMeta()
    np.testing.assert_allclose(bandit.means(1000), (0.4, 1.0, 0.5))
    np.testing.assert_allclose(bandit.means(1001), (2.0, 0.5, 0.4))
    np.testing.assert_array_equal(bandit.best(jnp.array([1, 1000, 1001, 2000])), [1, 1, 0, 0])
    assert bandit.means(jnp.ones((2, 5))).shape == (2, 5, 3) and bandit.num_arms == 3


@pytest.mark.parametrize("t", [5, 1500])
def test_rewards_have_the_means_and_deviations(t):
    bandit = ShiftingMeta()
    arms = jnp.repeat(jnp.arange(3)[:, None], 20_000, axis=1)
    rewards = np.asarray(jax.jit(bandit.pull)(jax.random.key(t), arms, t))
    # 6 standard errors of the mean, and of the deviation (its standard error is sd / sqrt(2 n)): below 1e-8 each
    error = np.asarray(bandit.deviation) / np.sqrt(20_000)
    assert (np.abs(rewards.mean(axis=1) - np.asarray(bandit.means(t))) < 6 * error).all()
    assert (np.abs(rewards.std(axis=1) - np.asarray(bandit.deviation)) < 6 * error / np.sqrt(2)).all()
    np.testing.assert_allclose(rewards, bandit.pull(jax.random.key(t), arms, jnp.full(arms.shape, t)), rtol=1e-5)


def test_the_control_stays_between_0_and_1():
    control = ShiftingMeta.bounded()
    np.testing.assert_allclose(control.means(jnp.array([1, 2000])), [(0.3, 0.7, 0.5), (0.9, 0.5, 0.4)], rtol=1e-6)
    rewards = np.asarray(control.pull(jax.random.key(0), jnp.zeros(4096, jnp.int32), 2000))
    assert rewards.min() >= 0.0 and rewards.max() == 1.0  # N(0.9, 0.3) is cut in a third of the draws
    assert hash(control) == hash(ShiftingMeta.bounded()) and control != ShiftingMeta()


def test_regrets_by_hand():
    bandit = ShiftingMeta(shift=2)
    regret = bandit.regret(jnp.array([1, 0, 1, 0]))
    np.testing.assert_allclose(regret.current, [0.0, 0.6, 2.1, 2.1], rtol=1e-5)
    np.testing.assert_allclose(regret.first_phase, [0.0, 0.6, 1.1, 0.1], rtol=1e-5)


def test_bad_arms():
    with pytest.raises(ValueError, match=r"one number per arm each, got lengths \[2, 3\]"):
        ShiftingMeta(before=(0.1, 0.2))
    with pytest.raises(ValueError, match="must not be negative"):
        ShiftingMeta(shift=-1)


# --- the study's table: regret at 1000 and 2000 rounds, mean of 50 runs


def studied(bandit, name):
    """Regrets at the shift and at the end, the latter against the first phase's best, rounds until 90 % are right."""
    played = play(bandit, name, batches=1)
    regrets, first_phase = played.current[0, [999, 1999]], played.first_phase[0, 1999]
    (adapted,) = played.adaptation_times(bandit.shift, 0.9)
    return regrets, first_phase, adapted


@pytest.mark.parametrize(
    ("name", "regrets", "first_phase", "adapted"),
    [
        ("eb_ucb", (173.2, 186.2), -814, (45, 65)),
        ("ucb1", (34.9, 240.9), -759, (200, 700)),
        ("greedy", (2.7, 1350.8), 351, (NEVER, NEVER)),
    ],
)
def test_the_study(name, regrets, first_phase, adapted):
    """Tolerances of four and more standard errors of a mean of 50 runs, measured over five batches of them."""
    found, against_first, when = studied(ShiftingMeta(), name)
    np.testing.assert_allclose(found, regrets, rtol=0.25, atol=2.0)
    np.testing.assert_allclose(against_first, first_phase, rtol=0.25)
    assert adapted[0] <= when <= adapted[1]


def test_in_the_control_ucb1_is_as_quick_as_eb_ucb():
    quick, careful = studied(ShiftingMeta.bounded(), "ucb1"), studied(ShiftingMeta.bounded(), "eb_ucb")
    np.testing.assert_allclose(quick[0][0], 47.5, rtol=0.1)
    np.testing.assert_allclose(careful[0][0], 89.8, rtol=0.1)
    assert quick[2] <= 75 and careful[2] <= 70
